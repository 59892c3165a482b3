"""Which rows are stored, and what does the next one get? PURE: no sockets, no files, no clock.

The index holds a few facts per row, so that memory does not grow with what rollouts hold; it is rebuilt from the file.
Invariants: one row per key; a group has exactly min(K, its graded rows) usable rows; a row's status is the one that
`legato_rl.status.decide` gives for the rows before it in the file.
"""

from __future__ import annotations

from sys import intern
from typing import Any, NamedTuple

from pydantic import ValidationError

from legato_rl.bad_input import damage
from legato_rl.errors import RecordError
from legato_rl.records import GRADED_OUTCOMES, USABLE, Draft, Outcome, Rollout, RolloutKey, Status
from legato_rl.status import decide
from legato_rl.wire import FeedRow


class _Facts(NamedTuple):
    group: str
    attempt: int
    try_: int
    outcome: Outcome
    status: Status
    reward: float | None
    versions: tuple[str, ...]
    error_kind: str
    """Of a row whose status is error; else empty."""


class Index:
    """The rows of one run in file order. `closing` is K: the graded rows that close a group."""

    def __init__(self, run_id: str, closing: int, env_retries: int) -> None:
        self.run_id = run_id
        self._closing = closing
        self._env_retries = env_retries
        self._rows: list[_Facts] = []
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._graded: dict[str, int] = {}

    @property
    def last(self) -> int:
        """The number of the last row; 0 where there is none."""
        return len(self._rows)

    def graded(self, group: str) -> int:
        """How many graded rows of `group` are stored."""
        return self._graded.get(group, 0)

    def standing(self, key: RolloutKey) -> FeedRow | None:
        """The row that stands under `key`; None where none does."""
        number = self._numbers.get((key.group, key.attempt, key.try_))
        return None if number is None or key.run != self.run_id else self._feed_row(number)

    def after(self, number: int, limit: int) -> list[FeedRow]:
        """The rows after row `number` in file order, `limit` at most."""
        first = max(0, number) + 1
        return [self._feed_row(n) for n in range(first, min(self.last, first + limit - 1) + 1)]

    def settle(self, draft: Draft) -> Rollout:
        """The row that `draft` becomes if it is appended now. Changes nothing."""
        graded = self.graded(draft.group_id)
        status = decide(draft.outcome, draft.try_, graded, self._closing, self._env_retries)
        reason = draft.cancel_reason if status in (Status.CANCELLED, Status.SKIPPED) else None
        if status is Status.CANCELLED and graded >= self._closing:
            reason = "group_closed"
        # The draft was validated when it was read; a second time would only cost.
        return Rollout.model_construct(**{**dict(draft), "cancel_reason": reason, "status": status, "usable": status in USABLE})

    def add(self, line: dict[str, Any]) -> FeedRow:
        """Note the next line of the file, as it stands there, and return what the feed says of it.

        RecordError where it is no row of this run, or repeats one.
        """
        number = self.last + 1
        try:
            run_id, facts = line["run_id"], _facts(line)
        except (KeyError, TypeError, ValueError):
            raise RecordError(f"{_at(number)}: it is no rollout{_why(line)}; see `legato-rl verify`") from None
        if run_id != self.run_id:
            raise RecordError(f"{_at(number)}: it is of run {run_id!r}, and this folder is of run {self.run_id!r}")
        key = (facts.group, facts.attempt, facts.try_)
        if key in self._numbers:
            raise RecordError(f"{_at(number)}: it repeats the key {line.get('rollout_id')!r}: the file was changed by others")
        self._rows.append(facts)
        self._numbers[key] = self.last
        if facts.outcome in GRADED_OUTCOMES:
            self._graded[facts.group] = self.graded(facts.group) + 1
        return self._feed_row(self.last)

    def _feed_row(self, number: int) -> FeedRow:
        row = self._rows[number - 1]
        return FeedRow(
            n=number,
            key=RolloutKey(run=self.run_id, group=row.group, attempt=row.attempt, try_=row.try_),
            outcome=row.outcome,
            status=row.status,
            reward=row.reward,
            versions=list(row.versions),
            error_kind=row.error_kind,
        )


def _at(number: int) -> str:
    return f"rollouts.jsonl, line {number}"


def _why(line: dict[str, Any]) -> str:
    """What is wrong with a line, as a look at all of it says."""
    try:
        Rollout.model_validate(line)
    except ValidationError as error:
        return f" ({damage(error)})"
    return ""


def _facts(line: dict[str, Any]) -> _Facts:
    """A line's facts, its words shared with the lines that say the same."""
    status = Status(line["status"])
    return _Facts(
        group=intern(line["group_id"]),
        attempt=int(line["attempt"]),
        try_=int(line["try"]),
        outcome=Outcome(line["outcome"]),
        status=status,
        reward=line["reward"],
        versions=tuple(intern(version) for version in line["policy"]["versions"]),
        error_kind=intern(line["error"]["kind"]) if status is Status.ERROR else "",
    )
