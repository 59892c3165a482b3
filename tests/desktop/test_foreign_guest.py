"""Is an answer of somebody else, at a port that was the desktop's, ever taken for the desktop's? By none of its routes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bad.guest import Answer, Guest, as_json, done
from scripted import ScriptedDesktop, desktop, task
from test_container_env import Boot, boot, note_task, solve

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.desktop import Desktop, DesktopFailure
from legato_rl.workers.desktop import lease, ready
from legato_rl.workers.desktop.container import PORTS
from legato_rl.workers.desktop.guest import Guest as Client
from legato_rl.workers.desktop.guest_server.answers import DESKTOP as HEADER
from legato_rl.workers.desktop.owners import labels, ours
from legato_rl.workers.desktop.sense import Wait

__all__ = ["boot"]

pytestmark = pytest.mark.desktop

PATIENCE_S = 60.0
SETTLED = {"ready": True, "seconds": 0.1}
OWN = {
    "/legato/health": {"ok": True, "baseline": True},
    "/legato/lease": {"seconds": 120},
    "/legato/ready": SETTLED,
    "/legato/act": {"returncode": 0, "output": "", "error": "", "seconds": 0.1, "ready": SETTLED},
    "/legato/reset": {"clean": True, "left": {}},
}
"""What a guest whose server is ours answers."""
ROLLOUT: dict[str, Any] = {
    "config": [{"type": "execute", "parameters": {"command": ["prepare", "it"]}}],
    "postconfig": [{"type": "execute", "parameters": {"command": ["save", "it"]}}],
    "result": {"type": "vm_command_line", "command": ["answer", "it"]},
    "expected": {"type": "rule", "rules": {"expected": "yes\n"}},
}


@dataclass
class Named(Guest):
    """A guest with a token, of whose answers one is somebody else's: that number `foreign`, counted from 0."""

    token: str = "a-token"
    foreign: int = -1
    shown: str | None = None
    """What that one shows in place of the token; None: nothing."""
    route: str = ""
    """Where the foreign answer was given."""

    def _answer(self, route: str, body: Any) -> Answer:
        answer = super()._answer(route, body)
        self.foreign -= 1
        if self.foreign != -1:
            return replace(answer, headers={**answer.headers, HEADER: self.token})
        self.route = route
        return answer if self.shown is None else replace(answer, headers={**answer.headers, HEADER: self.shown})


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Iterator[Named]:
    """A guest whose server is ours, and in which the task is done."""
    for wait in ("AFTER_RESET", "AFTER_ACTION", "BEFORE_EVAL"):
        monkeypatch.setattr(ready, wait, Wait(quiet_s=0.1, cap_s=0.1))
    # the foreign answer is counted off, and shall not be one to the lease's own thread
    monkeypatch.setattr(lease, "RENEW_S", 3600.0)
    habits = {route: [lambda said=said: as_json(said)] for route, said in OWN.items()}
    with Named(commands={"^answer it": done(output="yes\n")}, habits=habits) as named:  # type: ignore[arg-type]
        yield named


def play(driven: Desktop, number: int) -> float:
    """A whole rollout."""
    driven.reset(task(rollout=f"r:g:{number}:0", **ROLLOUT))
    driven.wait_after_reset()
    driven.act("pyautogui.click(1, 2)")
    driven.observe()
    driven.act("WAIT")
    driven.wait_before_eval()
    return driven.evaluate()


@pytest.mark.parametrize("shown", [None, "another-token"], ids=["no token", "another token"])
def test_each_answer_of_a_rollout(tmp_path: Path, guest: Named, shown: str | None) -> None:
    """In turn, each one is somebody else's, with the very words that the desktop would have said: there is no verdict."""
    guest.shown = shown
    with desktop(tmp_path, guest) as driven:
        assert play(driven, 0) == 1.0
        guest.asked.clear()
        assert play(driven, 1) == 1.0
        answers = len(guest.asked)
        assert answers > 10
        for number in range(answers):
            _one_foreign_answer(driven, guest, number)


def _one_foreign_answer(driven: ScriptedDesktop, guest: Named, number: int) -> None:
    escalated = driven.resets.counts["escalated"]
    guest.foreign, guest.route = number, ""
    outcome: str | float
    try:
        outcome = play(driven, 2)
    except DesktopFailure as failure:
        outcome = failure.type
    # a fast reset that was somebody else's is followed by a revert, and the rollout is played all the same
    fast = guest.route == "/legato/reset"
    assert (outcome, driven.resets.counts["escalated"]) == (1.0 if fast else "foreign_guest", escalated + fast), guest.route
    # a revert, and a rollout that begins as the next one shall: with a fast reset
    assert play(driven, 3) == 1.0


@pytest.mark.parametrize("phase", ["wait_after_reset", "observe", "act", "wait_before_eval", "evaluate", "reset"])
def test_the_next_container_at_the_port(boot: Boot, engine: Any, desktop_image: str, phase: str) -> None:
    """A real one: it does nothing of what it is asked, and the desktop's next rollout has a container of its own."""
    driven = boot(phase)
    driven.reset(note_task())
    if phase != "wait_after_reset":
        driven.wait_after_reset()
        solve(driven)
    before = int(driven._env.server_port)
    (container,) = [one for one in ours(engine) if one.name == f"legato-rl-{driven._cache.folder.parent.name}"]
    container.remove(force=True, v=True)
    with _another_at(engine, desktop_image, before) as other:
        if phase == "reset":
            driven.reset(note_task("r:g:0:1"))
            assert driven.reset_way == "escalated"
        else:
            with pytest.raises(DesktopFailure) as failure:
                driven.act("open('/tmp/acted', 'w')") if phase == "act" else getattr(driven, phase)()
            assert failure.value.type == "foreign_guest"
            driven.reset(note_task("r:g:0:1"))
            assert driven.reset_way == "revert"
        assert int(driven._env.server_port) != before
        assert other.execute("ls /tmp/acted /home/user/note.txt", shell=True).stdout == ""
    driven.wait_after_reset()
    solve(driven)
    assert driven.evaluate() == 1.0


@contextmanager
def _another_at(engine: Any, image: str, port: int) -> Iterator[Client]:
    """A client of another desktop, whose server is at `port`."""
    published = {f"{number}/tcp": ("127.0.0.1", port if number == PORTS[0] else None) for number in PORTS}
    own = {"LEGATO_TOKEN": "of-another", "LEGATO_LEASE_S": "900"}
    container = engine.containers.run(
        image, detach=True, labels=labels(f"another-{os.getpid()}"), environment=own, ports=published
    )
    try:
        other, deadline = Client("127.0.0.1", port, SYSTEM_CLOCK, own["LEGATO_TOKEN"]), SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while True:
            try:
                other.probe()
                break
            except DesktopFailure:
                assert SYSTEM_CLOCK.monotonic() < deadline
                SYSTEM_CLOCK.sleep(0.1)
        yield other
    finally:
        container.remove(force=True, v=True)
