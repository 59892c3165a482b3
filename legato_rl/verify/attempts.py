"""Did each attempt go on as attempts do, and did all end that had to? From the rows' facts. PURE."""

from __future__ import annotations

from collections.abc import Sequence

from legato_rl.config import Settings
from legato_rl.export.groups import RowFacts, fold_groups
from legato_rl.records import Outcome, Status
from legato_rl.verify.report import Report

RUN_AGAIN = frozenset({Outcome.DESKTOP_FAILED, Outcome.WORKER_LOST, Outcome.EVALUATOR_FAILED})
"""Outcomes of an `error` of kind env: an attempt may go on after one where a resume was asked to run those again."""


def check_attempts(
    facts: Sequence[RowFacts], settings: Settings, group_ids: Sequence[str], end: str | None, report: Report
) -> int:
    """Look at the tries of every attempt; how many attempts have no final row. `end` is how the run ended."""
    last: dict[tuple[str, int], RowFacts] = {}
    for row in facts:
        attempt = (row.group_id, row.attempt)
        fault = _order_fault(last.get(attempt), row)
        if fault:
            report.fault("attempt-order", f"rollouts.jsonl:{row.line}", fault)
        last[attempt] = row
    asked = len(group_ids) * settings.attempts
    unfinished = asked - sum(group.ended for group in fold_groups(facts, settings, group_ids))
    if unfinished and end == "finished":
        report.fault("end-unfinished", "end.json", f"state is finished: {unfinished} of {asked} attempts have no final row")
    elif unfinished:
        report.note(f"unfinished: {unfinished} of {asked} attempts")
    return unfinished


def _order_fault(before: RowFacts | None, row: RowFacts) -> str | None:
    """Why `row` cannot follow `before`, the row of the same attempt that is stored before it."""
    due = 0 if before is None else before.try_ + 1
    if row.try_ != due:
        return f"try is {row.try_} of attempt {row.attempt} of {row.group_id}: the one that is due is {due}"
    if before is None or before.status is Status.RETRIED or (before.status is Status.ERROR and before.outcome in RUN_AGAIN):
        return None
    return f"attempt {row.attempt} of {row.group_id} goes on: line {before.line} ended it ({before.status.value})"
