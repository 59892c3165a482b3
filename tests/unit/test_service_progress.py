"""What does a person see while a service is up? Lines where it is no terminal, a panel where it is, nothing when quiet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from driven_clock import DrivenClock
from rich.console import Console
from rich.live import Live
from worker_scene import run_file

from legato_rl.broker.told import Told
from legato_rl.cli.progress import LINE_S
from legato_rl.cli.service_progress import ServiceDisplay
from legato_rl.rundir import RunDir, TaskSpec, json_bytes
from legato_rl.service import ServiceDir, of_run
from legato_rl.wire import GroupCounts, RunBrief, RunStatus

COUNTS = GroupCounts(total=4, closed=1, short=1, open=2)
RUNS = [
    RunBrief(run="one", state="running", priority=0, version="v1", groups=COUNTS),
    RunBrief(run="two", state="stopping", priority=0, version="v2", groups=COUNTS.model_copy(update={"short": 0})),
]
SERVICE = of_run(run_file(Path("/x")).model_copy(update={"engine": {"notices": ["the server returns no token ids"]}}))


SUMMARY: dict[str, Any] = {
    "groups": {"asked": 2, "closed": 1},
    "rewards": {"usable": 5, "mean": 0.5},
    "attempts": {"asked": 8, "ended": 5, "unfinished": 3},
}


def submitted(root: ServiceDir, name: str, priority: int = 0) -> RunDir:
    """The folder of a run of one group, as a service makes it."""
    folder = RunDir(root.runs / name)
    folder.root.mkdir(parents=True)
    folder.write_tasks([TaskSpec(task_id="a", group_id="a", domain=None, config={}, max_steps=1)])
    folder.write_run(run_file(Path("/x")).model_copy(update={"run_id": name, "priority": priority}))
    return folder


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
    shown.start(ServiceDir(Path("/none")), SERVICE)
    shown.show(status(state="none", run=""))
    shown.show(status(state="running", runs=RUNS, draining=True, sink_message="no space left"))
    first, note, idle, *begun, busy = out.getvalue().splitlines()
    assert begun == ["one was submitted", "two was submitted"]
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


def test_a_service_without_a_run_is_silent() -> None:
    """It says once that it waits, and then nothing while nothing changes."""
    shown, out, clock = display()
    for _ in range(3):
        shown.show(status(state="none", run=""))
        clock.sleep(LINE_S)
    assert len(out.getvalue().splitlines()) == 1


def test_a_run_begins_and_ends(tmp_path: Path) -> None:
    """A line each: what was submitted; what came of it, once its summary is there; how one that stopped goes on."""
    root = ServiceDir(tmp_path)
    folder = submitted(root, "one", priority=2)
    shown, out, _ = display()
    shown.start(root, SERVICE)
    shown.show(status(state="running", runs=RUNS[:1]))
    folder.write_end("stopped", "enough", "2030-01-01T00:00:00Z")
    shown.show(status(state="stopped", run="one", runs=[]))
    told = out.getvalue()
    assert "one was submitted" not in told, "it was there before the service was started"
    assert "one goes on: groups 0/1 closed, 0 of 4 attempts ended" in told
    folder.summary.write_bytes(json_bytes(SUMMARY))
    for _ in range(2):
        shown.show(status(state="stopped", run="one", runs=[]))
    went_on = f"legato-rl control resume-run {tmp_path} one"
    assert out.getvalue().removeprefix(told).splitlines() == [
        f"one stopped (enough): 1 of 2 groups closed, 5 usable rollouts, mean reward 0.500, 3 of 8 attempts unfinished; "
        f"go on with: {went_on}"
    ]
    shown.start(root, SERVICE)
    assert out.getvalue().splitlines()[-1].endswith(f"may go on: one (legato-rl control resume-run {tmp_path} RUN)")


def test_a_run_that_nobody_saw_running(tmp_path: Path) -> None:
    """It came and went between two looks, and is told once; so is one that was cut."""
    root = ServiceDir(tmp_path)
    shown, out, _ = display()
    shown.start(root, SERVICE)
    quick = submitted(root, "quick", priority=2)
    quick.write_end("finished", "", "2030-01-01T00:00:00Z")
    quick.summary.write_bytes(json_bytes({**SUMMARY, "attempts": {"asked": 8, "ended": 8, "unfinished": 0}}))
    for _ in range(2):
        shown.show(status(run="quick"))
    submitted(root, "cut")
    shown.show(status(run="cut", state="running", runs=[RUNS[0].model_copy(update={"run": "cut"})]))
    shown.end("the service cannot go on")
    lines = [line for line in out.getvalue().splitlines() if line.startswith(("quick", "cut was", "the service"))]
    assert lines == [
        "quick was submitted: 1 groups of 4, version v1, priority 2",
        "quick finished: 1 of 2 groups closed, 5 usable rollouts, mean reward 0.500",
        "cut was submitted: 1 groups of 4, version v1",
        "cut was cut: it goes on when the service is started again",
        "the service cannot go on",
    ]


def test_a_desktop_that_goes_out(tmp_path: Path) -> None:
    """The reason once, as the broker keeps it; one that came back and is out again is told again."""
    root = ServiceDir(tmp_path)
    shown, out, _ = display()
    shown.start(root, SERVICE)
    shown.show(status(desktops={"act": 2}))
    Told(out={"worker-001": "the desktop did not pass its self-check: no\nroute"}).save(root.state)
    for counts in ({"act": 1, "out": 1}, {"act": 1, "out": 1}, {"act": 2}, {"act": 1, "out": 1}):
        shown.show(status(desktops=counts))
    root.state.write_text("[")
    shown.show(status(desktops={"out": 2}))
    said = [line for line in out.getvalue().splitlines() if "worker" in line]
    assert said == ["worker-001 is out: the desktop did not pass its self-check: no route"] * 2


def test_quiet_is_quiet() -> None:
    """No line, whatever happens."""
    shown, out, _ = display(quiet=True)
    shown.start(ServiceDir(Path("/none")), SERVICE)
    shown.show(status(runs=RUNS))
    shown.end("over")
    assert out.getvalue() == ""


def test_nothing_started_needs_no_last_word() -> None:
    """Wrong input has its own sentence."""
    shown, out, _ = display()
    shown.end("over")
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
