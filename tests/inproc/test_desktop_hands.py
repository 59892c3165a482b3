"""Does a command reach the prepared interpreter whole? The guest server's hand, with an empty pyautogui in its home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato_rl.workers.desktop.guest_server.hands import Hands
from legato_rl.workers.desktop.guest_server.identity import User

STAND_INS = {
    "pyautogui/__init__.py": "from . import _pyautogui_x11\nPAUSE = 0.1\ndef failSafeCheck(): ...\n",
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
    with pytest.raises(TimeoutError, match=r"^Command '.*' timed out after 0.5 seconds$"):
        hands.act("while True: pass", 0.5)
    assert hands.act("print('next')", LIMIT_S).output == "next\n"
