"""What does a person see while a run runs? A live display on a terminal, plain lines elsewhere; all of it on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.rundir import RunDir, RunFile
from legato_rl.wire import RunStatus

LINE_S = 10.0
"""Seconds between two plain lines when nothing changes that they tell."""
EARLY = ("the run was stopped before its end", "the run was interrupted before its end")
"""How a summary's notice of why the run ended early begins."""
COLOURS = {
    "ok": "green",
    "truncated": "green",
    "error": "red",
    "retried": "yellow",
    "cancelled": "dim",
    "surplus": "dim",
}


class Display:
    """Tells where a run stands. `live` is the terminal's display, None for plain lines, `quiet` for nothing at all."""

    def __init__(self, console: Console, live: Live | None, quiet: bool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._console = console
        self._live = live
        self._quiet = quiet
        self._clock = clock
        self._began = clock.monotonic()
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0
        self._bar = Progress(TextColumn("attempts"), BarColumn(bar_width=40), TextColumn("{task.completed}/{task.total}"))
        self._started = False
        self._counts_from: tuple[int, int] | None = (0, 0)
        """Usable rows and ended attempts at the start; None while the broker reads what an earlier start stored."""
        self._task = self._bar.add_task("attempts", total=None)
        self._noted: set[str] = set()

    def start(self, run: RunFile, resumed: bool = False, inherits: bool = False) -> None:
        """The run was accepted: say what is started, and what the pre-flight found.

        `resumed`: some of it is done. `inherits`: nobody named a policy version, so that it has its service's.
        """
        self._started, self._counts_from = True, None if resumed else (0, 0)
        if self._quiet:
            return
        settings = run.settings
        # A service's are more or fewer as it is told, and its lines have those that work now.
        whose = "the service's desktops" if run.submitted else desktops(settings.desktops)
        self._say(
            f"{run.run_id}: {whose} ({settings.desktop.backend}), policy {settings.policy.model} "
            f"{settings.policy.version} at {settings.policy.url}"
        )
        if inherits:
            version = f"{settings.policy.version!r} (--version)"
            self._note([f"no version was given: rollouts are stamped with the service's, {version}"])
        self._note(run.engine.get("notices", []))
        self._began = self._clock.monotonic()

    def show(self, status: RunStatus) -> None:
        """The run stands here now."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(self._panel(status))
            return
        now = self._clock.monotonic()
        told = (
            status.groups.closed,
            status.groups.short,
            status.state,
            status.policy,
            status.desktops.get("out"),
            status.sink_message,
        )
        if told != self._told or now - self._told_at >= LINE_S:
            self._told, self._told_at = told, now
            self._say(self._line(status))

    def end(self, summary: dict[str, Any], out: Path) -> None:
        """The run is over: say what came of it and where it is."""
        if self._quiet:
            return
        if not self._started:
            self._say("the run had finished before: nothing was started")
        groups, rewards, attempts = summary["groups"], summary["rewards"], summary["attempts"]
        mean = "" if rewards["mean"] is None else f", mean reward {rewards['mean']:.3f}"
        cut = f", {attempts['unfinished']} of {attempts['asked']} attempts unfinished" if attempts["unfinished"] else ""
        self._say(
            f"{groups['closed']} of {groups['asked']} groups closed, {rewards['usable']} usable rollouts{mean}{cut}; "
            f"written to {out}"
        )
        self._note(summary["notices"])

    def cut(self, out: Path, again: str) -> None:
        """The run ended early: say what is stored, where there is a summary of it, and the command that goes on (`again`).

        Why it did is the command's last word, and is not said here too.
        """
        if not self._started:
            return
        with suppress(OSError, ValueError):
            summary = json.loads(RunDir(out).summary.read_bytes())
            notices = [notice for notice in summary["notices"] if not notice.startswith(EARLY)]
            self.end({**summary, "notices": notices}, out)
        if not self._quiet:
            self._say(f"go on with: {again}")

    def _note(self, notices: Iterable[str]) -> None:
        """Say each once: a summary has those of the pre-flight too, which were told at the start."""
        for notice in notices:
            if notice not in self._noted:
                self._say(f"note: {notice}", style="yellow")
        self._noted.update(notices)

    def _say(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def _rate(self, status: RunStatus) -> tuple[float, float | None]:
        """Usable rollouts per hour so far, and the seconds left if attempts go on ending as they did."""
        usable, ended = status.rows.get("ok", 0) + status.rows.get("truncated", 0), status.attempts_ended
        if self._counts_from is None and status.desktops and status.rows:
            # Every row is known before a worker gets anything; those of a service have desktops before its rows are read.
            self._counts_from, self._began = (usable, ended), self._clock.monotonic()
        usable_before, ended_before = self._counts_from or (usable, ended)
        elapsed, more = max(self._clock.monotonic() - self._began, 1e-9), ended - ended_before
        left = (status.attempts_total - ended) * elapsed / more if more else None
        return (usable - usable_before) * 3600 / elapsed, left

    def _panel(self, status: RunStatus) -> RenderableType:
        self._bar.update(self._task, total=status.attempts_total, completed=status.attempts_ended)
        per_hour, left = self._rate(status)
        groups = status.groups
        table = Table.grid(padding=(0, 2))
        table.add_row("groups", f"{groups.closed} closed, {groups.short} short, {groups.open} open")
        rollouts = Text(", ").join(
            Text(f"{count} {name}", style=COLOURS.get(name, "")) for name, count in sorted(status.rows.items())
        )
        table.add_row("rollouts", rollouts if status.rows else "none yet")
        table.add_row("desktops", counts(status.desktops))
        table.add_row("policy", Text(_policy(status)))
        table.add_row("pace", f"{per_hour:,.0f} rollouts per hour, {_duration(left)} left")
        if status.sink_message:
            table.add_row("storage", Text(f"waiting: {status.sink_message}", style="red"))
        if status.state == "stopping":
            table.add_row("stopping", Text(f"{status.reason}; what is being graded is finished, Ctrl-C ends it at once"))
        elif status.state != "running":
            table.add_row(status.state, Text(status.reason))
        # The cursor stays below it: what the terminal echoes of Ctrl-C, beside a full line, would move it a line on, and what
        # is drawn again would then leave a line of the old above it.
        return Group(self._bar, table, Text(""))

    def _line(self, status: RunStatus) -> str:
        per_hour, left = self._rate(status)
        groups = status.groups
        parts = [
            f"groups {groups.closed}/{groups.total} closed" + (f" {groups.short} short" if groups.short else ""),
            f"attempts {status.attempts_ended}/{status.attempts_total}",
            f"rollouts {counts(status.rows)}",
            f"desktops {counts(status.desktops)}",
            f"policy {_policy(status)}",
            f"{per_hour:,.0f}/h, {_duration(left)} left",
        ]
        if status.sink_message:
            parts.append(f"storage waiting: {status.sink_message}")
        if status.state != "running":
            parts.append(f"{status.state} {status.reason}".strip())
        return " | ".join(parts)


def desktops(number: int) -> str:
    """So many desktops in words."""
    return "1 desktop" if number == 1 else f"{number} desktops"


def counts(numbers: dict[str, int]) -> str:
    """Numbers by name in words, as `2 act, 1 out`."""
    return ", ".join(f"{count} {name}" for name, count in sorted(numbers.items()) if count) or "none yet"


def policy_words(status: RunStatus) -> str:
    """How the model server stands, in words."""
    if status.policy == "up":
        return f"up, {status.running} running, {status.queued} queued"
    return f"{status.policy} {status.policy_message}".strip()


def _policy(status: RunStatus) -> str:
    return "no longer needed" if status.state == "finished" else policy_words(status)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress(quiet: bool) -> Iterator[Display]:
    """A display for the length of a run, fit for where stderr goes."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Display(console, None, quiet)
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield Display(console, live, quiet)
