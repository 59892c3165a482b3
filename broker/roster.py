"""Which worker is alive, what should it hold, and is its desktop healthy? PURE: events and `now` in; no socket, clock.

Health is counted by outcome (design 4.7): after FAILURES_TO_REBUILD desktop failures in a row a rebuild is ordered;
a desktop whose rebuilds bring no graded row, MOST_REBUILDS times, is out at the next.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from legato_rl.records import DESKTOP_OUTCOMES, GRADED_OUTCOMES, Outcome, RolloutKey
from legato_rl.wire import Beat

SILENCE_S = 30.0
"""Seconds without a beat after which a worker counts as gone."""
LOOK_S = 1.0
"""Seconds between two looks at most in which nobody is missed: what MOST_WORKERS say is read in 16 looks of 256 messages."""
FAILURES_TO_REBUILD = 2
MOST_REBUILDS = 3
MOST_WORKERS = 4096
"""Names of workers that are kept; a machine has hundreds."""
MOST_PAST = 64
"""Processes of a worker that are remembered after they were replaced."""


@dataclass
class Worker:
    """One worker as its beats tell it. `expected` is what it should hold; `rebuild` the number of the last one ordered."""

    name: str
    beat: Beat
    heard_at: float
    expected: RolloutKey | None = None
    silent: bool = False
    failures: int = 0
    rebuilds: int = 0
    rebuild: int = 0
    build_failures: int = 0
    passed: bool = False
    """Whether a desktop of this process ever passed its self-check."""
    past: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_PAST))
    """Boots of processes that are gone; their late beats say nothing any more."""
    out: str | None = None
    """Why the desktop takes no more work; None while it does."""


@dataclass(frozen=True)
class HealthChange:
    """A desktop was ordered to be rebuilt, or is out."""

    desktop: str
    event: str
    reason: str


@dataclass
class Roster:
    """All workers that ever beat here. `revive`: a desktop that is out counts again with a new process of its worker, which
    somebody must have started for that."""

    revive: bool = False
    workers: dict[str, Worker] = field(default_factory=dict)
    holders: dict[RolloutKey, str] = field(default_factory=dict)
    """Who holds or held a key whose row is not stored yet; health is counted against it."""
    looked_at: float | None = None
    """When `silences` was asked last."""

    def beat(self, beat: Beat, now: float, parked: bool = False) -> tuple[Worker, RolloutKey | None, list[HealthChange]]:
        """Take in a beat: the worker, the key that its dead predecessor held, and what became of its desktop.

        `parked`: it is one of those that have none. ValueError for one worker too many.
        """
        worker = self.workers.get(beat.worker)
        if worker is None:
            worker = self._add(Worker(beat.worker, beat, now))
        lost, changes = None, []
        if worker.beat.boot != beat.boot:
            worker.past.append(worker.beat.boot)
            # A new process: what the old one held is lost, and it knows nothing of what that was told.
            lost, worker.expected = worker.expected, None
            worker.rebuild = worker.build_failures = 0
            changes += self._replaced(worker, parked)
            worker.passed = False
        worker.beat, worker.heard_at, worker.silent = beat, now, False
        worker.passed = worker.passed or beat.ready or beat.holds is not None
        while worker.build_failures < beat.build_failures and worker.out is None:
            worker.build_failures += 1
            changes += self._failed_rebuild(worker, f"the desktop did not pass its self-check: {beat.message}")
        return worker, lost, changes

    def _replaced(self, worker: Worker, parked: bool) -> list[HealthChange]:
        """What the end of a worker's process says of its desktop."""
        if worker.out is not None:
            if self.revive:
                worker.out, worker.failures, worker.rebuilds = None, 0, 0
            return []
        if worker.passed or parked or worker.beat.phase == "parked":
            # One that was to have no desktop failed to build none.
            return []
        return self._failed_rebuild(worker, "its process ended before the desktop passed its self-check")

    def _add(self, worker: Worker) -> Worker:
        if len(self.workers) >= MOST_WORKERS:
            raise ValueError(f"worker is {worker.name!r:.100}: {MOST_WORKERS} others are known, and no service has more")
        self.workers[worker.name] = worker
        return worker

    def is_past(self, beat: Beat) -> bool:
        """Whether a beat is of a process that another one has replaced, also where this side hears of it after that."""
        worker = self.workers.get(beat.worker)
        if worker is None or beat.boot == worker.beat.boot:
            return False
        return beat.boot in worker.past or beat.started < worker.beat.started

    def expect(self, worker: Worker, key: RolloutKey | None) -> None:
        """From now on `worker` should hold `key`."""
        worker.expected = key
        if key is not None:
            self.holders[key] = worker.name

    def silences(self, now: float) -> list[RolloutKey]:
        """The keys held by workers that fell silent since the last call.

        Where that is long ago nobody listened meanwhile, and beats may lie in the socket yet: such a time is no silence.
        """
        away = max(0.0, now - self.looked_at - LOOK_S) if self.looked_at is not None else 0.0
        self.looked_at = now
        lost = []
        for worker in self.workers.values():
            worker.heard_at = min(now, worker.heard_at + away)
            if not worker.silent and now - worker.heard_at > SILENCE_S:
                worker.silent = True
                if worker.expected is not None:
                    lost.append(worker.expected)
                    worker.expected = None
        return lost

    def stored(self, key: RolloutKey, outcome: Outcome) -> list[HealthChange]:
        """A row is stored: free its holder and count its desktop's health."""
        name = self.holders.pop(key, None)
        if name is None:
            return []
        worker = self.workers[name]
        if worker.expected == key:
            worker.expected = None
        if outcome in GRADED_OUTCOMES:
            worker.failures = worker.rebuilds = 0
        elif outcome in DESKTOP_OUTCOMES:
            worker.failures += 1
            if worker.failures >= FAILURES_TO_REBUILD and worker.out is None:
                worker.failures = 0
                return self._failed_rebuild(worker, f"{FAILURES_TO_REBUILD} desktop failures in a row", order=True)
        return []

    def _failed_rebuild(self, worker: Worker, reason: str, order: bool = False) -> list[HealthChange]:
        if worker.rebuilds >= MOST_REBUILDS:
            worker.out = reason
            return [HealthChange(worker.name, "out", f"{reason}, after {MOST_REBUILDS} rebuilds")]
        worker.rebuilds += 1
        if not order:
            # A worker whose self-check failed rebuilds by itself.
            return [HealthChange(worker.name, "rebuilt", reason)]
        worker.rebuild = worker.beat.built + 1
        return [HealthChange(worker.name, "rebuilt", reason)]

    def put_out(self, name: str, reason: str) -> tuple[RolloutKey | None, list[HealthChange]]:
        """A worker whose process does not stay up (its supervisor says so): the key it held, and the change."""
        worker = self.workers.get(name)
        if worker is None:
            beat = Beat(worker=name, boot="", ready=False, phase="booting", holds=None, stored=None, built=0, build_failures=0)
            worker = self._add(Worker(name, beat, 0.0, silent=True))
        if worker.out is not None:
            return None, []
        worker.out = reason
        lost, worker.expected = worker.expected, None
        return lost, [HealthChange(name, "out", reason)]

    def holds(self, run_id: str) -> bool:
        """Whether a worker still holds, or should hold, a try of a run."""
        for worker in self.workers.values():
            if worker.silent:
                continue
            keys = [worker.expected, worker.beat.holds.key if worker.beat.holds else None]
            if any(key is not None and key.run == run_id for key in keys):
                return True
        return False

    def grades(self, run_id: str) -> bool:
        """Whether a worker is past the last action of a try of a run."""
        for worker in self.workers.values():
            holds = worker.beat.holds
            if worker.expected and not worker.silent and holds is not None and holds.key.run == run_id and holds.past_actions:
                return True
        return False

    def counts(self) -> dict[str, int]:
        """Live desktops by phase, `silent` ones, and those that are `out`."""
        counts: Counter[str] = Counter()
        for worker in self.workers.values():
            counts["out" if worker.out else "silent" if worker.silent else worker.beat.phase] += 1
        return dict(counts)

    @property
    def out(self) -> int:
        """Desktops that are out."""
        return sum(worker.out is not None for worker in self.workers.values())


def number_of(worker: str) -> int:
    """A worker's number, as in `worker-003`; 0 for a name without one."""
    digits = worker[len(worker.rstrip("0123456789")) :]
    return int(digits) if digits else 0
