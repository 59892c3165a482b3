"""What does a person see while a run runs? Lines where it is no terminal, a panel where it is, nothing when quiet."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from driven_clock import DrivenClock
from rich.console import Console
from rich.live import Live
from worker_scene import run_file

from legato_rl.cli.progress import LINE_S, Display, progress
from legato_rl.rundir import json_bytes
from legato_rl.wire import GroupCounts, RunStatus

SUMMARY: dict[str, Any] = {
    "groups": {"asked": 4, "closed": 3, "short": 1, "open": 0, "flat": 0},
    "rewards": {"asked": 16, "usable": 14, "mean": 0.625, "success_rate": 0.5},
    "attempts": {"asked": 16, "ended": 14, "unfinished": 2},
    "notices": ["desktops are out: worker-001"],
}


def status(closed: int = 1, **changes: Any) -> RunStatus:
    """Where a run of four groups stands."""
    fields: dict[str, Any] = {
        "id": "x",
        "run": "r1",
        "state": "running",
        "reason": "",
        "groups": GroupCounts(total=4, closed=closed, short=0, open=4 - closed),
        "rows": {"ok": 4, "retried": 1},
        "attempts_total": 16,
        "attempts_ended": 4,
        "desktops": {"act": 2, "policy": 1},
        "policy": "up",
        "policy_message": "",
        "sink_message": "",
        "queued": 3,
        "running": 5,
    }
    return RunStatus(**(fields | changes))


def display(clock: DrivenClock, quiet: bool = False) -> tuple[Display, io.StringIO]:
    """A display that writes plain lines, and what it wrote."""
    out = io.StringIO()
    return Display(Console(file=out, width=60), None, quiet, clock), out


def test_the_plain_lines_of_a_run() -> None:
    """A line tells groups, attempts, rollouts by status, desktops by phase, the policy, the pace and what is left."""
    clock = DrivenClock()
    shown, out = display(clock)
    shown.start(run_file(Path("/x")).model_copy(update={"engine": {"notices": ["the server returns no token ids"]}}))
    clock.sleep(60)
    shown.show(status())
    first, note, line = out.getvalue().splitlines()
    assert first == "r1: 4 desktops (fake), policy m v1 at fake"
    assert note == "note: the server returns no token ids"
    assert line == (
        "groups 1/4 closed | attempts 4/16 | rollouts 4 ok, 1 retried | desktops 2 act, 1 policy | "
        "policy up, 5 running, 3 queued | 240/h, 3:00 left"
    )


def test_a_line_comes_when_something_happened_or_time_passed() -> None:
    """Not at each look: a log of a day must stay readable."""
    clock = DrivenClock()
    shown, out = display(clock)
    looks = [(status(), 1), (status(rows={"ok": 5}), 1), (status(closed=2), 2), (status(closed=2), 2)]
    for now, lines in looks:
        shown.show(now)
        assert len(out.getvalue().splitlines()) == lines
    clock.sleep(LINE_S)
    shown.show(status(closed=2))
    shown.show(status(closed=2, desktops={"act": 1, "out": 1}))
    shown.show(status(closed=2, policy="down", policy_message="connection refused"))
    shown.show(status(closed=2, sink_message="no space left"))
    shown.show(status(closed=2, state="stopping", reason="interrupted"))
    lines = out.getvalue().splitlines()
    assert len(lines) == 7
    assert "1 act, 1 out" in lines[3]
    assert "policy down connection refused" in lines[4]
    assert lines[5].endswith("| storage waiting: no space left")
    assert lines[6].endswith("| stopping interrupted")


def test_the_end_says_what_came_of_it() -> None:
    """Groups, usable rollouts, mean reward, the folder, and what must be known; also without any reward."""
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")))
    shown.end(SUMMARY, Path("runs/step-41"))
    assert out.getvalue().splitlines()[1:] == [
        "3 of 4 groups closed, 14 usable rollouts, mean reward 0.625, 2 of 16 attempts unfinished; written to runs/step-41",
        "note: desktops are out: worker-001",
    ]
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")))
    shown.end(
        {**SUMMARY, "rewards": {**SUMMARY["rewards"], "usable": 0, "mean": None}, "attempts": {"unfinished": 0}, "notices": []},
        Path("x"),
    )
    assert out.getvalue().splitlines()[1:] == ["3 of 4 groups closed, 0 usable rollouts; written to x"]


def test_a_notice_is_told_once() -> None:
    """A summary begins with those of the pre-flight, which were told at the start."""
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")).model_copy(update={"engine": {"notices": ["the server returns no token ids"]}}))
    shown.end({**SUMMARY, "notices": ["the server returns no token ids", *SUMMARY["notices"]]}, Path("x"))
    assert [line for line in out.getvalue().splitlines() if line.startswith("note: ")] == [
        "note: the server returns no token ids",
        "note: desktops are out: worker-001",
    ]


def test_a_version_that_nobody_named() -> None:
    """Rollouts are stamped with it all the same, so it is told."""
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")), inherits=True)
    assert out.getvalue().splitlines()[1:] == [
        "note: no version was given: rollouts are stamped with the service's, 'v1' (--version)"
    ]


def test_a_run_that_goes_on() -> None:
    """Its pace is that since it goes on; one that had finished says so; one that is cut says how to go on."""
    clock = DrivenClock()
    shown, out = display(clock)
    shown.start(run_file(Path("/x")), resumed=True)
    shown.show(status(rows={}, attempts_ended=0, desktops={}))
    clock.sleep(30)
    shown.show(status(rows={"ok": 4}, attempts_ended=4))
    clock.sleep(60)
    shown.show(status(closed=2, rows={"ok": 6}, attempts_ended=6))
    shown.cut(Path("runs/my run"), "legato-rl again")
    _, before, first, then, last = out.getvalue().splitlines()
    assert before.endswith("| 0/h, unknown time left")
    assert first.endswith("| 0/h, unknown time left")
    assert then.endswith("| 120/h, 5:00 left")
    assert last == "go on with: legato-rl again"
    shown, out = display(clock)
    shown.cut(Path("x"), "legato-rl again")
    assert out.getvalue() == ""
    shown.end(SUMMARY, Path("x"))
    assert out.getvalue().splitlines()[0] == "the run had finished before: nothing was started"


def test_the_desktops_of_a_service() -> None:
    """How many they are changes, and its run was asked for none: a line has those that work now."""
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")).model_copy(update={"submitted": "id"}))
    shown.show(status(desktops={"act": 5}))
    first, then = out.getvalue().splitlines()
    assert first == "r1: the service's desktops (fake), policy m v1 at fake"
    assert "| desktops 5 act |" in then


@pytest.mark.parametrize("why", ["stopped before its end: the model server is down", "interrupted before its end"])
def test_why_a_run_was_cut_is_not_said_here(tmp_path: Path, why: str) -> None:
    """It is the command's last word; the other notices are told."""
    shown, out = display(DrivenClock())
    shown.start(run_file(Path("/x")))
    (tmp_path / "summary.json").write_bytes(json_bytes({**SUMMARY, "notices": [f"the run was {why}", *SUMMARY["notices"]]}))
    shown.cut(tmp_path, "legato-rl again")
    assert out.getvalue().splitlines()[2:] == ["note: desktops are out: worker-001", "go on with: legato-rl again"]


def test_quiet_is_quiet() -> None:
    """No line, whatever happens."""
    shown, out = display(DrivenClock(), quiet=True)
    shown.start(run_file(Path("/x")))
    shown.show(status())
    shown.show(status(closed=4, state="finished"))
    assert out.getvalue() == ""


def test_the_panel_of_a_terminal() -> None:
    """The same facts, drawn in place; nothing yet is said as such."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        shown = Display(console, live, False, DrivenClock())
        shown.show(status(attempts_ended=0, rows={}))
        live.refresh()
        assert "none yet" in out.getvalue()
        assert "unknown time left" in out.getvalue()
        shown.show(status(state="stopping", reason="interrupted"))
        live.refresh()
    text = out.getvalue()
    for fact in ("1 closed, 0 short, 3 open", "4 ok", "2 act, 1 policy", "up, 5 running, 3 queued", "4/16", "interrupted"):
        assert fact in text


def test_where_the_cursor_stays() -> None:
    """On a line of its own below the panel, so that an echoed ^C is on none of the panel's, however full these are."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with Live(console=console, auto_refresh=False) as live:
        shown = Display(console, live, False, DrivenClock())
        shown.show(status(state="stopping", reason="interrupted"))
        live.refresh()
        assert re.search(r"Ctrl-C ends it at once *\n\Z", out.getvalue())


@pytest.mark.parametrize("quiet", [True, False])
def test_no_panel_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    """Plain lines on stderr; stdout stays free for the summary."""
    with progress(quiet) as shown:
        shown.show(status())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("groups 1/4 closed" in captured.err) == (not quiet)


def test_words_of_others_are_no_markup() -> None:
    """A server's message in brackets is shown as it is, and takes nothing down."""
    words = "HTTP 404, 'no route [/v1/chat/completions]' [red]x"
    shown, out = display(DrivenClock())
    shown.show(status(policy="down", policy_message=words))
    assert words in out.getvalue()
    shown, out = display(DrivenClock())
    shown.end({**SUMMARY, "notices": [words]}, Path("runs/[x]"))
    assert words in out.getvalue()
    assert "runs/[x]" in out.getvalue()
