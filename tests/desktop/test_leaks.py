"""Does the next rollout find a clean desktop, whatever mess the last one left? The real OSWorldDesktop, as workers use it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from container_desktops import Site
from PIL import Image

from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.osworld import OSWorldDesktop

pytestmark = pytest.mark.desktop

SCREEN = (1280, 720)
PANEL = 30
"""Pixels of the panel at the foot of the screen, which has a clock."""
CHOICE = "org.gnome.desktop.interface clock-show-date"


def shell(command: str) -> str:
    """An action that runs a shell's command, as a policy's code may."""
    return f"import subprocess\nassert subprocess.run({command!r}, shell=True, executable='/bin/bash').returncode == 0"


MESSES: dict[str, list[str]] = {
    "processes": [shell("setsid mousepad >/dev/null 2>&1 & setsid xterm >/dev/null 2>&1 &")],
    "background jobs": [shell("(nohup sh -c 'trap : TERM HUP; while :; do touch ~/alive; sleep 0.1; done' >/dev/null 2>&1 &)")],
    "files": [
        shell("echo x > ~/new.txt; mkdir -p ~/Documents/a/b; rm ~/.profile; echo y >> ~/.bashrc; touch /tmp/t /dev/shm/t")
    ],
    "settings": [shell(f"gsettings set {CHOICE} false")],
    "clipboard": [shell("printf secret | xsel -ib; printf more | xsel -ip")],
    "held keys": ["pyautogui.keyDown('shift')\npyautogui.keyDown('a')\npyautogui.mouseDown(300, 300)"],
    "full trash": [shell("for i in 1 2 3; do echo $i > ~/t$i; gio trash ~/t$i; done; test -e ~/.local/share/Trash/files/t3")],
    "wallpaper": [shell("xsetroot -solid '#ff0000'")],
}
"""What a rollout does. The fast reset is enough for each, and for all of them at once."""
ESCAPES: dict[str, list[str]] = {
    "root's files": [shell("echo password | sudo -S touch /etc/left-over")],
    "the panel": [shell("pkill tint2; while pgrep -x tint2; do sleep 0.1; done")],
}
"""What a rollout does that no fast reset undoes."""
TIMES = 3
"""Resets of which one must be a fast one: on a busy machine one may find too late that all is clean, and is followed by a
boot."""


def task(rollout: str, *config: dict[str, Any]) -> dict[str, Any]:
    """A task with such a setup; nothing of it is graded."""
    return {
        "id": "leaks",
        "instruction": "Leave a mess.",
        "config": list(config),
        "evaluator": {"func": "infeasible"},
        "legato": {"rollout_id": f"r:{rollout}:0:0", "group_id": "g", "attempt": 0, "try": 0, "domain": None},
    }


def seen(desktop: OSWorldDesktop) -> dict[str, Any]:
    """What a rollout's start looks like, by other means than the reset's own."""
    site = Site(int(desktop._env.server_port))
    with Image.open(io.BytesIO(desktop.observe())) as image:
        picture = image.convert("RGB").crop((0, 0, SCREEN[0], SCREEN[1] - PANEL)).tobytes()
    keys = "from Xlib import display; d = display.Display(); print(*d.query_keymap(), d.screen().root.query_pointer().mask)"
    commands = {
        "files": "find ~ /tmp /var/tmp /dev/shm -path ~/.cache/tint2 -prune -o -printf '%p %y %m %u %l\\n' | sort",
        # the key to the display is made with the container
        "contents": "find ~ -path ~/.cache/tint2 -prune -o -name .Xauthority -o -type f -print0 | sort -z | xargs -0 sha256sum",
        "processes": "ps -eo comm= | grep -v -x -E 'ps|sh|sort|grep' | sort",
        "windows": "wmctrl -l | cut -d ' ' -f 3-",
        "setting": f"gsettings get {CHOICE}",
        "wallpaper": "gsettings get org.gnome.desktop.background picture-uri",
        "selections": "for s in clipboard primary secondary; do timeout 30 xclip -selection $s -o; done; :",
        "keys": f'python3 -c "{keys}"',
    }
    return {"picture": picture, **{name: site.run(f"({command}) 2>&1") for name, command in commands.items()}}


@pytest.fixture(scope="module")
def desktop(desktop_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OSWorldDesktop]:
    """One for all messes."""
    config = DesktopConfig(
        backend="container",
        image=desktop_image,
        screen_size=SCREEN,
        ram_gb=2,
        cpus=2,
        cache_dir=tmp_path_factory.mktemp("cache"),
        osworld_path=tmp_path_factory.mktemp("checkout"),
    )
    one = OSWorldDesktop(config, f"leaks-{os.getpid()}")
    yield one
    one.close()


@pytest.fixture(scope="module")
def clean(desktop: OSWorldDesktop) -> dict[str, Any]:
    """The start of a rollout on a desktop on which nothing has happened."""
    begin(desktop, "clean")
    return seen(desktop)


def begin(desktop: OSWorldDesktop, rollout: str, *config: dict[str, Any]) -> str:
    """Begin a rollout; which way its desktop was reset."""
    before = dict(desktop.resets.counts)
    desktop.reset(task(rollout, *config))
    desktop.wait_after_reset()
    (way,) = [way for way, count in desktop.resets.counts.items() if count != before.get(way, 0)]
    return way


def leave(desktop: OSWorldDesktop, actions: list[str]) -> None:
    """Make a mess; a rollout that is given up is not evaluated."""
    for action in actions:
        done = desktop.act(action)
        assert done.rc == 0, (action, done.stderr)


def check_next(desktop: OSWorldDesktop, clean: dict[str, Any], play: Callable[[], None]) -> None:
    """The next rollout finds nothing of what `play` does, by the fast reset."""
    for _ in range(TIMES):
        play()
        way = begin(desktop, "next")
        now = seen(desktop)
        assert [name for name in clean if now[name] != clean[name]] == []
        if way == "fast":
            return
        assert way == "escalated"
    pytest.fail(f"{TIMES} times the fast reset was not enough")


@pytest.mark.parametrize("mess", MESSES)
def test_a_mess(desktop: OSWorldDesktop, clean: dict[str, Any], mess: str) -> None:
    """The next rollout finds nothing of it."""

    def play() -> None:
        begin(desktop, "mess")
        leave(desktop, MESSES[mess])

    check_next(desktop, clean, play)


def test_a_setup_of_its_own(desktop: OSWorldDesktop, clean: dict[str, Any]) -> None:
    """A wallpaper, a program and a file that OSWorld's own setup steps have brought are gone with their task."""
    assert desktop.config.osworld_path is not None
    picture = desktop.config.osworld_path / "red.png"
    Image.new("RGB", (64, 64), (200, 0, 0)).save(picture)
    steps: list[dict[str, Any]] = [
        {"type": "upload_file", "parameters": {"files": [{"local_path": str(picture), "path": "/home/user/red.png"}]}},
        {"type": "change_wallpaper", "parameters": {"path": "/home/user/red.png"}},
        {"type": "launch", "parameters": {"command": ["mousepad"]}},
    ]

    def play() -> None:
        begin(desktop, "setup", *steps)
        changed = seen(desktop)
        assert {name for name in clean if changed[name] != clean[name]} >= {"picture", "files", "wallpaper", "windows"}

    check_next(desktop, clean, play)


def test_a_file_dialog(desktop: OSWorldDesktop, clean: dict[str, Any]) -> None:
    """Its settings are its own program's: no program that lives through the reset has read them."""
    two = "until [ $(wmctrl -lx | grep -c -i mousepad) = 2 ]; do sleep 0.1; done; test -d ~/.config/gtk-3.0"

    def play() -> None:
        begin(desktop, "dialog", {"type": "launch", "parameters": {"command": ["mousepad"]}})
        leave(desktop, ["pyautogui.hotkey('ctrl', 'o')", shell(f"timeout 60 bash -c '{two}'"), "WAIT"])

    check_next(desktop, clean, play)


def test_the_accessibility_tree(desktop: OSWorldDesktop) -> None:
    """Its bus ends with the task's programs, and the next task's programs find a new one."""
    for number in range(2):
        begin(desktop, f"tree-{number}", {"type": "launch", "parameters": {"command": ["mousepad"]}})
        told = Site(int(desktop._env.server_port)).get("/accessibility")
        assert told.status_code == 200
        assert "Mousepad" in told.json()["AT"]


def test_all_messes_at_once(desktop: OSWorldDesktop, clean: dict[str, Any]) -> None:
    """None hides another one."""

    def play() -> None:
        begin(desktop, "mess")
        for actions in MESSES.values():
            leave(desktop, actions)

    check_next(desktop, clean, play)


@pytest.mark.parametrize("mess", ESCAPES)
def test_what_escapes(desktop: OSWorldDesktop, clean: dict[str, Any], mess: str) -> None:
    """The fast reset finds that it is not enough, and the next rollout has a fresh desktop."""
    begin(desktop, "mess")
    leave(desktop, ESCAPES[mess])
    assert begin(desktop, "next") == "escalated"
    now = seen(desktop)
    assert [name for name in clean if now[name] != clean[name]] == []
