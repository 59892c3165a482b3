"""Whatever a guest does wrong: is there no verdict, a failure with a type, and a revert before the next rollout?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bad.guest import FAULTS, Answer, Guest, Habit, done, hang, picture
from patience import failing
from scripted import ScriptedDesktop, desktop, task

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop import ready, sense, watch

pytestmark = pytest.mark.desktop

CLICK = "pyautogui.click(10, 20)"
GRADED: dict[str, Any] = {
    "result": {"type": "vm_command_line", "command": ["answer", "it"]},
    "expected": {"type": "rule", "rules": {"expected": "yes\n"}},
}
FILE: dict[str, Any] = {
    "result": {"type": "vm_file", "path": "/x", "dest": "x"},
    "expected": {"type": "rule", "rules": {"expect": [{"key": ["x"], "method": "eq", "ref": 1}]}},
}


def limit(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have answers given up after so many seconds."""
    for module, names in (
        (watch, ("CALL_S", "EXECUTE_S")),
        (sense, ("ACT_S", "MARGIN_S")),
        (guest_module, ("SCREENSHOT_S", "PROBE_S")),
        (ready, ("PROBE_S",)),
    ):
        for name in names:
            patch.setattr(module, name, seconds)
    patch.setattr(watch, "ROUTE_S", {})


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer comes, if late on a busy machine."""
    limit(monkeypatch, 60.0)


@pytest.fixture
def healthy() -> Iterator[Guest]:
    """The guest of the next boot."""
    with Guest(commands={"^answer it": done(output="yes\n")}) as guest:
        yield guest


def fails_then_recovers(driven: ScriptedDesktop, failure: DesktopFailure, types: set[str]) -> None:
    """The failure has one of these types, and the next rollout runs on a new boot and is graded."""
    assert failure.type in types, (failure.type, str(failure))
    boots = driven.scripted.boots
    driven.reset(task(rollout="r:g:0:1", **GRADED))
    assert driven.scripted.boots == boots + 1
    driven.wait_after_reset()
    assert driven.evaluate() == 1.0


ALL = {**FAULTS, "hang": hang}


@pytest.mark.parametrize("fault", ALL)
def test_an_action(tmp_path: Path, healthy: Guest, fault: str) -> None:
    """A lost answer to an action: it may have been done, so it is never sent again."""
    with Guest() as guest, desktop(tmp_path, guest, healthy) as driven:
        driven.reset(task(**GRADED))
        driven.wait_after_reset()
        guest.habits["/execute"] = [ALL[fault]]
        before = len(guest.ran("click"))
        with failing(fault, limit) as failure:
            driven.act(CLICK)
        # none where the guest was so slow that it has not read it yet
        assert len(guest.ran("click")) <= before + 1
        types = {"guest_error", "bad_body", "answer_lost", "guest_timeout"}
        fails_then_recovers(driven, failure.value, types)


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize(
    ("route", "evaluator"), [("/execute", ("exact_match", GRADED)), ("/file", ("check_json", FILE))], ids=["command", "file"]
)
def test_an_evaluation(tmp_path: Path, healthy: Guest, fault: str, route: str, evaluator: Any) -> None:
    """The answer that would be graded is lost: no 0, though OSWorld's client makes the same None of it as of a 404."""
    func, fields = evaluator
    with Guest(files={"/x": b'{"x": 2}'}) as guest, desktop(tmp_path, guest, healthy) as driven:
        driven.reset(task(func, **fields))
        probe = lambda: done(output="legato-1\n")  # noqa: E731
        guest.habits[route] = [probe, ALL[fault]] if route == "/execute" else [ALL[fault]]
        with failing(fault, limit) as failure:
            driven.evaluate()
        assert len([1 for asked, _ in guest.asked if asked == "/file"]) <= 1
        fails_then_recovers(driven, failure.value, {"guest_error", "bad_body", "answer_lost", "guest_timeout"})


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_guest_that_dies(tmp_path: Path, healthy: Guest, when: str) -> None:
    """Before, during and after the evaluation: what came of it is not believed."""
    guest = Guest()

    def last_words() -> Answer:
        guest.die()
        return done(output="yes\n")

    with guest, desktop(tmp_path, guest, healthy) as driven:
        driven.reset(task(**GRADED))
        if when == "before":
            guest.die()
        else:
            graded = last_words if when == "after" else ALL["drop"]
            guest.habits["/execute"] = [lambda: done(output="legato-1"), graded]
        with pytest.raises(DesktopFailure) as failure:
            driven.evaluate()
        fails_then_recovers(driven, failure.value, {"guest_unreachable", "answer_lost"})


SCREENS: dict[str, Habit] = {
    **FAULTS,
    "hang": hang,
    "torn": lambda: Answer(picture()[:-40], kind="image/png"),
    "one byte wrong": lambda: Answer(picture()[:60] + b"!" + picture()[61:], kind="image/png"),
    "another size": lambda: Answer(picture((640, 480)), kind="image/png"),
    "no picture": lambda: Answer(b"not a picture", kind="image/png"),
}


@pytest.mark.parametrize("fault", SCREENS)
def test_a_screenshot(tmp_path: Path, healthy: Guest, fault: str) -> None:
    """Asked for three times; nothing that is not a whole picture of the screen's size is passed on."""
    with Guest() as guest, desktop(tmp_path, guest, healthy) as driven:
        driven.reset(task(**GRADED))
        guest.asked.clear()
        guest.habits["/screenshot"] = [SCREENS[fault]]
        with failing(fault, limit) as failure:
            driven.observe()
        asked = len([1 for route, _ in guest.asked if route == "/screenshot"])
        assert asked == 3 or (fault == "hang" and asked < 3)
        types = {"screenshot", "guest_error", "answer_lost", "guest_timeout"}
        fails_then_recovers(driven, failure.value, types)


def test_a_screenshot_that_comes_at_last(tmp_path: Path) -> None:
    """A picture may be asked for again."""
    with Guest() as guest, desktop(tmp_path, guest) as driven:
        driven.reset(task(**GRADED))
        guest.habits["/screenshot"] = [SCREENS["torn"], SCREENS["error"], lambda: Answer(picture())]
        assert driven.observe() == picture()


SETUP = [{"type": "execute", "parameters": {"command": ["prepare", "it"]}}]


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("kind", ["execute", "launch"])
def test_a_setup(tmp_path: Path, healthy: Guest, fault: str, kind: str) -> None:
    """OSWorld logs a setup step's lost answer and goes on with an unprepared desktop; here that is a failure."""
    steps = [{"type": kind, "parameters": {"command": ["prepare", "it"]}}]
    with Guest(habits={f"/setup/{kind}": [ALL[fault]]}) as guest, desktop(tmp_path, guest, healthy) as driven:
        with failing(fault, limit) as failure:
            driven.reset(task(config=steps, **GRADED))
        fails_then_recovers(driven, failure.value, {"guest_error", "bad_body", "answer_lost", "guest_timeout", "setup"})


def test_a_setup_that_the_guest_refuses(tmp_path: Path, healthy: Guest) -> None:
    """Nobody has acted yet: a file that is not there was never brought."""
    steps = [{"type": "open", "parameters": {"path": "/none"}}]
    with Guest() as guest, desktop(tmp_path, guest, healthy) as driven:
        with pytest.raises(DesktopFailure) as failure:
            driven.reset(task(config=steps, **GRADED))
        fails_then_recovers(driven, failure.value, {"setup"})


def test_a_launch_of_nothing(tmp_path: Path, healthy: Guest) -> None:
    """The guest says that it launched a program, and there is no window of it."""
    steps = [{"type": "launch", "parameters": {"command": ["mousepad"]}}]
    with Guest() as guest, desktop(tmp_path, guest, healthy) as driven:
        driven.reset(task(config=steps, **GRADED))
        with pytest.raises(DesktopFailure, match="there is no window of mousepad") as failure:
            driven.wait_after_reset()
        fails_then_recovers(driven, failure.value, {"not_ready"})


def test_a_guest_that_stays_away(tmp_path: Path, healthy: Guest) -> None:
    """The setup's pings are not waited for five times twenty."""
    with Guest() as guest, desktop(tmp_path, guest, healthy) as driven:
        guest.die()
        with pytest.raises(DesktopFailure) as failure:
            driven.reset(task(**GRADED))
        fails_then_recovers(driven, failure.value, {"guest_unreachable", "answer_lost"})


def test_an_action_that_fails_in_the_guest(tmp_path: Path) -> None:
    """Its exit code and words are a result: what the policy did."""
    with Guest(commands={"nonsense": done(rc=1, error="NameError: nonsense")}) as guest, desktop(tmp_path, guest) as driven:
        driven.reset(task(**GRADED))
        result = driven.act("pyautogui.nonsense()")
        assert (result.rc, result.stderr) == (1, "NameError: nonsense")
        assert driven.evaluate() == 0.0


def test_a_fault_of_the_accessibility_route_alone(tmp_path: Path) -> None:
    """/terminal is OSWorld's ping, of which any status is an answer."""
    with Guest(commands={"^answer it": done(output="yes\n")}, habits={"/terminal": [FAULTS["error"]]}) as guest:
        with desktop(tmp_path, guest) as driven:
            driven.reset(task(config=SETUP, **GRADED))
            assert driven.evaluate() == 1.0
