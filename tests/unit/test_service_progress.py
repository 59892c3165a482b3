"""What does a person see while a service is up? Lines where it is no terminal, a panel where it is, nothing when quiet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from driven_clock import DrivenClock
from rich.console import Console
from rich.live import Live
from worker_scene import run_file

from legato_rl.cli.progress import LINE_S
from legato_rl.cli.service_progress import ServiceDisplay
from legato_rl.service import of_run
from legato_rl.wire import GroupCounts, RunBrief, RunStatus

COUNTS = GroupCounts(total=4, closed=1, short=1, open=2)
RUNS = [
    RunBrief(run="one", state="running", priority=0, version="v1", groups=COUNTS),
    RunBrief(run="two", state="stopping", priority=0, version="v2", groups=COUNTS.model_copy(update={"short": 0})),
]
SERVICE = of_run(run_file(Path("/x")).model_copy(update={"engine": {"notices": ["the server returns no token ids"]}}))


def status(**changes: Any) -> RunStatus:
    """Where a service stands whose last run is over."""
    fields: dict[str, Any] = {
        "id": "x",
        "run": "zero",
        "state": "finished",
        "reason": "",
        "groups": COUNTS,
        "rows": {},
        "attempts_total": 4,
        "attempts_ended": 4,
        "desktops": {"act": 2},
        "policy": "up",
        "policy_message": "",
        "sink_message": "",
        "queued": 0,
        "running": 1,
    }
    return RunStatus(**(fields | changes))


def display(quiet: bool = False) -> tuple[ServiceDisplay, io.StringIO, DrivenClock]:
    """A display that writes plain lines, what it wrote, and its clock."""
    out, clock = io.StringIO(), DrivenClock()
    return ServiceDisplay(Console(file=out, width=60), None, quiet, clock), out, clock


def test_the_plain_lines_of_a_service() -> None:
    """What is started; then every run that has not ended, the desktops and the policy."""
    shown, out, _ = display()
    shown.start(SERVICE)
    shown.show(status())
    shown.show(status(runs=RUNS, draining=True, sink_message="no space left"))
    first, note, idle, busy = out.getvalue().splitlines()
    assert first == "4 desktops (fake), 4 at most, policy m v1 at fake, control at ipc:///x/control"
    assert note == "note: the server returns no token ids"
    assert idle == "no run | desktops 2 act | policy up, 1 running, 0 queued"
    assert busy == (
        "one v1: groups 1/4 closed 1 short | two v2: groups 1/4 closed stopping | desktops 2 act | "
        "policy up, 1 running, 0 queued | draining | storage waiting: no space left"
    )


def test_a_line_comes_when_something_happened_or_time_passed() -> None:
    """A log of months must stay readable."""
    shown, out, clock = display()
    for _ in range(3):
        shown.show(status(runs=RUNS))
        shown.show(status(runs=RUNS, desktops={"policy": 2}))
    assert len(out.getvalue().splitlines()) == 1
    clock.sleep(LINE_S)
    shown.show(status(runs=RUNS))
    shown.show(status(runs=RUNS, policy="paused"))
    assert len(out.getvalue().splitlines()) == 3


def test_quiet_is_quiet() -> None:
    """No line, whatever happens."""
    shown, out, _ = display(quiet=True)
    shown.start(SERVICE)
    shown.show(status(runs=RUNS))
    assert out.getvalue() == ""


def test_the_panel_of_a_terminal() -> None:
    """The same facts, drawn in place; words of others are no markup."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        shown = ServiceDisplay(console, live, False, DrivenClock())
        shown.show(status(runs=RUNS, policy="down", policy_message="no route [red]"))
        live.refresh()
    for fact in ("one", "v1: groups 1/4 closed 1 short", "2 act", "down no route [red]"):
        assert fact in out.getvalue()
