"""Did each attempt go on as attempts do, and did all end that had to? From the rows' facts. PURE."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from legato_rl.config import Settings
from legato_rl.export.groups import RowFacts, fold_groups
from legato_rl.records import ENV_OUTCOMES, Status
from legato_rl.verify.report import Report


def check_attempts(
    facts: Sequence[RowFacts],
    settings: Settings,
    group_ids: Sequence[str],
    again: Collection[str],
    end: str | None,
    report: Report,
) -> int:
    """Look at the tries of every attempt; how many attempts have no final row. `end` is how the run ended.

    `again` are the ids of errors of kind env after which a resume was asked to go on (`run.json`).
    """
    last: dict[tuple[str, int], RowFacts] = {}
    for row in facts:
        attempt = (row.group_id, row.attempt)
        fault = _order_fault(last.get(attempt), row, again)
        if fault:
            report.fault("attempt-order", f"rollouts.jsonl:{row.line}", fault)
        last[attempt] = row
    asked = len(group_ids) * settings.attempts
    unfinished = asked - sum(group.ended for group in fold_groups(facts, settings, group_ids, again))
    if unfinished and end == "finished":
        report.fault("end-unfinished", "end.json", f"state is finished: {unfinished} of {asked} attempts have no final row")
    elif unfinished:
        report.note(f"{unfinished} of {asked} attempts have no final row")
    return unfinished


def _order_fault(before: RowFacts | None, row: RowFacts, again: Collection[str]) -> str | None:
    """Why `row` cannot follow `before`, the row of the same attempt that is stored before it."""
    due = 0 if before is None else before.try_ + 1
    if row.try_ != due:
        return f"try is {row.try_} of attempt {row.attempt} of {row.group_id}: the one that is due is {due}"
    if before is None or before.status is Status.RETRIED:
        return None
    if before.status is Status.ERROR and before.outcome in ENV_OUTCOMES and before.rollout_id in again:
        return None
    return f"attempt {row.attempt} of {row.group_id} goes on: line {before.line} ended it ({before.status.value})"
