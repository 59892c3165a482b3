"""What happened in a run, as trainers are told? PURE: stored rows and desktop events in; numbered events out.

The events follow from the order of the sink's lines alone, so that a broker that restarts numbers them alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from legato_rl.broker.groups import Group
from legato_rl.records import USABLE, FeedRow
from legato_rl.rundir import TaskSpec
from legato_rl.scoring import advantages
from legato_rl.wire import DesktopEvent, Event


@dataclass
class Happenings:
    """A run's events so far; event `n` is at `events[n - 1]`. `asked` is G."""

    asked: int
    tasks: dict[str, TaskSpec]
    events: list[Event] = field(default_factory=list)
    _rows: dict[str, list[FeedRow]] = field(default_factory=dict)
    """Rows of groups that are open."""
    _closed: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)

    def after(self, number: int, limit: int) -> list[Event]:
        """The events after number `number`, `limit` at most."""
        return self.events[max(0, number) : max(0, number) + limit]

    def row(self, row: FeedRow, group: Group) -> None:
        """A row was stored, and `group` stands as it does after it."""
        name = row.key.group
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
        if group.closed and name not in self._closed:
            self._closed.add(name)
            self._tell("group_closed", **self._of(name), graded=group.graded, **_scores(self._rows.pop(name)))
        if group.ended and name not in self._ended:
            self._ended.add(name)
            self._rows.pop(name, None)
            self._tell("group_ended", **self._of(name), graded=group.graded, closed=group.closed)

    def desktop(self, event: DesktopEvent) -> None:
        """A desktop was rebuilt, or is out."""
        kind = "desktop_out" if event.event == "out" else "desktop_rebuilt"
        self._tell(kind, desktop=event.desktop, reason=event.reason, at=event.at)

    def finished(self) -> None:
        """Every attempt has ended."""
        self._tell("run_finished", groups=len(self.tasks), closed=len(self._closed))

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
