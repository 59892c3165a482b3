"""docs/operating.md tells every exit code, log, method of the client and event, and none that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode
from legato_rl.happenings import Happenings
from legato_rl.records import FeedRow, Outcome, RolloutKey, Status
from legato_rl.rundir import TaskSpec
from legato_rl.supervisord import EXPECTED_EXITS, Layout, programs, render
from legato_rl.wire import DesktopEvent, Event

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")


def test_every_exit_code_is_told() -> None:
    """The table has every code once, with its name and whether supervisord starts a process again after it."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| [^|]+ \| (yes|no) \|$", PAGE, re.MULTILINE)
    assert rows == [(str(code.value), code.name, "no" if code in EXPECTED_EXITS else "yes") for code in ExitCode]


def test_every_program_is_told() -> None:
    """Each program that supervisord starts is in the table of processes."""
    assert [program.script for program in programs(2) if f"| `{program.script}` |" not in PAGE] == []


def test_rotation_is_as_rendered() -> None:
    """The size and number of rotated logs are those of the rendered configuration."""
    conf = render(Layout(Path("/run"), Path("/logs"), Path("/bin"), Path("/")), Path("/sockets"), 2)
    assert conf.count("stdout_logfile_maxbytes = 64MB\nstdout_logfile_backups = 3\n") == len(programs(2))
    assert "\nlogfile_maxbytes = 64MB\nlogfile_backups = 3\n" in conf
    assert "| at 64 MB, three older ones kept (`.1` to `.3`) |" in PAGE


def section(heading: str) -> str:
    """The text under a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def test_every_method_of_the_client_is_told() -> None:
    """In the order of the class, with names of its arguments."""
    methods = [member for name, member in vars(ControlClient).items() if inspect.isfunction(member) and name[0] != "_"]
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", section("Steering it from Python"), re.MULTILINE))
    assert list(told) == [method.__name__ for method in methods if method is not ControlClient.close]
    for method in methods:
        assert {*told.get(method.__name__, "").split(", ")} - {""} <= inspect.signature(method).parameters.keys()


def test_every_event_is_told() -> None:
    """Each kind, with the fields of its data."""
    task = TaskSpec(task_id="t", group_id="g", domain=None, config={}, max_steps=1)
    happened = Happenings(asked=1, closing=1, attempts=1, tasks={"g": task})
    key = RolloutKey(run="r", group="g", attempt=0, try_=0)
    happened.row(FeedRow(n=1, key=key, outcome=Outcome.GRADED, status=Status.OK, reward=1.0, versions=["v"]))
    for n, event in enumerate(("rebuilt", "out"), 1):
        made = {"n": n, "after": 1, "desktop": "w", "event": event, "at": "now", "reason": "r"}
        happened.desktop(DesktopEvent.model_validate(made))
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", section("Events"), re.MULTILINE)
    told = {kind: re.findall(r"`(\w+)`", fields) for kind, fields in rows}
    assert {kind: set(fields) for kind, fields in told.items()} == {event.kind: set(event.data) for event in happened.events}
    assert tuple(sorted(told)) == tuple(sorted(get_args(Event.model_fields["kind"].annotation)))
