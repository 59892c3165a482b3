"""In which order is a folder looked at, and what is judged when? Everything that `verify` does. DISK, reads only."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from legato_rl._version import __version__
from legato_rl.errors import RecordError
from legato_rl.records import Outcome
from legato_rl.rundir import RunDir
from legato_rl.supervisord import KEY_VARIABLE
from legato_rl.verify.attempts import check_attempts
from legato_rl.verify.blobs import Blobs, check_all
from legato_rl.verify.derived import check_exports, check_summary
from legato_rl.verify.files import Asked, check_events, read_asked, read_end
from legato_rl.verify.key import Key, check_key
from legato_rl.verify.logs import show_no_loss
from legato_rl.verify.report import Fault, Report, Tell, counted, told_nobody
from legato_rl.verify.rows import Rows, check_rows, rows_size


def verify(folder: str | Path, key: str | None = None) -> list[Fault]:
    """What is wrong with the run in `folder`; empty where it is true. Raises as `examine`."""
    return examine(folder, key).faults


def examine(folder: str | Path, key: str | None = None, tell: Tell = told_nobody) -> Report:
    """Look at everything in a run folder; it may be of a run that is going on, and then what is there is looked at.

    `key` is the model server's, which must be nowhere in it; by default the one in LEGATO_POLICY_KEY. ConfigError where
    the folder is no run, RecordError where a file of it cannot be read.
    """
    run, report = RunDir(Path(folder)), Report()
    secret = Key(os.environ.get(KEY_VARIABLE) if key is None else key, report)
    try:
        _look(run, secret, report, tell)
    except OSError as error:
        raise RecordError(
            f"{error.filename or run.root} cannot be read ({error.strerror}): see to its rights and the disk"
        ) from None
    report.faults = [Fault(fault.code, secret.hidden(fault.where), secret.hidden(fault.message)) for fault in report.faults]
    return report


def _look(run: RunDir, secret: Key, report: Report, tell: Tell) -> None:
    asked = read_asked(run, report)
    ended = run.end.exists()
    end = read_end(run, report)
    check_events(run, report)
    # Rows come after the blobs that they name, also in a run that goes on: so the rows' end is looked up first.
    size = rows_size(run)
    blobs = check_all(run, secret, report, tell)
    if asked is not None:
        if asked.file.legato_rl != __version__:
            versions = f"{asked.file.legato_rl}, this is {__version__}"
            report.note(f"the run is of version {versions}: fields that only one of them has are told as faults")
        rows = check_rows(run, size, asked, blobs, report, tell)
        _judge(run, asked, rows, blobs, ended, end, report)
    check_key(run, secret, report)


def _judge(run: RunDir, asked: Asked, rows: Rows, blobs: Blobs, ended: bool, end: str | None, report: Report) -> None:
    """What follows from all rows together; only where each of them could be read."""
    settings, group_ids = asked.file.settings, list(asked.tasks)
    if rows.mixed_weights:
        report.note(f"{counted(rows.mixed_weights, 'row')} with answers of several weight versions of the server")
    if not rows.whole:
        report.note("attempts, unnamed blobs, summary and exports were not looked at: not every line is a row of this run")
        return
    try:
        unfinished = check_attempts(rows.facts, settings, group_ids, asked.file.again, end, report)
    except RecordError:
        if not report.faults:
            raise
        report.note("attempts, unnamed blobs, summary and exports were not looked at: a row says two things")
        return
    by_workers = [row.rollout_id for row in rows.facts if row.outcome is not Outcome.NOT_STARTED]
    explained = end != "finished" or unfinished or rows.unclean or settings.osworld_agent or not show_no_loss(run, by_workers)
    sound = not report.faults
    _check_unnamed(run, blobs, bool(explained), report)
    if not sound:
        report.note("summary and exports were not compared: what they are made from is damaged")
        return
    if ended:
        check_summary(run, report)
    elif run.summary.exists():
        report.note("summary.json was not compared: the run goes on, or was cut off")
    check_exports(run, rows.facts, settings, group_ids, report)


def _check_unnamed(run: RunDir, blobs: Blobs, explained: bool, report: Report) -> None:
    """Blobs that no row names. A try that was cut stores some before its row, and a part of one while it is killed."""
    unnamed = blobs.unnamed()
    if explained:
        if left := [*unnamed, *blobs.parts]:
            files = f"{counted(len(left), 'file')} ({counted(_size(run, left), 'byte')})"
            report.note(f"{files} in messages/ and images/ that no row names: tries that were cut leave such")
        return
    for path in unnamed:
        report.fault("blob-orphan", path, "no row names it, every try of the run was graded and is stored, and nothing died")
    for path in blobs.parts:
        report.fault("blob-foreign", path, "the sink removes it when it starts, and the run has finished")


def _size(run: RunDir, paths: list[str]) -> int:
    """Bytes of files; a part may have its name by now."""
    size = 0
    for path in paths:
        with suppress(FileNotFoundError):
            size += (run.root / path).stat().st_size
    return size
