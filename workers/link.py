"""How does a worker stay in touch while it works? SHELL: the link thread owns the `orders` socket.

It beats, takes orders in, and holds the deadline of the present phase: when that passes it ends the process, since a
hung guest call cannot be interrupted. The main thread does the work and tells the link where it is; `Link` is their
only common ground, guarded by one lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from legato_rl.clock import Clock
from legato_rl.config import DesktopConfig, Phase
from legato_rl.errors import ExitCode
from legato_rl.records import StopReason
from legato_rl.role import Quit
from legato_rl.sockets import Bell, Client, wait
from legato_rl.wire import Assignment, Beat, Order, Refused
from legato_rl.workers.standing import Standing

log = logging.getLogger("legato_rl.worker")

QUIT_S = 5.0
"""Seconds that the main thread has to begin closing, once the process was asked to end; it may hang in a guest call."""
LAST_WORD_S = 0.2
"""Seconds for the last beat to leave before `os._exit`, which waits for no socket."""
BEAT_S = 1.0
"""Seconds between two beats when nothing changes."""


class Stopped(BaseException):
    """The held try is to end in a row, as `stopped` for `reason`. No Exception, so that no agent's or desktop's handler
    takes it for a fault of its own."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Dropped(BaseException):
    """The held try is to end without a row, or the boot that waits is not wanted any more. No Exception, as Stopped."""


@dataclass
class Link:
    """What the two threads of a worker tell each other. Every method may be called from the main thread.

    `news` rings when an order changed something or the process was asked to end; the main thread waits on it together
    with its own sockets.
    """

    worker: str
    boot: str
    config: DesktopConfig
    clock: Clock
    quit_: Quit

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._state = Standing(started=self.clock.monotonic())
        self.news = self.quit_.bell
        self._changed = Bell()
        self._last: Beat | None = None

    # --- the main thread's side --------------------------------------------------------------------------------------

    def phase(self, phase: Phase, step: int = -1, past_actions: bool = False) -> None:
        """The main thread is now in `phase`; from here its deadline runs."""
        with self._lock:
            state = self._state
            state.phase, state.step, state.past_actions = phase, step, past_actions
            state.ready = state.ready and phase == "idle"
            state.deadline = self._deadline(phase)
        self._changed.ring()

    def _deadline(self, phase: Phase) -> float | None:
        """When `phase` is to be over, if its time begins now."""
        seconds = self.config.deadline(phase)
        return None if seconds is None else self.clock.monotonic() + seconds

    def check(self) -> None:
        """Obey a stop: raises Stopped or Dropped where one came for the held try, Dropped where the process is to end."""
        with self._lock:
            drop, stop = self._state.drop, self._state.stop
        if drop or self.quit_.asked:
            raise Dropped
        if stop is not None:
            raise Stopped(stop)

    def take(self, lease: int) -> Assignment | None:
        """Hold the try that the broker assigned, if one is there, under `lease` (in one step: no order falls between)."""
        with self._lock:
            state = self._state
            assigned, state.assigned = state.assigned, None
            if assigned is None:
                return None
            state.ready, state.holds, state.lease, state.stop, state.drop = False, assigned.key, lease, None, False
        self._changed.ring()
        return assigned

    def release(self, stored: bool) -> None:
        """The main thread is done with what it held: its row is `stored`, or it was dropped."""
        with self._lock:
            state = self._state
            if stored:
                state.stored = state.holds
            elif self.quit_.asked:
                state.dropped = state.holds
            state.holds, state.stop, state.drop = None, None, False
        self._changed.ring()

    def end(self) -> None:
        """The main thread begins nothing any more: a try that was handed out meanwhile is given back."""
        with self._lock:
            self._state.give_back_unbegun()
        self._changed.ring()

    def ready(self) -> None:
        """The desktop passed its self-check and a try may be assigned."""
        self.phase("idle")
        with self._lock:
            self._state.ready = True
        self._changed.ring()

    def built(self, message: str = "") -> None:
        """A desktop was built; `message` says why it did not pass its self-check, empty where it did."""
        with self._lock:
            state = self._state
            state.built += 1
            state.build_failures += bool(message)
            state.message = message
            state.ready = False
        self._changed.ring()

    @contextmanager
    def boot_token(self) -> Iterator[None]:
        """Boot or revert a desktop inside of this, once the broker lets one more boot.

        The wait has no deadline, and the phase's time begins with the boot. It ends as `check` does for a held try, and with
        Dropped where nothing is held and the worker is to leave or to have no desktop.
        """
        with self._lock:
            state = self._state
            state.boots += 1
            number = state.boot_ask = state.boots
            # Whoever waits hangs in nothing: others boot meanwhile, or the broker is away.
            state.deadline = None
        self._changed.ring()
        try:
            while not self._may_boot(number):
                wait([self.news], 1.0)
                self.news.clear()
            yield
        finally:
            with self._lock:
                self._state.boot_ask = 0
            self._changed.ring()

    def _may_boot(self, number: int) -> bool:
        self.check()
        with self._lock:
            state = self._state
            if state.holds is None and (state.leave or state.park):
                raise Dropped
            if state.may_boot != number:
                return False
            state.deadline = self._deadline(state.phase)
        self._changed.ring()
        return True

    def wants_rebuild(self) -> bool:
        """Whether the broker ordered a desktop that is not built yet."""
        with self._lock:
            return self._state.rebuild > self._state.built

    def leaving(self) -> bool:
        """Whether this process is of no use any more."""
        with self._lock:
            return self._state.leave

    def parked(self) -> bool | None:
        """Whether this worker should have no desktop; None before the broker was heard."""
        with self._lock:
            return self._state.park

    def quit(self) -> None:
        """End the link thread."""
        with self._lock:
            self._state.quit = True
        self._changed.ring()

    # --- the link thread's side --------------------------------------------------------------------------------------

    def run(self, orders: Client) -> None:
        """The link thread. A worker without it would be deaf and without deadlines, so a bug here ends the process."""
        try:
            self.serve(orders)
        except BaseException:
            log.exception("the link thread ended by an exception that nobody expected")
            logging.shutdown()
            os._exit(ExitCode.BUG)

    def serve(self, orders: Client) -> None:
        """Beat and hear orders until `quit`."""
        next_beat = self.clock.monotonic()
        quit_at: float | None = None
        while True:
            now = self.clock.monotonic()
            with self._lock:
                ends, deadline, phase = self._state.quit, self._state.deadline, self._state.phase
            if ends:
                # What was given back last would cost the attempt a try if it were not told.
                self._changed_beats(orders)
                return
            if self.quit_.asked and phase != "closing":
                quit_at = now + QUIT_S if quit_at is None else quit_at
                deadline = quit_at if deadline is None else min(quit_at, deadline)
            if deadline is not None and now >= deadline:
                self._end(phase, orders)
            until = next_beat if deadline is None else min(next_beat, deadline)
            wait([orders, self._changed], max(0.0, until - now))
            self._changed_beats(orders)
            now = self.clock.monotonic()
            if now >= next_beat:
                orders.send(self._beat())
                next_beat = now + BEAT_S
            for received in orders.receive():
                match received.message:
                    case Order() as order:
                        self._obey(order)
                    case Refused(reason=reason):
                        log.error("the broker refused a beat: %s", reason)
                    case other:
                        log.error("the broker sent a %s", type(other).__name__)

    def _changed_beats(self, orders: Client) -> None:
        before = self._last
        self._changed.clear()
        beat = self._beat()
        if before is None or self._told(before) != self._told(beat):
            orders.send(beat)
            self._last = beat

    @staticmethod
    def _told(beat: Beat) -> tuple[object, ...]:
        # A change of these is told at once; the phase of the moment waits for the next beat.
        holds = beat.holds
        now = beat.ready, beat.stored, beat.dropped, beat.built, beat.boot_ask
        return *now, holds and (holds.key, holds.lease, holds.past_actions)

    def _beat(self) -> Beat:
        with self._lock:
            return self._state.beat(self.worker, self.boot)

    def _obey(self, order: Order) -> None:
        if order.boot != self.boot:
            return
        with self._lock:
            state = self._state
            before = replace(state)
            if order.held is not None and order.held == state.holds:
                # A stop stays until the try ends; a late order about an earlier try changes nothing.
                state.stop = state.stop or order.stop
                state.drop = state.drop or order.drop
            if order.assign is not None and state.ready and state.holds is None and order.assign.key != state.stored:
                state.assigned = order.assign
            state.rebuild = max(state.rebuild, order.rebuild)
            state.leave, state.may_boot, state.park = order.leave, order.may_boot, order.park
            if order.park:
                state.assigned = None  # it is not begun, and handed out to somebody else
            changed = before != state
        if changed:
            self.news.ring()

    def _end(self, phase: Phase, orders: Client) -> None:
        why = f"passed its deadline of {self.config.deadline(phase)} s"
        if self.quit_.asked:
            why = "was still on when the process was to end"
            with self._lock:
                self._state.give_back()
            orders.send(self._beat())
            self.clock.sleep(LAST_WORD_S)
        log.error("the phase %s %s: this process ends itself", phase, why)
        logging.shutdown()
        os._exit(ExitCode.DEADLINE)
