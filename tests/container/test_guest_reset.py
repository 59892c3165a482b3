"""Does nothing of one rollout reach the next? Every kind of mess is made, and the reset ends it or tells of it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from container_desktops import Site
from PIL import Image

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.workers.desktop.container import ContainerDesktop, Size, start_desktop

pytestmark = pytest.mark.desktop

XLIB = "from Xlib import X, display; from Xlib.ext import xtest; d = display.Display(); r = d.screen().root; "
SCHEMA = "org.gnome.desktop.interface"

MESSES = {
    "program": "setsid mousepad >/dev/null 2>&1 &",
    "many windows": "for i in 1 2 3 4 5 6; do setsid xterm >/dev/null 2>&1 & done",
    "orphan": "(setsid nohup sleep 1000 >/dev/null 2>&1 &)",
    "ignores TERM": "setsid bash -c 'trap : TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 &",
    "another name": "cp /usr/bin/sleep /tmp/tint2; setsid /tmp/tint2 1000 >/dev/null 2>&1 &",
    "stopped": "sleep 1000 & kill -STOP $!",
    "forks on": "setsid bash -c 'f() { sleep 0.01; f & }; f' >/dev/null 2>&1 &",
    "new file": "mkdir -p ~/Documents/a/b; echo x > ~/Documents/a/b/c; ln -s /etc ~/link; mkfifo ~/pipe",
    "new names": "touch \"$HOME/a b\" $HOME/$'new\\nline' $HOME/.hidden; printf x > \"$HOME/$(printf 'caf\\351')\"",
    "edit that keeps size and time": "touch -r ~/.bashrc /tmp/t; sed -i '1s/^./%/' ~/.bashrc; touch -r /tmp/t ~/.bashrc",
    "lost file": "rm ~/.profile",
    "lost folder": "rmdir ~/Music; touch ~/Music",
    "folder turned link": "rmdir ~/Videos; ln -s /tmp ~/Videos",
    "rights": "chmod 000 ~/.profile; chmod 500 ~/Desktop",
    "time of a file": "touch -d 2001-01-01 ~/.profile",
    "attribute": "python3 -c \"import os; os.setxattr('/home/user/.profile', 'user.x', b'1')\"",
    "unreadable folder": "mkdir -p ~/Downloads/x/y; touch ~/Downloads/x/y/z; chmod 000 ~/Downloads/x",
    "full trash": "for i in 1 2 3; do echo $i > ~/t$i; gio trash ~/t$i; done; test -e ~/.local/share/Trash/files/t3",
    "office profile": "sed -i 's/false/true/' ~/.config/libreoffice/4/user/registrymodifications.xcu",
    "temporary files": "mkdir -p /tmp/d/e /var/tmp/f; touch /tmp/d/e/g /dev/shm/h /run/user/1000/i",
    "another X server's lock": "setsid Xvfb :7 >/dev/null 2>&1 & timeout 55 sh -c 'until [ -e /tmp/.X11-unix/X7 ]; do :; done'",
    "clipboard": "printf secret | xclip -selection clipboard; printf more | xsel -ip; printf x | xclip -selection secondary",
    "cut buffer": "xprop -root -f CUT_BUFFER0 8s -set CUT_BUFFER0 old",
    "property": "xprop -root -f MY_MARK 32c -set MY_MARK 5",
    "X resources": "echo 'xterm*background: red' | xrdb -merge",
    "caps lock": "xdotool key Caps_Lock",
    "num lock": "xdotool key Num_Lock",
    "keyboard map": "xmodmap -e 'keycode 38 = b B'",
    "modifiers": "xmodmap -e 'clear Lock'",
    "layout": "setxkbmap -layout de",
    "mouse buttons": "xmodmap -e 'pointer = 3 2 1'",
    "key repeat": "xset r off",
    "workspace": "wmctrl -n 4; wmctrl -s 2",
    "workspaces": "wmctrl -n 7",
    "background": "xsetroot -solid '#ff0000'",
    "pointer": "xdotool mousemove 3 3",
    "setting": f"gsettings set {SCHEMA} clock-show-date false",
    # last: xmodmap waits until no key is down
    "held keys": "xdotool keydown shift keydown a keydown ctrl mousedown 1 mousedown 3",
}
"""What is done in the desktop, as the user. All of it must be undone."""

ESCAPES = {
    "root's file": ("echo password | sudo -S touch /etc/left-over", "system"),
    "root's package": ("echo password | sudo -S touch /var/lib/dpkg/status", "system"),
    "sudo at all": ("echo password | sudo -S true", "system"),
    "user": ("echo password | sudo -S useradd guest", "system"),
    "panel ended": ("pkill tint2; while pgrep -x tint2; do sleep 0.1; done", "gone"),
    "window manager ended": ("pkill openbox; while pgrep -x openbox; do sleep 0.1; done", "gone"),
    "session files": ("mkdir -p ~/.config/openbox; echo x > ~/.config/openbox/rc.xml", "session_files"),
}
"""What a fast reset cannot undo, and the kind that it is told under."""


def seen(site: Site) -> dict[str, Any]:
    """What the next task can see of the desktop, by other means than the reset's own."""
    with Image.open(io.BytesIO(site.get("/screenshot").content)) as image:
        # the panel has a clock
        picture = image.convert("RGB").crop((0, 0, 1920, 1000)).tobytes()
    shell = {
        "files": "find ~ /tmp /var/tmp /dev/shm -printf '%p %y %m %u %g %l\\n' | sort",
        "contents": "find ~ -type f -print0 | sort -z | xargs -0 sha256sum",
        "windows": "wmctrl -l; wmctrl -d",
        "keyboard": "xmodmap -pke; xmodmap -pm; xmodmap -pp; setxkbmap -query; xset q | head -20",
        "resources": "xrdb -query; xprop -root | grep -E '^(CUT|MY_|_XROOT|RES)' || :",
        "selections": "for s in clipboard primary secondary; do timeout 30 xclip -selection $s -o; done; :",
        "setting": f"gsettings get {SCHEMA} clock-show-date",
        "pointer": "xdotool getmouselocation",
    }
    return {"picture": picture, **{name: site.run(f"({command}) 2>&1") for name, command in shell.items()}}


def left(site: Site) -> dict[str, Any]:
    """Reset; what is left. Where the machine stood still for longer than the reset waits, what it has ended goes after it."""
    told = site.reset()
    return told["left"] and dict(site.post("/legato/check").json()["left"])


@pytest.fixture(scope="module")
def clean(container_desktop: ContainerDesktop) -> dict[str, Any]:
    """What a reset desktop looks like before any mess."""
    site = Site(container_desktop.ports[5000])
    # The panel writes this once, some time after it is drawn, and the reset takes it away.
    site.run("timeout 60 sh -c 'until [ -s ~/.cache/tint2/icon.cache ]; do sleep 0.1; done'")
    assert left(site) == {}
    return seen(site)


@pytest.mark.parametrize("mess", MESSES)
def test_mess_is_undone(site: Site, clean: dict[str, Any], mess: str) -> None:
    """After the reset, which calls itself clean, the desktop looks as before."""
    site.run(MESSES[mess])
    assert left(site) == {}
    now = seen(site)
    site.reset()
    assert [name for name in clean if now[name] != clean[name]] == []


def test_all_messes_at_once(site: Site, clean: dict[str, Any]) -> None:
    """No mess hides another one."""
    for mess in MESSES.values():
        site.run(mess)
    site.post("/setup/launch", command=["soffice", "--calc", "--norestore"])
    site.post("/legato/ready", title="Calc", cap=30)
    assert left(site) == {}
    now = seen(site)
    site.reset()
    assert [name for name in clean if now[name] != clean[name]] == []


def test_stale_setting_does_not_come_back(site: Site) -> None:
    """dconf's service keeps its own copy: a setting that is equal to the old task's is made, an old one stays away."""
    show = f"gsettings get {SCHEMA} clock-show-date"
    off = f"gsettings set {SCHEMA} clock-show-date false"
    usual = site.run(show)
    site.run(off)
    assert left(site) == {}
    assert site.run(show) == usual
    site.run(off)
    assert site.run(show) == "false\n"
    assert left(site) == {}
    site.run(f"gsettings set {SCHEMA} clock-show-seconds true")
    assert site.run(show) == usual


def test_the_next_rollout_has_an_interpreter(site: Site) -> None:
    """Its first action does not pay for one that was killed, and it gets none that began in the last rollout's home."""
    hand = "-xf '.* -m guest_server.hand [0-9]+'"
    site.run(f"pkill -KILL {hand}")
    assert left(site) == {}
    ready = site.run(f"pgrep {hand}")
    assert site.act("print(1)")["output"] == "1\n"
    assert site.run(f"pgrep {hand}") == ready
    site.run(f"pkill -KILL {hand}")
    assert site.act("print(2)")["output"] == "2\n"
    own = site.run(f"pgrep {hand}")
    assert left(site) == {}
    assert site.run(f"pgrep {hand}") != own


@pytest.fixture
def doomed(engine: Any, desktop_image: str) -> Iterator[Site]:
    """A desktop of one test's own."""
    desktop = start_desktop(engine, desktop_image, f"test-{os.getpid()}-doomed", size=Size(memory=2 * 2**30))
    yield Site(desktop.ports[5000])
    desktop.remove()


@pytest.mark.parametrize("mess", ESCAPES)
def test_what_cannot_be_undone_is_told(doomed: Site, mess: str) -> None:
    """The reset does not call such a desktop clean, and says what is left."""
    command, kind = ESCAPES[mess]
    doomed.run(command)
    told = doomed.reset()
    assert not told["clean"]
    assert kind in told["left"], told


def test_root_process_is_ended(doomed: Site) -> None:
    """What sudo started is ended like the rest; that there was sudo is told."""
    doomed.run("echo password | sudo -S sh -c 'setsid sleep 4321 >/dev/null 2>&1 &'")
    assert set(left(doomed)) == {"system"}
    assert "4321" not in doomed.run("ps -eo args")


def test_server_that_was_killed_comes_back_without_a_baseline(doomed: Site) -> None:
    """The sudo password is the policy's to use: the desktop goes on, but nothing says any more what clean is."""
    with pytest.raises(requests.ConnectionError):
        doomed.post("/execute", command="echo password | sudo -S pkill -9 -f guest_server", shell=True)
    deadline = SYSTEM_CLOCK.monotonic() + 120
    while True:
        try:
            assert not doomed.get("/legato/health").json()["baseline"]
            break
        except requests.ConnectionError:
            assert SYSTEM_CLOCK.monotonic() < deadline
            SYSTEM_CLOCK.sleep(0.05)
    assert doomed.post("/legato/reset").status_code == 409
