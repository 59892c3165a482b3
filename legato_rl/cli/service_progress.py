"""What does a person see while a service is up? A line a run on a terminal, plain lines elsewhere; all of it on stderr.

As runs begin and end, each gets a line that stays (service_runs.py). Where nothing runs and nothing changes, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from legato_rl.cli.progress import LINE_S, counts, desktops, policy_words
from legato_rl.cli.service_runs import RunLines
from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.run.lost_desktops import desktops_out
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import RunBrief, RunStatus


class ServiceDisplay:
    """Tells where a service stands. `live` is the terminal's display, None for plain lines, `quiet` for nothing at all."""

    def __init__(self, console: Console, live: Live | None, quiet: bool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._console = console
        self._live = live
        self._quiet = quiet
        self._clock = clock
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0
        self._runs: RunLines | None = None
        self._root: ServiceDir | None = None
        self._out: dict[str, str] = {}

    def start(self, root: ServiceDir, service: ServiceFile) -> None:
        """The service is about to start: say what, what the pre-flight found, and which runs go on."""
        if self._quiet:
            return
        self._runs, self._root = RunLines(root), root
        settings = service.settings
        self._print(
            f"{desktops(settings.desktops)} ({settings.desktop.backend}), {service.most_desktops} at most, policy "
            f"{settings.policy.model} {settings.policy.version} at {settings.policy.url}, control at {service.control}"
        )
        for notice in service.engine.get("notices", []):
            self._print(f"note: {notice}", "yellow")
        for line in self._runs.at_start():
            self._print(line)

    def show(self, status: RunStatus) -> None:
        """The service stands here now."""
        if self._quiet:
            return
        for line in [*(self._runs.hear(status) if self._runs else ()), *self._newly_out(status)]:
            self._print(line)
        if self._live is not None:
            self._live.update(_panel(status))
            return
        now = self._clock.monotonic()
        runs = tuple((brief.run, brief.state, brief.groups, brief.version) for brief in status.runs)
        told = (runs, status.policy, status.desktops.get("out"), status.draining, status.sink_message)
        if told != self._told or (runs and now - self._told_at >= LINE_S):
            self._told, self._told_at = told, now
            self._print(" | ".join([*(f"{brief.run} {_run(brief)}" for brief in status.runs), *_service(status)]))

    def end(self, last_word: str) -> None:
        """The service has ended, if it had started at all: say what became of its runs, and how to go on."""
        for line in [*self._runs.at_end(), last_word] if self._runs else ():
            self._print(line)

    def _newly_out(self, status: RunStatus) -> list[str]:
        """Why a desktop is out, once: the broker's word has only how many are."""
        count = status.desktops.get("out", 0)
        if count == len(self._out) or self._root is None:
            return []
        before, self._out = self._out, desktops_out(self._root) if count else {}
        return [f"{name} is out: {reason}" for name, reason in self._out.items() if name not in before]

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _panel(status: RunStatus) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for brief in status.runs:
        table.add_row(Text(brief.run), Text(_run(brief)))
    # The cursor stays below it, where an echoed ^C moves nothing (as of a run's panel).
    return Group(table, *map(Text, _service(status)), Text(""))


def _run(brief: RunBrief) -> str:
    groups = brief.groups
    short = f" {groups.short} short" if groups.short else ""
    state = "" if brief.state == "running" else f" {brief.state}"
    return f"{brief.version}: groups {groups.closed}/{groups.total} closed{short}{state}"


def _service(status: RunStatus) -> list[str]:
    parts = [] if status.runs else ["no run"]
    parts += [f"desktops {counts(status.desktops)}", f"policy {policy_words(status)}"]
    if status.draining:
        parts.append("draining")
    if status.sink_message:
        parts.append(f"storage waiting: {status.sink_message}")
    return parts


@contextmanager
def service_progress(quiet: bool) -> Iterator[ServiceDisplay]:
    """A display for as long as a service is up, fit for where stderr goes."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield ServiceDisplay(console, None, quiet)
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield ServiceDisplay(console, live, quiet)
