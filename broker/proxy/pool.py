"""Who waits for the model server? Threads with one connection each, and one more that looks at its health.

Jobs go in by a queue; what came of them goes out by another, with a bell for the poll loop. The threads touch no other
socket and no state of the loop. An abort names the attempt, not the thread: that may serve another one by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from legato_rl.broker.proxy.job import Job, attempt
from legato_rl.broker.proxy.orders import Completed
from legato_rl.clock import Clock
from legato_rl.policy.upstream import Upstream
from legato_rl.policy.verdicts import Action, Verdict
from legato_rl.sockets import Bell

log = logging.getLogger("legato_rl.proxy")

PROBE_S = 10.0
"""Seconds that /health has to answer a probe: long enough for a server that is only busy."""
CLOSE_S = 2.0
"""Seconds that the threads have to end; the rest are daemons and go with the process."""
NOT_SENT = Verdict(Action.CANCELLED, "cancelled", "the call was aborted before it was sent")


@dataclass(frozen=True)
class Ended:
    """What came of an attempt."""

    job: Job
    result: Completed | Verdict


@dataclass(frozen=True)
class Probed:
    """What /health said."""

    healthy: bool


class Pool:
    """Connections to one server, a thread for each; `connect` makes them. Methods are for one thread, the loop's.

    `bell` rings with each result; it may outlive the pool, whose threads may outlive `close`.
    """

    def __init__(self, threads: int, connect: Callable[[], Upstream], clock: Clock, bell: Bell) -> None:
        self._bell = bell
        self._connect = connect
        self._clock = clock
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._probes: SimpleQueue[bool] = SimpleQueue()
        self._results: SimpleQueue[Ended | Probed] = SimpleQueue()
        self._lock = Lock()
        self._unsent: set[int] = set()
        """Attempts that no thread has taken yet; what is aborted is taken out."""
        self._at: dict[int, Upstream] = {}
        """By attempt: the connection that serves it."""
        self._upstreams: list[Upstream] = []
        self._prober = connect()
        self._threads = [Thread(target=self._probe, name="prober", daemon=True)]
        self._threads[0].start()
        self.grow(threads)

    def grow(self, threads: int) -> None:
        """Have at least so many connections. None is taken away: what bounds the attempts is the core."""
        while len(self._upstreams) < threads:
            upstream = self._connect()
            thread = Thread(target=self._serve, args=(upstream,), name=f"upstream-{len(self._upstreams)}", daemon=True)
            thread.start()
            self._upstreams.append(upstream)
            self._threads.append(thread)

    def start(self, job: Job) -> None:
        """Have a thread make this attempt; its `Ended` will be among the results."""
        with self._lock:
            self._unsent.add(job.token)
        self._jobs.put(job)

    def abort(self, token: int) -> None:
        """Close the connection of attempt `token`, unless it has ended by itself. Its `Ended` still comes."""
        with self._lock:
            self._unsent.discard(token)
            upstream = self._at.get(token)
            if upstream is not None:
                upstream.abort(token)

    def probe(self) -> None:
        """Have the server's health looked at; a `Probed` will be among the results."""
        self._probes.put(True)

    def results(self) -> Iterator[Ended | Probed]:
        """What came since, without waiting."""
        while True:
            try:
                yield self._results.get_nowait()
            except Empty:
                return

    def close(self) -> None:
        """Abort what is in the air and end the threads. One that is in a health check may outlive this by its time."""
        for _ in self._upstreams:
            self._jobs.put(None)
        self._probes.put(False)
        with self._lock:
            self._unsent.clear()
            for token, upstream in self._at.items():
                upstream.abort(token)
        give_up = self._clock.monotonic() + CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, give_up - self._clock.monotonic()))
        for upstream in (*self._upstreams, self._prober):
            upstream.close()

    def _serve(self, upstream: Upstream) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                wanted = job.token in self._unsent
                self._unsent.discard(job.token)
                if wanted:
                    self._at[job.token] = upstream
            try:
                result = attempt(job, upstream, self._clock) if wanted else NOT_SENT
            except Exception as error:
                # A bug must cost its call, not the thread and with it a slot for good.
                log.exception("attempt %d ended by an exception that nobody expected", job.token)
                result = Verdict(Action.FAIL, "bug", f"the proxy failed: {type(error).__name__}; see its log")
            with self._lock:
                self._at.pop(job.token, None)
            self._report(Ended(job, result))

    def _probe(self) -> None:
        while self._probes.get():
            try:
                healthy = self._prober.health(PROBE_S)
            except Exception:
                log.exception("the health probe ended by an exception that nobody expected")
                healthy = False
            self._report(Probed(healthy))

    def _report(self, result: Ended | Probed) -> None:
        self._results.put(result)
        self._bell.ring()
