"""What should each worker do now? PURE: beats, stored rows and time in; orders and owed rows out.

The one door for decisions of a run. It hands nothing out before the sink's rows are loaded, while the sink is silent,
or (after a restart of this process) before the workers had time to say what they hold.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from legato_rl.broker.groups import Groups, UnknownTransition
from legato_rl.broker.roster import HealthChange, Roster, Worker
from legato_rl.broker.tokens import BootTokens
from legato_rl.config import Settings
from legato_rl.records import DESKTOP_OUTCOMES, Outcome, RolloutKey, StopReason
from legato_rl.rundir import TaskSpec
from legato_rl.wire import Assignment, Beat, Feed, FeedRow, GroupCounts, Order, ProxyBeat

SINK_SILENT_S = 5.0
"""Seconds without an answer of the sink after which nothing is handed out."""
RECONCILE_S = 3.0
"""Seconds that a restarted broker listens to beats before it hands anything out."""
GRADING_GRACE_S = 30.0
"""Seconds that a resumable stop leaves to tries that are past their last action."""
LIFELESS_S = 300.0
"""Seconds without a beat of any worker after which the run stops."""
FAILURE_WINDOW = 20
"""Tries over which the share of desktop failures is taken."""

State = Literal["running", "stopping", "finished", "stopped"]


@dataclass
class Core:
    """A run's decisions. `restarted`: this is not the run's first broker."""

    run_id: str
    settings: Settings
    tasks: list[TaskSpec]
    restarted: bool
    now: float
    state: State = "running"
    reason: str = ""
    rows: Counter[str] = field(default_factory=Counter)
    proxy: ProxyBeat | None = None
    sink_trouble: str = ""
    """Why the sink cannot write now; nothing is handed out meanwhile."""
    feed_last: int = 0
    """Number of the last row taken in."""
    changes: list[HealthChange] = field(default_factory=list)
    """What became of desktops since the shell last took this list."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Events that the tables do not know, by what they were."""

    def __post_init__(self) -> None:
        settings = self.settings
        closing = settings.group if settings.close == "first" else None
        self.groups = Groups(self.run_id, settings.group, closing)
        self.roster = Roster()
        self.tokens = BootTokens(settings.boots_at_once)
        self._tasks = {task.group_id: task for task in self.tasks}
        for task in self.tasks:
            self.groups.add(task.group_id, settings.attempts)
        self._window: deque[bool] = deque(maxlen=FAILURE_WINDOW)
        self._loaded = False
        self._sink_heard = -SINK_SILENT_S
        self._open_at = self.now + (RECONCILE_S if self.restarted else 0.0)
        self._grace_until = 0.0
        self._life_at = self.now
        self._last_out = ""

    # --- events ------------------------------------------------------------------------------------------------------

    def beat(self, beat: Beat, now: float) -> Order:
        """A worker beat: the order that answers it."""
        if self.roster.is_past(beat):
            # Old and new beats may come interleaved after this side was busy; the old process is gone, or should be.
            self.ignored["beat of a process that was replaced"] += 1
            return Order(boot=beat.boot, leave=True)
        self._life_at = now
        worker, lost, changes = self.roster.beat(beat, now)
        self.tokens.ask(worker.name, beat.boot_ask)
        self._changed(changes)
        if lost is not None:
            self.groups.lose(lost)
        holds = beat.holds.key if beat.holds else None
        if holds is None and worker.expected is not None and self.state != "running":
            self.groups.drop(worker.expected)
            self.roster.expect(worker, None)
        elif holds is not None and worker.expected is None and self.groups.adopt(holds):
            self.roster.expect(worker, holds)
        self._assign(worker, now)
        return self.order(worker, now)

    def order(self, worker: Worker, now: float) -> Order:
        """What `worker` should hold, as its last beat and the run stand, and whether it may boot."""
        return self._held(worker, now).model_copy(update={"may_boot": self.tokens.granted.get(worker.name, 0)})

    def _held(self, worker: Worker, now: float) -> Order:
        beat = worker.beat
        holding = beat.holds
        if holding is None:
            # A key that the worker saw stored is never assigned again, though the feed may not have told it yet.
            key = worker.expected if worker.expected != beat.stored else None
            assignment = self._assignment(key) if key else None
            leave = self.state in ("finished", "stopped") or worker.out is not None
            return Order(boot=beat.boot, assign=assignment, rebuild=worker.rebuild, leave=leave)
        if holding.key != worker.expected and not self._loaded:
            # Which try is the present one is not known yet.
            return Order(boot=beat.boot, held=holding.key)
        if holding.key != worker.expected:
            return Order(boot=beat.boot, held=holding.key, drop=True, rebuild=worker.rebuild)
        if self.state != "running":
            graded_soon = holding.past_actions and now < self._grace_until
            return Order(boot=beat.boot, held=holding.key, drop=not graded_soon, rebuild=worker.rebuild)
        stop: StopReason | None = "group_closed" if self.groups.is_closed(holding.key.group) else None
        return Order(boot=beat.boot, held=holding.key, stop=stop, rebuild=worker.rebuild)

    def feed(self, feed: Feed, now: float) -> list[Order]:
        """The sink told rows: the orders that should leave at once.

        To workers whose group closed, and to idle ones for which there is work now. Rows come in order; a gap or a
        repeat changes nothing, since the shell asks again from `feed_last`.
        """
        self._sink_heard = now
        self.sink_trouble = feed.trouble
        closed_before = self._closed()
        for row in feed.rows:
            if row.n == self.feed_last + 1:
                self.feed_last = row.n
                self._row(row)
        self._loaded = self._loaded or self.feed_last >= feed.last
        self._settle()
        newly_closed = self._closed() - closed_before
        told = []
        for worker in self.roster.workers.values():
            stops = worker.expected is not None and worker.expected.group in newly_closed
            if stops or self._assign(worker, now):
                told.append(self.order(worker, now))
        return told

    def heard_proxy(self, beat: ProxyBeat, now: float) -> None:
        """The proxy beat."""
        self.proxy = beat
        if beat.gave_up:
            what = "is down" if beat.state == "down" else "only puts calls off"
            self.stop(f"the model server {what}: {beat.message}", now)

    def lost_desktop(self, name: str, reason: str) -> None:
        """The supervisor gave a worker up."""
        lost, changes = self.roster.put_out(name, reason)
        self.tokens.release(name)
        if lost is not None:
            self.groups.lose(lost)
        self._changed(changes)

    def owed(self, now: float) -> list[tuple[RolloutKey, Outcome]]:
        """The rows that this side has to write now; none before the workers had time to say what they hold."""
        return self.groups.owed() if now >= self._open_at else []

    def tick(self, now: float) -> None:
        """Time passed."""
        for key in self.roster.silences(now):
            self.groups.lose(key)
        for worker in self.roster.workers.values():
            if worker.silent:
                self.tokens.release(worker.name)
        if self.state == "running" and now - self._life_at > LIFELESS_S:
            self.stop(f"no worker was heard for {LIFELESS_S:.0f} s: see the workers' logs", now)
        if self.state == "running" and self.roster.out >= self.settings.desktops:
            self.stop(f"no desktop is left: the last one is out since {self._last_out}; see desktops.jsonl", now)
        if self.state == "stopping" and (now >= self._grace_until or not self._grading()):
            self.state = "stopped"

    def stop(self, reason: str, now: float) -> None:
        """Stop, resumable: nothing is handed out any more. A repeat changes nothing."""
        if self.state == "running":
            self.state, self.reason = "stopping", reason
            self._grace_until = now + GRADING_GRACE_S

    # --- what follows ------------------------------------------------------------------------------------------------

    def _grading(self) -> bool:
        """Whether a worker still grades or stores a try; what is earlier in its course leaves no row anyway."""
        holdings = (worker.beat.holds for worker in self.roster.workers.values() if worker.expected and not worker.silent)
        return any(holds is not None and holds.past_actions for holds in holdings)

    def _row(self, row: FeedRow) -> None:
        self.rows[row.status.value] += 1
        self._changed(self.roster.stored(row.key, row.outcome))
        try:
            self.groups.stored(row.key, row.outcome, row.status)
        except UnknownTransition as error:
            self.ignored[str(error)] += 1
        if row.outcome not in (Outcome.NOT_STARTED, Outcome.STOPPED):
            self._window.append(row.outcome in DESKTOP_OUTCOMES)

    def _settle(self) -> None:
        if self.state in ("running", "stopping") and self._loaded and self.groups.ended:
            self.state = "finished"
        failed = sum(self._window)
        if len(self._window) == FAILURE_WINDOW and failed > self.settings.stop_failure_share * FAILURE_WINDOW:
            self.stop(f"{failed} of the last {FAILURE_WINDOW} tries failed on the desktop", self._sink_heard)

    def _changed(self, changes: list[HealthChange]) -> None:
        self.changes += changes
        for change in changes:
            if change.event == "out":
                self._last_out = change.reason

    def _assign(self, worker: Worker, now: float) -> bool:
        """Hand the next try to `worker` if it may take one; whether it got one."""
        if not self._may_assign(worker, now):
            return False
        self.roster.expect(worker, self.groups.take())
        return worker.expected is not None

    def _may_assign(self, worker: Worker, now: float) -> bool:
        return (
            self.state == "running"
            and worker.expected is None
            and worker.beat.holds is None
            and not worker.silent
            and not self.sink_trouble
            and self._loaded
            and now >= self._open_at
            and now - self._sink_heard < SINK_SILENT_S
            and worker.beat.ready
            and worker.out is None
            and worker.rebuild <= worker.beat.built
        )

    def _assignment(self, key: RolloutKey) -> Assignment:
        task = self._tasks[key.group]
        return Assignment(
            key=key,
            task_id=task.task_id,
            domain=task.domain,
            task=task.config,
            max_steps=task.max_steps,
            meta=task.meta,
        )

    def _closed(self) -> set[str]:
        return {name for name, group in self.groups.groups.items() if group.closed}

    # --- for people --------------------------------------------------------------------------------------------------

    def group_counts(self) -> GroupCounts:
        """Groups by how they stand."""
        closed = len(self._closed())
        short = sum(group.ended and not group.closed for group in self.groups.groups.values())
        total = len(self.groups.groups)
        return GroupCounts(total=total, closed=closed, short=short, open=total - closed - short)

    def desktop_counts(self) -> dict[str, int]:
        """Live desktops by phase, `silent` ones, and those that are `out`."""
        counts: Counter[str] = Counter()
        for worker in self.roster.workers.values():
            counts["out" if worker.out else "silent" if worker.silent else worker.beat.phase] += 1
        return dict(counts)
