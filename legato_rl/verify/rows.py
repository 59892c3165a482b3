"""Is each row a row of this run, once, with the status that the rows before it give? One row in memory at a time. DISK."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from pydantic import ValidationError

from legato_rl.bad_input import one_sentence, told
from legato_rl.errors import RecordError
from legato_rl.export.groups import RowFacts, facts_of
from legato_rl.export.instants import instant
from legato_rl.records import GRADED_OUTCOMES, USABLE, Outcome, Rollout, Status, Timing, dump
from legato_rl.rundir import RunDir
from legato_rl.status import decide
from legato_rl.verify.blobs import Blobs
from legato_rl.verify.contradictions import contradiction
from legato_rl.verify.files import Asked
from legato_rl.verify.report import Report, Tell
from legato_rl.verify.steps import StepChecker

SLACK_S = 1e-3
"""Seconds by which parts may be more than their whole: clocks of two processes, and sums of floats, round."""


@dataclass
class Rows:
    """What the rows gave for what follows from them."""

    facts: list[RowFacts] = field(default_factory=list)
    """Of every row that stands, in file order."""
    whole: bool = True
    """Whether each line is a row of this run: else nothing that counts rows can be judged."""
    unclean: int = 0
    """Rows of tries that may have stored a blob and not named it: every outcome but graded and not_started."""
    mixed_weights: int = 0
    """Rows whose steps report more than one weight version of the server."""


def rows_size(run: RunDir) -> int:
    """Bytes of `rollouts.jsonl` now: as far as rows are looked at, so that all blobs that they name are there."""
    return run.rollouts.stat().st_size if run.rollouts.exists() else 0


def check_rows(run: RunDir, size: int, asked: Asked, blobs: Blobs, report: Report, tell: Tell) -> Rows:
    """Look at every row in the first `size` bytes of the file."""
    checker = _RowChecker(run, asked, blobs, report)
    for number, offset, line in _lines(run, size, report):
        checker.check(line, number, offset)
        tell("bytes of rows", offset + len(line), size)
    report.rows = len(checker.rows.facts)
    return checker.rows


def _lines(run: RunDir, size: int, report: Report) -> Iterator[tuple[int, int, bytes]]:
    """(number from 1, offset in bytes, line) of each whole line; a torn tail is noted."""
    if not size:
        return
    with run.rollouts.open("rb") as file:
        number, offset = 0, 0
        while offset < size:
            line = file.readline(size - offset)
            number += 1
            # As for the sink and every reader: a tail without its newline, or that is no JSON, was never acknowledged.
            if not line.endswith(b"\n") or (offset + len(line) >= size and not _is_json(line)):
                report.note(f"rollouts.jsonl:{number}: {len(line)} bytes of a torn row, which was never acknowledged")
                return
            yield number, offset, line
            offset += len(line)


class _RowChecker:
    def __init__(self, run: RunDir, asked: Asked, blobs: Blobs, report: Report) -> None:
        self._asked = asked
        self._report = report
        self._steps = StepChecker(run, blobs, report)
        self._lines: dict[tuple[str, int, int], int] = {}
        self._graded: Counter[str] = Counter()
        self.rows = Rows()

    def check(self, line: bytes, number: int, offset: int) -> None:
        """One line. What a fault makes impossible to judge is left out, so that each fault is told once."""
        where = f"rollouts.jsonl:{number}"
        try:
            row = _parse(line)
        except RecordError as error:
            self._report.fault("row-form", where, str(error))
            self.rows.whole = False
            return
        fault = contradiction(row, self._asked.file, self._asked.tasks)
        if fault:
            self._report.fault("row-contradiction", where, fault)
            self.rows.whole = False
            return
        standing = self._lines.setdefault((row.group_id, row.attempt, row.try_), number)
        if standing != number:
            self._report.fault("duplicate-key", where, f"{row.rollout_id} has line {standing} already")
            return
        # Rows that could not be read may have been graded ones.
        fault = self._status_fault(row) if self.rows.whole else None
        for code, message in (("row-status", fault), ("row-versions", versions_fault(row)), ("row-timing", timing_fault(row))):
            if message:
                self._report.fault(code, where, message)
        self._steps.check(row, where)
        self._note(row, number, offset)

    def _status_fault(self, row: Rollout) -> str | None:
        """Why the row does not have what the sink gives it after the rows before; None where it has."""
        settings, graded = self._asked.file.settings, self._graded[row.group_id]
        status = decide(row.outcome, row.try_, graded, settings.closing, settings.env_retries)
        reason = row.cancel_reason if status in (Status.CANCELLED, Status.SKIPPED) else None
        if status is Status.CANCELLED and graded >= settings.closing:
            reason = "group_closed"
        due = {"status": status.value, "usable": status in USABLE, "cancel_reason": reason}
        is_ = {"status": row.status.value, "usable": row.usable, "cancel_reason": row.cancel_reason}
        name = next((name for name in due if is_[name] != due[name]), None)
        if name is None:
            return None
        after = f"the outcome is {row.outcome.value}, after {graded} graded rows of the group"
        return f"{name} is {told(is_[name])}: it must be {told(due[name])}, since {after}"

    def _note(self, row: Rollout, number: int, offset: int) -> None:
        self._graded[row.group_id] += row.outcome in GRADED_OUTCOMES
        self.rows.facts.append(facts_of(row, number, offset))
        self.rows.unclean += row.outcome not in (Outcome.GRADED, Outcome.NOT_STARTED)
        weights = {step.model.server_version for step in row.steps if step.model.server_version is not None}
        self.rows.mixed_weights += len(weights) > 1


def versions_fault(row: Rollout) -> str | None:
    """Why the policy's versions are not those of the steps; None where they are."""
    policy = row.policy
    unknown = next((step.model.version for step in row.steps if step.model.version not in policy.versions), None)
    if unknown is not None:
        return f"a step is of version {told(unknown)}, which policy.versions lack"
    if policy.versions and policy.version != policy.versions[0]:
        return f"policy.version is {told(policy.version)}: the first of policy.versions is {told(policy.versions[0])}"
    return None


def timing_fault(row: Rollout) -> str | None:
    """Why the durations or times of a row cannot be; None where they can."""
    spent = {name: getattr(row.timing, name) for name in Timing.model_fields}
    for name, seconds in spent.items():
        if not math.isfinite(seconds) or seconds < 0:
            return f"timing.{name} is {seconds}"
    total = spent.pop("total_s")
    phases = math.fsum(spent.values())
    if phases > total + SLACK_S:
        return f"the phases are {phases:.3f} s: timing.total_s is {total:.3f} s"
    # The worker measures around what the proxy does. Its steps' other durations it takes around those of the row.
    calls = math.fsum(step.model.seconds + step.model.queued_s for step in row.steps)
    if not calls <= spent["model_s"] + SLACK_S:
        return f"the model calls of the steps are {calls:.3f} s: timing.model_s is {spent['model_s']:.3f} s"
    if any(step.model.seconds < 0 or step.model.queued_s < 0 for step in row.steps):
        return "a model call has fewer than 0 seconds"
    try:
        for moment in (row.started_at, row.ended_at):
            if moment is not None:
                instant(moment)
    except RecordError as error:
        return str(error)
    return None


def _parse(line: bytes) -> Rollout:
    """The row in a line, to the letter. RecordError in one sentence where it is none."""
    try:
        # In two steps: pydantic's own JSON reader refuses the lone surrogates that models do emit.
        value = json.loads(line, parse_constant=_refuse_constant)
        if not isinstance(value, dict):
            raise RecordError("it is no JSON object")
        row = Rollout.model_validate(value)
    except ValidationError as error:
        raise RecordError(one_sentence(error)) from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is no JSON ({error})") from None
    # The model reads "1.0" as a number and takes a default for what is left out; whoever reads JSON does not.
    due = dump(row)
    name = next((name for name in due if name not in value or value[name] != due[name]), None)
    if name is not None:
        is_ = told(value[name]) if name in value else "missing"
        raise RecordError(f"{name} is {is_}: a row of this format has {told(due[name])} there")
    return row


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
