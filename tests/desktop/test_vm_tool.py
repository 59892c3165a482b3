"""Does a guest with OSWorld's own server get clean by the tool that is brought to it? A container desktop plays that guest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_container_env import WORDS, note_task, solve

from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop import osworld
from legato_rl.workers.desktop.cleaner import ToolCleaner
from legato_rl.workers.desktop.osworld import OSWorldDesktop

pytestmark = pytest.mark.desktop


@pytest.fixture
def stock(engine: Any, desktop_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OSWorldDesktop]:
    """A desktop on which only OSWorld's own routes are used."""
    monkeypatch.setattr(osworld, "HEALTH", "/no/such/route")
    config = DesktopConfig(
        backend="container", image=desktop_image, screen_size=(1280, 720), ram_gb=2, cpus=2, cache_dir=tmp_path
    )
    desktop = OSWorldDesktop(config, f"stock-{os.getpid()}")
    yield desktop
    desktop.close()


TIMES = 3
"""Resets of which one must find that all is clean: on a busy machine one may find it too late."""
MESSES = {
    "nothing": "true",
    "a file": "echo x > ~/left.txt; mkdir -p ~/a/b; ln -s /etc ~/link",
    "a changed file": "printf 'changed' >> ~/.bashrc; chmod 600 ~/.bashrc",
    "a file that is gone": "rm ~/.bashrc",
    "a process": "setsid nohup sh -c 'trap \"\" TERM; while true; do sleep 1; done' > /dev/null 2>&1 &",
    "a temporary file": "mkdir /tmp/left; echo x > /tmp/left/x",
    "a temporary file that outlives a boot": "mkdir /var/tmp/left; echo x > /var/tmp/left/x",
    "a cache": "mkdir -p ~/.cache/left; echo x > ~/.cache/left/x",
    "a clipboard": "printf left | xclip -selection clipboard; printf left | xsel -ip",
    "a key that is held": "python3 -c 'import pyautogui; pyautogui.keyDown(\"shift\")'",
}


def test_what_a_rollout_leaves(stock: OSWorldDesktop) -> None:
    """Each kind of mess is gone before the next rollout, without a boot."""
    cleaner = stock.resets.cleaner
    assert isinstance(cleaner, ToolCleaner)
    for name, command in MESSES.items():
        for _ in range(TIMES):
            assert stock._guest.execute(command, shell=True).rc == 0, name
            if not (left := cleaner.clean()):
                break
        assert left == [], name
    selections = "for s in clipboard primary; do timeout 30 xclip -selection $s -o; done"
    seen = f"ls -A ~ ~/.cache /tmp /var/tmp; cat ~/.bashrc | tail -n 1; pgrep -fc 'while true'; {selections}"
    now = stock._guest.execute(seen, shell=True).stdout
    assert "left" not in now
    assert "changed" not in now


def test_what_the_tool_cannot_undo(stock: OSWorldDesktop) -> None:
    """Another server, a changed system, a part of the session that is gone: told, so that the desktop is booted anew."""
    cleaner = stock.resets.cleaner
    assert cleaner is not None
    changes = {
        "server": "mkdir -p ~/server; echo x >> ~/server/main.py",
        "system": "echo password | sudo -S touch /etc/left",
        "tint2": "pkill tint2; while pgrep -x tint2; do sleep 0.1; done",
    }
    assert cleaner.clean() == []
    for name, command in changes.items():
        assert stock._guest.execute(command, shell=True).rc == 0, name
        assert [what for what in cleaner.clean() if name in what] != [], name


def test_rollouts(stock: OSWorldDesktop) -> None:
    """A whole one by OSWorld's routes alone, and the next finds nothing of it."""
    for number, (words, reward) in enumerate([(WORDS, 1.0), ("nonsense", 0.0), (WORDS, 1.0)]):
        stock.reset(note_task(f"r:g:{number}:0"))
        assert stock.wait_after_reset().state == "ready"
        solve(stock, words)
        stock.wait_before_eval()
        assert stock.evaluate() == reward
    # on a busy machine one may be found not to be clean in time, and is followed by a boot
    counts = stock.resets.counts
    assert (counts["booted"], counts["fast"] + counts["escalated"]) == (1, 2)
    assert counts["fast"] >= 1, counts


def test_a_baseline_that_was_forged(stock: OSWorldDesktop) -> None:
    """The policy has the tool's rights: a changed baseline is seen, and the desktop booted anew."""
    stock._guest.execute("sed -i 's/bashrc/bashrx/' /var/tmp/legato-rl-baseline/baseline.json", shell=True)
    stock.reset(note_task())
    stock.resets.reset(note_task("r:g:1:0"), stock._cache.begin("r:g:1:0", note_task()))
    assert stock.resets.counts == {"booted": 1, "escalated": 1}
