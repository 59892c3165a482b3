"""`legato-rl verify`: is a run folder true?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.errors import ExitCode
from legato_rl.verify import Report, examine
from legato_rl.verify.report import counted

LINE_S = 5.0
"""Seconds between two lines about how far it is."""


class Progress:
    """Says on stderr how far it is, where that takes long."""

    def __init__(self, quiet: bool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._quiet = quiet
        self._clock = clock
        self._next = clock.monotonic() + LINE_S

    def __call__(self, what: str, done: int, of: int) -> None:
        """A Tell (legato_rl/verify/report.py)."""
        now = self._clock.monotonic()
        if not self._quiet and now >= self._next:
            self._next = now + LINE_S
            click.echo(f"looked at {done:,} of {of:,} {what}", err=True)


@click.command("verify")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the faults as a JSON list: code, where, message.")
@click.option("--quiet", is_flag=True, help="Only faults: no notes, no progress, no last word.")
def verify(run_dir: Path, as_json: bool, quiet: bool) -> None:
    """Prove that the folder of a run is true, from its files alone; a run that is still going may be looked at.

    A line for each fault: where it is, what is wrong, and what that means (docs/verify.md). Notes, such as what a crash
    left behind, are no faults. Exit codes: 0 true, 1 faults were found, 2 no run folder, 6 a file cannot be read. The model
    server's key, where LEGATO_POLICY_KEY holds it, must be in no file of the folder.
    """
    report = examine(run_dir, tell=Progress(quiet))
    if as_json:
        click.echo(json.dumps([asdict(fault) for fault in report.faults], indent=1))
    else:
        for fault in report.faults:
            click.echo(f"{fault.where}: {fault.message} [{fault.code}: {fault.meaning}]")
    if not quiet:
        for note in report.notes:
            click.echo(f"note: {note}", err=True)
        click.echo(in_words(report), err=True)
    sys.exit(ExitCode.SHORT if report.faults else ExitCode.DONE)


def in_words(report: Report) -> str:
    """The last word: what was looked at, and what came of it."""
    rows, steps, messages = counted(report.rows, "row"), counted(report.steps, "step"), counted(report.messages, "message")
    seen = f"{rows}, {steps}, {messages} and {counted(report.images, 'image')}"
    return f"{counted(len(report.faults), 'fault')} in {seen}" if report.faults else f"true: {seen}"
