"""Where does one run stand? PURE: the sink's feed and the time in; its groups, rows and state.

It hands nothing out before all of the sink's rows are known, while the sink is silent or cannot write, while (below
`min_free_gb`) the disk is nearly full, or while the model server does not know its model.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from legato_rl.broker.groups import Groups, UnknownTransition
from legato_rl.config import Settings
from legato_rl.happenings import Happenings
from legato_rl.records import DESKTOP_OUTCOMES, Outcome, RolloutKey, Status
from legato_rl.rundir import TaskSpec
from legato_rl.wire import Assignment, Feed, FeedRow, GroupCounts

SINK_SILENT_S = 5.0
"""Seconds without an answer of the sink after which nothing is handed out."""
GRADING_GRACE_S = 30.0
"""Seconds that a resumable stop leaves to tries that are past their last action."""
FAILURE_WINDOW = 20
"""Tries over which the share of desktop failures is taken."""

State = Literal["running", "stopping", "finished", "stopped"]


@dataclass
class Run:
    """A run's decisions. `again` names rollouts that ended as errors and whose attempts are tried once more."""

    run_id: str
    settings: Settings
    tasks: list[TaskSpec]
    today: str = ""
    priority: int = 0
    again: frozenset[str] = frozenset()
    state: State = "running"
    reason: str = ""
    rows: Counter[str] = field(default_factory=Counter)
    feed_last: int = 0
    """Number of the last row taken in."""
    events_last: int = 0
    """Number of the last desktop event taken in."""
    loaded: bool = False
    """Whether all rows that were stored before this side began are taken in."""
    trouble: str = ""
    """Why the sink cannot write now."""
    without_model: str = ""
    """Why its calls wait, while the model server knows no model of the name that they give."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Rows that the table does not know."""
    stored: list[FeedRow] = field(default_factory=list)
    """Rows taken in since the roster last heard of them (`Core.feed`)."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.by_group = {task.group_id: task for task in self.tasks}
        closing = settings.group if settings.close == "first" else None
        self.groups = Groups(self.run_id, settings.group, closing)
        self.happenings = Happenings(settings.group, closing, settings.attempts, self.by_group)
        for task in self.tasks:
            self.groups.add(task.group_id, settings.attempts)
        self._window: deque[bool] = deque(maxlen=FAILURE_WINDOW)
        self._sink_heard = -SINK_SILENT_S
        self._grace_until = 0.0

    # --- events ------------------------------------------------------------------------------------------------------

    def feed(self, feed: Feed, now: float) -> bool:
        """The sink told rows and desktop events; whether all that it has is now known.

        They are taken in the order in which they were stored. A gap or a repeat changes nothing: the shell asks again from
        `feed_last` and `events_last`.
        """
        self._sink_heard = now
        self.trouble = feed.trouble or self._full(feed.free_mb)
        rows = {row.n: row for row in feed.rows}
        events = {event.n: event for event in feed.events}
        while True:
            event, row = events.get(self.events_last + 1), rows.get(self.feed_last + 1)
            if event is not None and event.after <= self.feed_last:
                self.events_last += 1
                self.happenings.desktop(event)
            elif row is not None and (event is not None or self.events_last >= feed.events_last):
                self.feed_last += 1
                self._row(row)
            else:
                break
        complete = self.feed_last >= feed.last and self.events_last >= feed.events_last
        self.loaded = self.loaded or complete
        self._settle(now)
        return complete

    def stop(self, reason: str, now: float) -> None:
        """Stop, resumable: nothing is handed out any more. A repeat changes nothing."""
        if self.state == "running":
            self.state, self.reason = "stopping", reason
            self._grace_until = now + GRADING_GRACE_S

    def tick(self, now: float, grading: bool) -> None:
        """Time passed. `grading`: a worker still grades or stores one of its tries; what is earlier leaves no row anyway."""
        if self.loaded and now - self._sink_heard >= SINK_SILENT_S and not self.trouble:
            self.trouble = f"the sink has not answered for {SINK_SILENT_S:.0f} s"
        if self.state == "stopping" and (now >= self._grace_until or not grading):
            self.state = "stopped"

    # --- what follows ------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether nothing will be done for it any more."""
        return self.state in ("finished", "stopped")

    def may_hand_out(self, now: float) -> bool:
        """Whether a try of it may be begun now."""
        heard = now - self._sink_heard < SINK_SILENT_S
        return self.state == "running" and self.loaded and heard and not self.trouble and not self.without_model

    def in_grace(self, now: float) -> bool:
        """Whether a try that only has its grading left may go on though the run stops."""
        return now < self._grace_until

    def assignment(self, key: RolloutKey, policy: int) -> Assignment:
        """The try `key` as its worker needs it."""
        task = self.by_group[key.group]
        return Assignment(
            key=key,
            task_id=task.task_id,
            domain=task.domain,
            task=task.config,
            max_steps=task.max_steps,
            meta=task.meta,
            settings=self.settings.model_dump(mode="json"),
            today=self.today,
            policy=policy,
        )

    def attempts_named(self, group: str, task: str, attempt: int | None) -> list[tuple[str, int]]:
        """The attempts that fit, by group and number; "" and None fit any. ValueError where there is none."""
        found = [
            (name, number)
            for name, one in self.groups.groups.items()
            if group in ("", name) and task in ("", self.by_group[name].task_id)
            for number in range(len(one.attempts))
            if attempt in (None, number)
        ]
        if not found:
            asked = {"group": group, "task": task, "attempt": "" if attempt is None else attempt}
            named = ", ".join(f"{name} {value!r:.100}" for name, value in asked.items() if value != "")
            raise ValueError(f"run {self.run_id} has no attempt with {named}")
        return found

    def closed(self) -> set[str]:
        """The groups that are closed."""
        return {name for name, group in self.groups.groups.items() if group.closed}

    def group_counts(self) -> GroupCounts:
        """Groups by how they stand."""
        closed = len(self.closed())
        short = sum(group.ended and not group.closed for group in self.groups.groups.values())
        total = len(self.groups.groups)
        return GroupCounts(total=total, closed=closed, short=short, open=total - closed - short)

    @property
    def attempts_ended(self) -> int:
        """Attempts that have their final row."""
        return sum(attempt.state.value == "ended" for group in self.groups.groups.values() for attempt in group.attempts)

    def _row(self, row: FeedRow) -> None:
        self.rows[row.status.value] += 1
        self.stored.append(row)
        again = row.status is Status.ERROR and row.key.rollout_id in self.again
        try:
            self.groups.stored(row.key, row.outcome, row.status, again)
        except UnknownTransition as error:
            self.ignored[str(error)] += 1
            return
        self.happenings.row(row)
        # A run that goes on begins with a clean slate, whatever stopped it.
        if self.loaded and row.outcome not in (Outcome.NOT_STARTED, Outcome.STOPPED):
            self._window.append(row.outcome in DESKTOP_OUTCOMES)

    def _settle(self, now: float) -> None:
        if self.state in ("running", "stopping") and self.loaded and self.groups.ended:
            self.state = "finished"
        failed = sum(self._window)
        if len(self._window) == FAILURE_WINDOW and failed > self.settings.stop_failure_share * FAILURE_WINDOW:
            self.stop(f"{failed} of the last {FAILURE_WINDOW} tries failed on the desktop", now)

    def _full(self, free_mb: int) -> str:
        least = self.settings.min_free_gb * 1024
        if 0 <= free_mb < least:
            return f"{free_mb} MiB are free where the run is stored, less than --min-free ({least:.0f} MiB): make space there"
        return ""
