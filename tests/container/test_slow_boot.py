"""Is a desktop that is slow waited for, and does one that cannot start say why?"""

from __future__ import annotations

import io
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.container import Size, start_desktop
from legato_rl.workers.desktop.guest_server import hands as hands_module
from legato_rl.workers.desktop.guest_server.hands import Hands
from legato_rl.workers.desktop.guest_server.identity import User
from legato_rl.workers.desktop.owners import reap

pytestmark = pytest.mark.desktop

LIMIT_S = 60.0
SMALL = Size(memory=2**30, cpus=1.0, screen=(1280, 720))
STAND_INS = {
    "pyautogui/_pyautogui_x11.py": "from Xlib.display import Display\n_display = Display('')\n",
    "Xlib/__init__.py": "",
    "Xlib/display.py": "class Display:\n    def __init__(self, name): ...\n    def close(self): ...\n",
}
WORKS = "from . import _pyautogui_x11\nPAUSE = 0.1\ndef failSafeCheck(): ...\n"


def hands_with(home: Path, pyautogui: str) -> Hands:
    """The hands of this user, in a home with such a module."""
    for name, text in {**STAND_INS, "pyautogui/__init__.py": pyautogui}.items():
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    home.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "DISPLAY": ":0"}
    return Hands(User("me", os.getuid(), os.getgid(), tuple(os.getgroups()), str(home), env))


def test_a_slow_interpreter_is_not_killed(tmp_path: Path) -> None:
    """Who has waited long enough is told so; the interpreter goes on, and does the next one's command."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hands = hands_with(tmp_path, f"open({str(gate)!r}).read()\n{WORKS}")
    starting = threading.Thread(target=hands.start, args=(None,))
    starting.start()
    try:
        with gate.open("w"):  # returns when the interpreter has come there
            with pytest.raises(OSError, match=r"^the prepared interpreter has not started within 0.2 s$"):
                hands.start(0.2)
            pid = hands.pid
        assert hands.act("print('done')", LIMIT_S).output == "done\n"
        assert hands.pid == pid
    finally:
        starting.join(LIMIT_S)
        hands.close()


@pytest.mark.parametrize(
    ("pyautogui", "why"),
    [
        ("raise RuntimeError('no\\nscreen')", "RuntimeError: no screen"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import os; os._exit(3)", "it ended with 3"),
    ],
)
def test_an_interpreter_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyautogui: str, why: str) -> None:
    """The cause is told, to who wants it ready and to who acts."""
    monkeypatch.setattr(hands_module, "GONE_S", LIMIT_S)
    hands = hands_with(tmp_path, pyautogui)
    for ask in (lambda: hands.start(LIMIT_S), lambda: hands.act("print(1)", LIMIT_S)):
        with pytest.raises(OSError, match=rf"^the prepared interpreter did not start: {why}$"):
            ask()


def test_a_desktop_that_cannot_start(engine: Any, desktop_image: str) -> None:
    """The failure of its boot says what the guest said."""
    broken = engine.containers.create(desktop_image)
    tag = broken.id[:12]
    try:
        assert broken.put_archive(
            "/usr/local/lib/python3.11/dist-packages/pyautogui", _archive("raise RuntimeError('no screen')")
        )
        broken.commit("legato-test", tag)
        why = "did not come up .*500: .*OSError: the prepared interpreter did not start: RuntimeError: no screen"
        with pytest.raises(DesktopFailure, match=why) as failure:
            start_desktop(engine, f"legato-test:{tag}", f"broken-{os.getpid()}", size=SMALL)
        assert failure.value.type == "boot"
    finally:
        engine.images.remove(f"legato-test:{tag}")
        broken.remove(v=True, force=True)


def _archive(text: str) -> bytes:
    """A package's `__init__.py` with this text, as Docker takes files."""
    data, file = text.encode(), io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        named = tarfile.TarInfo("__init__.py")
        named.size = len(data)
        archive.addfile(named, io.BytesIO(data))
    return file.getvalue()


def test_a_boot_that_has_no_time(engine: Any, desktop_image: str) -> None:
    """A failure of the boot, with what it was waiting for; nothing is left."""
    name = f"late-{os.getpid()}"
    with pytest.raises(DesktopFailure, match="did not come up") as failure:
        start_desktop(engine, desktop_image, name, size=SMALL, boot_s=0)
    assert failure.value.type == "boot"
    assert reap(engine, name=name) == []
