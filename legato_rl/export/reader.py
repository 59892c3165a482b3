"""What does a run folder say? Its rows one at a time, its groups' ids, its desktop events. DISK, reads only.

A run that is still going may be read: a last line that is not whole is a row being written, or one that a crash
tore; it is counted in `torn_bytes` and is no row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

from pydantic import ValidationError

from legato_rl.bad_input import damage, json_fault
from legato_rl.errors import RecordError
from legato_rl.export.groups import RowFacts, facts_of
from legato_rl.records import Outcome, Rollout, Status
from legato_rl.rundir import RunDir

_IN_FACTS = frozenset({"group_id", "attempt", "try", "outcome", "status", "reward", "rollout_id", "policy"})
_VALUE = json.JSONDecoder().raw_decode


class RowFile:
    """`rollouts.jsonl` of one run, open for reading, one row in memory at a time. No file: no rows."""

    def __init__(self, run: RunDir) -> None:
        self._path = run.rollouts
        self._file: BinaryIO | None = None
        self.torn_bytes = 0
        """Bytes after the last whole row; known when `rows` or `facts` has ended."""

    def __enter__(self) -> RowFile:
        if self._path.exists():
            self._file = self._path.open("rb")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self._file:
            self._file.close()

    def rows(self) -> Iterator[tuple[RowFacts, Rollout]]:
        """Every whole row in file order, with its facts. RecordError, naming the line, for one that is no rollout."""
        for number, offset, line in self._lines():
            rollout = self._parse(line, number)
            yield facts_of(rollout, number, offset), rollout

    def facts(self) -> Iterator[RowFacts]:
        """The facts of every whole row, whose steps nobody looks at: a hundred times as fast.

        RecordError, naming the line, for one that has them not; damage in its steps is not seen.
        """
        for number, offset, line in self._lines():
            try:
                row = _head(line)
                facts = RowFacts(
                    group_id=row["group_id"],
                    attempt=int(row["attempt"]),
                    try_=int(row["try"]),
                    outcome=Outcome(row["outcome"]),
                    status=Status(row["status"]),
                    reward=row["reward"],
                    line=number,
                    offset=offset,
                    rollout_id=row["rollout_id"],
                    versions=len(row["policy"]["versions"]),
                )
            except (ValueError, TypeError, LookupError, RecursionError):
                raise RecordError(f"{self._path}, line {number}: it is no rollout{_why(line)}; see legato-rl verify") from None
            yield facts

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """(number from 1, offset in bytes, line) of every whole line."""
        if self._file is None:
            return
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        offset = 0
        for number, line in enumerate(self._file, start=1):
            # A crash of the machine may leave a tail with its newline but without all of its bytes.
            if not line.endswith(b"\n") or (offset + len(line) >= size and not _is_json(line)):
                self.torn_bytes = len(line)
                return
            yield number, offset, line
            offset += len(line)

    def row(self, facts: RowFacts) -> Rollout:
        """The row that `facts` was taken from. Not while `rows` or `facts` is going: both move through one file."""
        assert self._file is not None, "facts come from rows() of an open file"
        self._file.seek(facts.offset)
        return self._parse(self._file.readline(), facts.line)

    def _parse(self, line: bytes, number: int) -> Rollout:
        try:
            return _rollout(line)
        except RecordError as error:
            raise RecordError(f"{self._path}, line {number}: {error}") from None


def _rollout(line: bytes) -> Rollout:
    """Read in two steps, since pydantic's own JSON reader refuses the lone surrogates that models do emit."""
    try:
        return Rollout.model_validate(json.loads(line, parse_constant=_refuse_constant))
    except ValidationError as error:
        raise RecordError(damage(error)) from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is no JSON ({json_fault(error)})") from None


def _why(line: bytes) -> str:
    """What is wrong with a row, as a look at all of it says."""
    try:
        _rollout(line)
    except RecordError as error:
        return f" ({error})"
    return ""


def _head(line: bytes) -> dict[str, Any]:
    """What stands in a row before its steps, which are nearly all of its bytes; ValueError where it is no JSON."""
    text, at, row = line.decode(), 1, dict[str, Any]()
    try:
        while (found := _VALUE(text, at))[0] != "steps":
            row[found[0]], at = _VALUE(text, found[1] + 1)
            at += 1
    except ValueError:
        pass
    # Another order of its fields, or blanks between them: it is not as our sink wrote it.
    return row if row.keys() >= _IN_FACTS else json.loads(line)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def load_group_ids(run: RunDir) -> list[str]:
    """The run's group ids, in order. RecordError where `tasks.jsonl` is missing or damaged."""
    try:
        group_ids = [task.group_id for task in run.load_tasks()]
    except OSError as error:
        raise RecordError(f"{run.tasks} cannot be read ({error.strerror}): the run folder is not complete") from None
    if not group_ids:
        raise RecordError(f"{run.tasks} is empty: a run has a task at least")
    return group_ids


def load_desktop_events(run: RunDir) -> list[dict[str, Any]]:
    """The lines of `desktops.jsonl`: `desktop`, `event` (rebuilt, out), `at`, `reason`. None where there is no file."""
    if not run.desktop_events.exists():
        return []
    lines = run.desktop_events.read_bytes().splitlines(keepends=True)
    return [_event(line, run.desktop_events) for line in lines if line.endswith(b"\n")]


def _event(line: bytes, path: Path) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise RecordError(f"{path}: {line[:80]!r} is no desktop event, which is a JSON object")
    return event
