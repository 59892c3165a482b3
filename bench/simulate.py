"""How long would a run take if only its waits took time? The pure broker core, driven by a simulated clock.

The decisions are the product's: `Core` hands out and stops, the sink's `Index` sets the status. A message arrives, a
row is stored and a step is computed in no time at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from courses import Course  # bench/ is on the path of its own scripts

from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.sink.index import Index
from legato_rl.records import Draft, Outcome, PolicyStamp, RolloutKey, dump
from legato_rl.rundir import RunFile, TaskSpec
from legato_rl.wire import Beat, Feed, Holding, Order, PolicyName

CourseOf = Callable[[RolloutKey], Course]


@dataclass
class Desk:
    """One simulated desktop. `version` counts its plans, so that an end that was planned before a stop is known as old."""

    name: str
    begun: float = 0.0
    key: RolloutKey | None = None
    ends_as: Draft | None = None
    stored: RolloutKey | None = None
    version: int = 0
    up: bool = False

    def beat(self) -> Beat:
        """What a worker would tell."""
        holds = Holding(key=self.key, lease=0, phase="policy", step=0) if self.key else None
        return Beat(
            worker=self.name,
            boot=self.name,
            ready=holds is None,
            phase="policy" if holds else "idle",
            holds=holds,
            stored=self.stored,
            built=1,
            build_failures=0,
        )


@dataclass
class Simulation:
    """One run. `ready_at`: the moment, in seconds, at which each desktop is ready for work."""

    run: RunFile
    tasks: list[TaskSpec]
    course_of: CourseOf
    ready_at: list[float]
    first_assigned: float | None = None
    last_stored: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    busy_s: float = 0.0
    """Seconds of all desktops together in which they held a try."""

    def __post_init__(self) -> None:
        settings = self.run.settings
        policy = PolicyName(model=settings.policy.model, version=settings.policy.version)
        self._core = Core(settings.desktops, settings.boots_at_once, policy, once=True, restarted=False, now=0.0)
        self._decided = Run(self.run.run_id, settings, self.tasks)
        self._core.begin(self._decided)
        self._index = Index(self.run.run_id, settings.closing, settings.env_retries)
        self._desks = {f"d{i}": Desk(f"d{i}") for i in range(len(self.ready_at))}
        self._plans: list[tuple[float, str, int]] = []

    def makespan(self) -> float:
        """Seconds from the first assignment to the last stored row."""
        for desk, at in zip(self._desks.values(), self.ready_at, strict=True):
            heapq.heappush(self._plans, (at, desk.name, desk.version))
        while self._plans and self._decided.state == "running":
            now, name, version = heapq.heappop(self._plans)
            desk = self._desks[name]
            if version != desk.version:
                continue
            desk.up = True
            if desk.ends_as is not None:
                self._store(desk, desk.ends_as, now)
            self._core.feed(Feed(run=self.run.run_id, rows=[], last=self._index.last), now)  # the sink is never silent
            for other in self._desks.values():
                if other.up and other.key is None:
                    self._obey(other, self._core.beat(other.beat(), now), now)
        if self._decided.state != "finished" or self.first_assigned is None:
            raise SystemExit(f"the simulated run is {self._decided.state} with nothing left to happen")
        self.statuses = dict(self._decided.rows)
        return self.last_stored - self.first_assigned

    def _obey(self, desk: Desk, order: Order, now: float) -> None:
        if order.assign is not None:
            key = order.assign.key
            course = self.course_of(key)
            desk.key, desk.ends_as, desk.begun = key, course.draft, now
            self._plan(desk, now + course.seconds)
            self._core.beat(desk.beat(), now)
            if self.first_assigned is None:
                self.first_assigned = now
        elif order.stop is not None and desk.key is not None:
            at = self.course_of(desk.key).stopped_at(now - desk.begun)
            if at is not None:
                desk.ends_as = _draft(desk.key, Outcome.STOPPED)
                self._plan(desk, desk.begun + at)

    def _plan(self, desk: Desk, at: float) -> None:
        desk.version += 1
        heapq.heappush(self._plans, (at, desk.name, desk.version))

    def _store(self, desk: Desk, draft: Draft, now: float) -> None:
        self.busy_s += now - desk.begun
        desk.stored, desk.key, desk.ends_as = desk.key, None, None
        drafts = [draft]
        while drafts:
            row = self._index.add(dump(self._index.settle(drafts.pop(0))))
            self.last_stored = now
            for order in self._core.feed(Feed(run=self.run.run_id, rows=[row], last=row.n), now):
                self._obey(self._desks[order.boot], order, now)
            if not drafts:
                drafts = [_draft(key, outcome) for key, outcome in self._core.owed(now)]


def _draft(key: RolloutKey, outcome: Outcome) -> Draft:
    return Draft(
        run_id=key.run,
        rollout_id=key.rollout_id,
        task_id=key.group,
        domain=None,
        group_id=key.group,
        attempt=key.attempt,
        try_=key.try_,
        policy=PolicyStamp(model="", version="", versions=[]),
        desktop=None,
        outcome=outcome,
    )
