"""Does a command reach the prepared interpreter whole? The guest server's hand, with an empty pyautogui in its home."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.workers.desktop import guest, sense
from legato_rl.workers.desktop.guest_server import hands as hands_module
from legato_rl.workers.desktop.guest_server.hands import Hands
from legato_rl.workers.desktop.guest_server.identity import User

STAND_INS = {
    "pyautogui/__init__.py": "from . import _pyautogui_x11, gate\nPAUSE = 0.1\ndef failSafeCheck(): ...\n",
    "pyautogui/gate.py": "import os\ndef come(to):\n    if os.path.exists(to): open(to).read()\n"
    "come('gate')\nos.register_at_fork(after_in_child=lambda: come('fork'))\n",
    "pyautogui/_pyautogui_x11.py": "from Xlib.display import Display\n_display = Display('')\n",
    "Xlib/__init__.py": "",
    "Xlib/display.py": "class Display:\n    def __init__(self, name): ...\n    def close(self): ...\n",
}
LIMIT_S = 60.0


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    """A hand of this user, in a home where those modules are."""
    for name, text in STAND_INS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    tmp_path.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DISPLAY": ":0"}
    one = Hands(User("me", os.getuid(), os.getgid(), tuple(os.getgroups()), str(tmp_path), env))
    yield one
    one.close()


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_a_command_of_any_length(hands: Hands, length: int) -> None:
    """A megabyte is more than a socket takes at once."""
    for _ in range(2):
        ended = hands.act(f"print(len({'x' * length!r}))", LIMIT_S)
        assert (ended.returncode, ended.output) == (0, f"{length}\n")


def test_a_command_that_does_not_end(hands: Hands) -> None:
    """It is killed, told in the words of OSWorld's server, and the next one runs."""
    hands.start(LIMIT_S)
    with pytest.raises(TimeoutError, match=r"^Command '.*' timed out after 0.5 seconds$"):
        hands.act("while True: pass", 0.5)
    assert hands.act("print('next')", LIMIT_S).output == "next\n"


def test_a_command_that_has_just_begun(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed as well; the hand stays."""
    monkeypatch.setattr(hands_module, "END_S", LIMIT_S)
    hands.start(LIMIT_S)
    pid = hands.pid
    for _ in range(20):
        with pytest.raises(TimeoutError):
            hands.act("while True: pass", 0.0)
    assert hands.act("print('next')", LIMIT_S).output == "next\n"
    assert hands.pid == pid


def test_a_command_that_stops_its_hand(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told in the same words, which are a step's result; the next one has a hand again."""
    monkeypatch.setattr(hands_module, "END_S", 0.2)
    hands.start(LIMIT_S)
    with pytest.raises(TimeoutError) as told:
        hands.act("import os, signal; os.kill(os.getppid(), signal.SIGSTOP); signal.pause()", 2.0)
    body = json.dumps({"status": "error", "message": str(told.value)}).encode()
    assert guest.acted(500, body)[0].rc == guest.TIMED_OUT
    assert hands.act("print('next')", LIMIT_S).output == "next\n"


@pytest.mark.parametrize("late", [False, True])
def test_a_command_that_kills_its_hand(hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """It ended by that signal, and does not act on behind the next one; also where all that came before the server looked."""
    send_fds = socket.send_fds

    def send_and_stall(*args: Any) -> int:
        sent = send_fds(*args)
        if late and hands._process is not None:
            hands._process.wait(LIMIT_S)
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_stall)
    os.mkfifo(tmp_path / "alive")
    code = "import os, signal; alive = open('alive', 'w'); os.kill(os.getppid(), signal.SIGKILL); signal.pause()"
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert hands.act(code, LIMIT_S).returncode == -signal.SIGKILL
        assert select.select([alive], [], [], LIMIT_S)[0], "it still has its file open"
        assert os.read(alive, 1) == b""
    finally:
        os.close(alive)
    monkeypatch.undo()
    assert hands.act("print('next')", LIMIT_S).output == "next\n"


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
def test_a_hand_that_dies_as_a_command_begins(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: signal.Signals
) -> None:
    """Killed or stopped as soon as it has forked, by whomever: the command does not act on behind the next one."""
    monkeypatch.setattr(hands_module, "END_S", 0.2)
    gate = tmp_path / "pyautogui/gate.py"
    works = gate.read_text()
    gate.write_text(
        "import os\nalive = open('alive', 'w')\n"
        f"os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), {int(fate)}))\n"
    )
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        hands.start(LIMIT_S)
        with suppress(TimeoutError):
            assert hands.act(f"import time; time.sleep({2 * LIMIT_S})", 0.5).returncode == -signal.SIGKILL
        assert select.select([alive], [], [], LIMIT_S)[0], "one of the two still has the file open"
        assert os.read(alive, 1) == b""
    finally:
        os.close(alive)
    gate.write_text(works)
    assert hands.act("print('next')", LIMIT_S).output == "next\n"


def test_a_command_that_is_killed_before_it_begins(hands: Hands, tmp_path: Path) -> None:
    """It ended by that signal, and the next one runs: nobody takes that for a process to be killed."""
    gate = tmp_path / "pyautogui/gate.py"
    gate.write_text(
        "import os\nos.register_at_fork(after_in_child=lambda: os.path.exists('doom') and os.kill(os.getpid(), 9))\n"
    )
    (tmp_path / "doom").touch()
    assert hands.act("print('doomed')", LIMIT_S).returncode == -signal.SIGKILL
    pid = hands.pid
    (tmp_path / "doom").unlink()
    assert hands.act("print('next')", LIMIT_S).output == "next\n"
    assert hands.pid == pid


def test_a_new_hand_and_a_command_have_one_time(hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a hand was killed the next one starts slowly, and its command does not end: that is told in the command's time.

    What goes by while the hand starts goes by at once: 500 of the 600 s. The rest does when the command has begun.
    """
    ahead = 0.0
    monkeypatch.setattr(hands_module, "now", lambda: SYSTEM_CLOCK.monotonic() + ahead)
    monkeypatch.setattr(hands_module, "END_S", LIMIT_S)
    assert hands.act("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", LIMIT_S).returncode == -signal.SIGKILL
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "fork")
    with ThreadPoolExecutor() as pool:
        acting = pool.submit(hands.act, "while True: pass", 600.0)
        with (tmp_path / "gate").open("w"):  # returns when the new hand has come there
            ahead = 500.0
        with (tmp_path / "fork").open("w"):  # and this when the command's process has
            ahead = 600.0
        try:
            with pytest.raises(TimeoutError, match=r"^Command '.*' timed out after 600 seconds$"):
                acting.result(LIMIT_S)
        finally:
            if hands.pid is not None and not acting.done():
                os.kill(hands.pid, signal.SIGKILL)


def test_a_new_hand_that_does_not_come_up(hands: Hands, tmp_path: Path) -> None:
    """The command that waits for it is told like one that did not end: each rollout begins with a hand that is ready."""
    os.mkfifo(tmp_path / "gate")
    with pytest.raises(TimeoutError, match=r"^Command 'print\(1\)' timed out after 0.2 seconds$"):
        hands.act("print(1)", 0.2)
    os.unlink(tmp_path / "gate")
    assert hands.act("print('next')", LIMIT_S).output == "next\n"


def test_a_command_that_waits_for_another(hands: Hands, tmp_path: Path) -> None:
    """The wait is a part of its time; the other goes on."""
    os.mkfifo(tmp_path / "gate")
    with ThreadPoolExecutor() as pool:
        other = pool.submit(hands.act, "print('other')", LIMIT_S)
        with (tmp_path / "gate").open("w"):
            with pytest.raises(TimeoutError, match=r"^Command 'print\(1\)' timed out after 0.2 seconds$"):
                hands.act("print(1)", 0.2)
        assert other.result(LIMIT_S).output == "other\n"


def test_the_worker_waits_longer() -> None:
    """What a command takes beyond its time is well within what the worker allows: no answer then is the desktop's failure."""
    assert hands_module.END_S + hands_module.GONE_S <= sense.MARGIN_S / 2
