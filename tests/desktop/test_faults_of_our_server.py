"""Whatever a guest that runs our server does wrong, and a boot: is there no verdict, and a clean desktop the next time?"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from bad.guest import FAULTS, Guest, Habit, as_json, done, hang
from patience import failing
from scripted import ScriptedDesktop, config, desktop, task

from legato_rl.config import DesktopConfig
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import cleaner, ready, sense
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.sense import Wait

pytestmark = pytest.mark.desktop

GRADED: dict[str, Any] = {
    "result": {"type": "vm_command_line", "command": ["answer", "it"]},
    "expected": {"type": "rule", "rules": {"expected": "yes\n"}},
}
READY = {"ready": True, "seconds": 0.1}
ALL: dict[str, Habit] = {**FAULTS, "hang": hang, "another answer": lambda: as_json({"what": "?"})}
LOST = {"guest_error", "bad_body", "answer_lost", "guest_timeout"}


def ours() -> Guest:
    """A guest whose server is ours, and in which the task is done."""
    usual = {
        "/legato/health": {"ok": True, "baseline": True},
        "/legato/lease": {"seconds": 120},
        "/legato/ready": READY,
        "/legato/act": {"returncode": 0, "output": "", "error": "", "seconds": 0.1, "ready": READY},
        "/legato/reset": {"clean": True, "left": {}},
    }
    habits = {route: [lambda said=said: as_json(said)] for route, said in usual.items()}
    return Guest(commands={"^answer it": done(output="yes\n")}, habits=habits)  # type: ignore[arg-type]


def limit(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have answers to what a rollout asks given up after so many seconds."""
    for module, names in (
        (sense, ("ACT_S", "MARGIN_S")),
        (guest_module, ("SCREENSHOT_S", "PROBE_S")),
        (ready, ("PROBE_S",)),
    ):
        for name in names:
            patch.setattr(module, name, seconds)


@pytest.fixture
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer comes, if late on a busy machine; waits for the screen are short."""
    limit(monkeypatch, 60.0)
    for wait in ("AFTER_RESET", "AFTER_ACTION", "BEFORE_EVAL"):
        monkeypatch.setattr(ready, wait, Wait(quiet_s=0.1, cap_s=0.1))


@pytest.fixture
def pair(_limits: None, tmp_path: Path) -> Iterator[tuple[ScriptedDesktop, Guest]]:
    """A desktop at its first task's start, and its guest; every later boot is another guest."""
    with ours() as first, ours() as healthy, desktop(tmp_path, first, healthy) as driven:
        driven.reset(task(**GRADED))
        yield driven, first


def goes_on(driven: ScriptedDesktop, boots: int) -> None:
    """The next rollout runs on boot number `boots` and is graded."""
    driven.reset(task(rollout="r:g:0:1", **GRADED))
    assert driven.scripted.boots == boots
    driven.wait_after_reset()
    assert driven.act("pyautogui.click(1, 2)").rc == 0
    assert driven.evaluate() == 1.0


@pytest.mark.parametrize("fault", ALL)
def test_an_action(pair: tuple[ScriptedDesktop, Guest], fault: str) -> None:
    """A lost answer to an action: it may have been done, so it is never sent again."""
    driven, guest = pair
    guest.habits["/legato/act"] = [ALL[fault]]
    with failing(fault, limit) as failure:
        driven.act("pyautogui.click(1, 2)")
    assert failure.value.type in LOST
    # none where the guest was so slow that it has not read it yet
    assert len([1 for route, _ in guest.asked if route == "/legato/act"]) <= 1
    goes_on(driven, 2)


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("wait", ["wait_after_reset", "wait_before_eval"])
def test_a_wait(pair: tuple[ScriptedDesktop, Guest], fault: str, wait: str) -> None:
    """Nobody knows what is on the screen."""
    driven, guest = pair
    guest.habits["/legato/ready"] = [ALL[fault]]
    with failing(fault, limit) as failure:
        getattr(driven, wait)()
    assert failure.value.type in LOST
    goes_on(driven, 2)


@pytest.mark.parametrize("fault", [*ALL, "not clean"])
def test_a_fast_reset(pair: tuple[ScriptedDesktop, Guest], monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """One that does not say that all is clean is followed by a revert, and the rollout is played all the same."""
    driven, guest = pair
    if fault == "hang":
        monkeypatch.setattr(cleaner, "CLEAN_S", 1.0)
    unclean: Habit = lambda: as_json({"clean": False, "left": {"home": ["x"]}})  # noqa: E731
    guest.habits["/legato/reset"] = [{**ALL, "not clean": unclean}[fault]]
    goes_on(driven, 2)
    assert driven.resets.counts == {"booted": 1, "escalated": 1}


def boots(*outcomes: Guest | Exception) -> Callable[[int], Guest]:
    """What a provider's boots come to, one after the other."""
    left = list(outcomes)

    def boot(number: int) -> Guest:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return boot


NO_BOOT = {
    "never up": DesktopFailure("boot", "desktop did not come up"),
    "port taken": RuntimeError("driver failed: Bind for 0.0.0.0:5000 failed: port is already allocated"),
    "no time": TimeoutError("the engine did not answer"),
}


@pytest.mark.parametrize("why", NO_BOOT)
def test_a_first_boot_that_fails(tmp_path: Path, why: str) -> None:
    """There is no desktop, and nothing is left of it; who asks again may get one."""
    with ours() as guest:
        boot = boots(NO_BOOT[why], guest)
        with pytest.raises(type(NO_BOOT[why]), match=str(NO_BOOT[why])):
            ScriptedDesktop(config(tmp_path), boot)
        driven = ScriptedDesktop(config(tmp_path), boot)
        goes_on(driven, 1)
        driven.close()


@pytest.mark.parametrize("why", NO_BOOT)
def test_a_revert_that_fails(tmp_path: Path, why: str) -> None:
    """No rollout, a failure of the type `boot`, and a further boot for the next one."""
    with ours() as first, ours() as last:
        driven = ScriptedDesktop(config(tmp_path), boots(first, NO_BOOT[why], last))
        driven.reset(task(**GRADED))
        with pytest.raises(DesktopFailure) as failure:
            driven.reset(task(domain="os", **GRADED))
        assert failure.value.type == "boot"
        goes_on(driven, 2)
        driven.close()


def test_ports_that_are_taken(engine: Any, desktop_image: str, tmp_path: Path) -> None:
    """All that OSWorld's provider would begin with: Docker chooses others."""
    with ExitStack() as stack:
        for port in (5000, 8006, 8080, 9222):
            listener = stack.enter_context(socket.socket())
            with suppress(OSError):  # somebody else's then: taken as well
                listener.bind(("127.0.0.1", port))
                listener.listen()
        one = OSWorldDesktop(
            DesktopConfig(
                backend="container", image=desktop_image, screen_size=(1280, 720), ram_gb=2, cpus=2, cache_dir=tmp_path
            ),
            f"ports-{os.getpid()}",
        )
        try:
            one.reset(task("exact_match", **GRADED))
            assert one.evaluate() == 0.0
        finally:
            one.close()
