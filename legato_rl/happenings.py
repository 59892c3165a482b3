"""What happened in a run, as trainers are told? PURE: stored rows and desktop events in; numbered events out.

The events follow from the order of the sink's lines alone, so that a broker that restarts numbers them alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from legato_rl.records import GRADED_OUTCOMES, USABLE, FeedRow, Status
from legato_rl.rundir import TaskSpec
from legato_rl.scoring import advantages
from legato_rl.wire import DesktopEvent, Event


@dataclass
class Happenings:
    """A run's events so far; event `n` is at `events[n - 1]`.

    `asked` is G, `closing` the graded rows that close a group early (None: only its end does), `attempts` those of a group.
    A row of a group that had ended (an error that is tried again after all) ends it, and the run, once more.
    """

    asked: int
    closing: int | None
    attempts: int
    tasks: dict[str, TaskSpec]
    events: list[Event] = field(default_factory=list)
    _rows: dict[str, list[FeedRow]] = field(default_factory=dict)
    """Rows of groups that are not closed."""
    _graded: Counter[str] = field(default_factory=Counter)
    _final: dict[str, set[int]] = field(default_factory=dict)
    """Attempts that have a final row, by group."""
    _closed: set[str] = field(default_factory=set)

    def after(self, number: int, limit: int) -> list[Event]:
        """The events after number `number`, `limit` at most."""
        return self.events[max(0, number) : max(0, number) + limit]

    def row(self, row: FeedRow) -> None:
        """A row was stored."""
        name = row.key.group
        final = self._final.setdefault(name, set())
        final.discard(row.key.attempt)
        if row.status is not Status.RETRIED:
            final.add(row.key.attempt)
        self._graded[name] += row.outcome in GRADED_OUTCOMES
        self._tell(
            "rollout",
            key=row.key.model_dump(by_alias=True),
            rollout_id=row.key.rollout_id,
            outcome=row.outcome.value,
            status=row.status.value,
            reward=row.reward,
        )
        if name not in self._closed:
            self._rows.setdefault(name, []).append(row)
        graded, ended = self._graded[name], len(final) == self.attempts
        closes = graded >= self.closing if self.closing is not None else ended and graded >= self.asked
        if closes and name not in self._closed:
            self._closed.add(name)
            self._tell("group_closed", **self._of(name), graded=graded, **_scores(self._rows.pop(name)))
        if ended:
            self._tell("group_ended", **self._of(name), graded=graded, closed=name in self._closed)
            if all(len(self._final.get(group, ())) == self.attempts for group in self.tasks):
                self._tell("run_finished", groups=len(self.tasks), closed=len(self._closed))

    def desktop(self, event: DesktopEvent) -> None:
        """A desktop was rebuilt, or is out."""
        kind = "desktop_out" if event.event == "out" else "desktop_rebuilt"
        self._tell(kind, desktop=event.desktop, reason=event.reason, at=event.at)

    def _of(self, group: str) -> dict[str, Any]:
        task = self.tasks[group]
        return {"group": group, "task": task.task_id, "meta": task.meta, "asked": self.asked}

    def _tell(self, kind: str, **data: Any) -> None:
        self.events.append(Event.model_validate({"n": len(self.events) + 1, "kind": kind, "data": data}))


def _scores(rows: list[FeedRow]) -> dict[str, Any]:
    """What a closed group came to: its usable rollouts, in the order in which they were stored."""
    usable = [row for row in rows if row.status in USABLE]
    rewards = [row.reward for row in usable if row.reward is not None]
    return {
        "usable": len(usable),
        "rollouts": [row.key.rollout_id for row in usable],
        "rewards": rewards,
        "advantages": advantages(rewards),
        "versions": sorted({version for row in usable for version in row.versions}),
    }
