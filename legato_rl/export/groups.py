"""What became of each group? An attempt's result, the group's state, and its advantages, from facts of rows. PURE.

Everything is found by id, never by position: rows arrive in the order in which they were stored, groups mixed.
Rules: docs/rollouts.md, "Groups".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from legato_rl.config import Settings
from legato_rl.errors import RecordError
from legato_rl.records import ENV_OUTCOMES, GRADED_OUTCOMES, USABLE, Outcome, Rollout, Status
from legato_rl.scoring import advantages, is_flat

GroupState = Literal["closed", "short", "open"]


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What is kept of a row while a whole run is looked at: a few words, no step."""

    group_id: str
    attempt: int
    try_: int
    outcome: Outcome
    status: Status
    reward: float | None
    line: int = 0
    """The row's line in the file, from 1."""
    offset: int = 0
    """Where that line starts, in bytes."""
    rollout_id: str = ""
    versions: int = 0
    """How many policy versions it has."""


def facts_of(rollout: Rollout, line: int = 0, offset: int = 0) -> RowFacts:
    """The facts of `rollout`, which is line `line` of its file, at byte `offset`."""
    return RowFacts(
        group_id=rollout.group_id,
        attempt=rollout.attempt,
        try_=rollout.try_,
        outcome=rollout.outcome,
        status=rollout.status,
        reward=rollout.reward,
        line=line,
        offset=offset,
        rollout_id=rollout.rollout_id,
        versions=len(rollout.policy.versions),
    )


@dataclass(frozen=True)
class Group:
    """All attempts at one task, as far as they are stored."""

    group_id: str
    state: GroupState
    """`closed`: rewards and advantages are final. `short`: every attempt ended without closing it. Else `open`."""
    asked: int
    """G, the graded attempts that were asked for; extras (`--oversample`) are not in it."""
    graded: int
    """Graded rows stored, `surplus` included."""
    ended: int
    """Attempts that have their final row."""
    usable: list[RowFacts]
    """The result rows with status `ok` or `truncated`, by attempt."""
    advantages: dict[int, float]
    """Attempt -> advantage, of the usable rows and of no other."""

    @property
    def flat(self) -> bool:
        """Whether the usable rewards do not differ, so that every advantage is 0."""
        return is_flat([reward_of(row) for row in self.usable])


def fold_groups(
    facts: Iterable[RowFacts], settings: Settings, group_ids: Sequence[str], again: Collection[str] = ()
) -> list[Group]:
    """The groups of a run, in the order of `group_ids`; one without a row is open.

    `again` are ids of rollouts that did not end their attempts, though they are errors (`run.json`, `again`).
    RecordError where a row belongs to none of them, or has an attempt that the settings do not know.
    """
    results: dict[str, dict[int, RowFacts]] = {group_id: {} for group_id in group_ids}
    graded = dict.fromkeys(group_ids, 0)
    for row in facts:
        if row.group_id not in results:
            raise RecordError(f"{_at(row)}: group_id is {row.group_id!r}, which is no group of this run (tasks.jsonl)")
        if row.attempt >= settings.attempts:
            raise RecordError(f"{_at(row)}: attempt is {row.attempt}, but a group has {settings.attempts}")
        graded[row.group_id] += row.outcome in GRADED_OUTCOMES
        stored = results[row.group_id].get(row.attempt)
        if stored is None or row.try_ > stored.try_:
            results[row.group_id][row.attempt] = row
    return [_group(group_id, results[group_id], graded[group_id], settings, again) for group_id in group_ids]


def _at(row: RowFacts) -> str:
    return f"rollouts.jsonl, line {row.line}"


def env_errors(facts: Sequence[RowFacts], settings: Settings, group_ids: Sequence[str]) -> list[str]:
    """Ids of the rollouts that ended their attempts as errors of kind env, in groups that are not closed; sorted."""
    closed = {group.group_id for group in fold_groups(facts, settings, group_ids) if group.state == "closed"}
    results = {(row.group_id, row.attempt): row for row in sorted(facts, key=lambda row: row.try_)}
    return sorted(
        row.rollout_id
        for row in results.values()
        if row.status is Status.ERROR and row.outcome in ENV_OUTCOMES and row.group_id not in closed
    )


def _group(group_id: str, results: dict[int, RowFacts], graded: int, settings: Settings, again: Collection[str]) -> Group:
    ended = sum(row.status is not Status.RETRIED and row.rollout_id not in again for row in results.values())
    usable = [results[attempt] for attempt in sorted(results) if results[attempt].status in USABLE]
    values = advantages([reward_of(row) for row in usable])
    return Group(
        group_id=group_id,
        state=_state(ended == settings.attempts, graded, settings),
        asked=settings.group,
        graded=graded,
        ended=ended,
        usable=usable,
        advantages={row.attempt: value for row, value in zip(usable, values, strict=True)},
    )


def _state(ended: bool, graded: int, settings: Settings) -> GroupState:
    """`first` closes a group with its G-th graded row; `all` when it has ended with at least G of them."""
    if graded >= settings.group and (ended or settings.close == "first"):
        return "closed"
    return "short" if ended else "open"


def reward_of(row: RowFacts) -> float:
    """The reward of a usable row. RecordError where it has none."""
    if row.reward is None:
        raise RecordError(f"{_at(row)}: reward is null, but the status is {row.status.value}")
    return row.reward
