"""Does OSWorld's real DesktopEnv, on real container desktops, do what a rollout needs?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from legato_rl import collect
from legato_rl.config import DesktopConfig
from legato_rl.desktop import Desktop, DesktopFailure
from legato_rl.workers.desk import Desk
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = pytest.mark.desktop

SCREEN = (1280, 720)
NOTE = "/home/user/note.txt"
WORDS = "a < b, é € ß 字"


def note_task(rollout: str = "r:g:0:0") -> dict[str, Any]:
    """Open an empty note; it is right when it holds the words."""
    return {
        "id": "a-note",
        "instruction": f"Write {WORDS!r} into the note and save it.",
        "config": [
            {"type": "execute", "parameters": {"command": ["touch", NOTE]}},
            {"type": "launch", "parameters": {"command": ["mousepad", NOTE]}},
        ],
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "vm_command_line", "command": ["cat", NOTE]},
            "expected": {"type": "rule", "rules": {"expected": f"{WORDS}\n"}},
        },
        "legato": {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": None},
    }


def solve(desktop: Desktop, words: str = WORDS) -> None:
    """Type and save; return when it is saved, which on a busy machine is later than a rollout waits for."""
    assert desktop.act(f"pyautogui.typewrite({words + chr(10)!r})").rc == 0
    assert desktop.act("pyautogui.hotkey('ctrl', 's')").rc == 0
    assert desktop.act(f"import os, time\nwhile not os.path.getsize({NOTE!r}):\n    time.sleep(0.1)").rc == 0


Boot = Callable[[str], OSWorldDesktop]


@pytest.fixture
def boot(engine: Any, desktop_image: str, tmp_path: Path) -> Iterator[Boot]:
    """Boots desktops, and gives them back after the test; nothing of them is left."""
    booted: list[OSWorldDesktop] = []

    def start(name: str) -> OSWorldDesktop:
        config = DesktopConfig(
            backend="container", image=desktop_image, screen_size=SCREEN, ram_gb=2, cpus=2, cache_dir=tmp_path / "cache"
        )
        booted.append(OSWorldDesktop(config, f"env-{os.getpid()}-{name}"))
        return booted[-1]

    yield start
    for desktop in booted:
        desktop.close()
    left = [container.labels[DESKTOP] for container in ours(engine)]
    assert [name for name in left if name.startswith(f"env-{os.getpid()}-")] == []
    assert list((tmp_path / "cache" / "desktops").glob("*/*")) == []


def test_a_rollout(boot: Boot) -> None:
    """Reset, observe, act, evaluate, through the guard of every backend; what was typed is what was meant."""
    desktop = boot("one")
    desk = Desk(desktop, SCREEN)
    desk.reset(note_task())
    assert desk.wait_after_reset().state == "ready"
    before = desk.observe()
    solve(desktop)
    assert desk.observe() != before
    assert desk.act("DONE").rc == 0
    assert desk.wait_before_eval().state == "ready"
    assert desk.evaluate() == 1.0


def test_one_after_the_other(boot: Boot) -> None:
    """The next rollout finds nothing of the last one, whichever way it was reset."""
    desktop = boot("again")
    for number, (words, reward) in enumerate([(WORDS, 1.0), (None, 0.0), ("nonsense", 0.0), (WORDS, 1.0)]):
        desktop.reset(note_task(f"r:g:{number}:0"))
        desktop.wait_after_reset()
        if words:
            solve(desktop, words)
        desktop.wait_before_eval()
        assert desktop.evaluate() == reward
    # on a busy machine one may be found not to be clean in time, and is followed by a boot
    counts = desktop.resets.counts
    assert (counts["booted"], counts["fast"] + counts["escalated"]) == (1, 3)
    assert counts["fast"] >= 1, counts


def test_the_same_task_at_once(boot: Boot) -> None:
    """Two rollouts of one group, step by step beside each other, one of them right: each is graded on its own files."""
    desktops = [boot("left"), boot("right")]
    for number, desktop in enumerate(desktops):
        desktop.reset(note_task(f"r:g:{number}:0"))
    for desktop in desktops:
        desktop.wait_after_reset()
    for desktop, words in zip(desktops, ("wrong", WORDS), strict=True):
        solve(desktop, words)
    assert [desktop.evaluate() for desktop in desktops] == [0.0, 1.0]


def test_a_container_that_is_removed(boot: Boot, engine: Any) -> None:
    """From outside, in the middle of a rollout: a failure, and the next rollout has a new one."""
    desktop = boot("removed")
    desktop.reset(note_task())
    desktop.wait_after_reset()
    (container,) = [one for one in ours(engine) if one.labels[DESKTOP].endswith("-removed")]
    container.remove(force=True, v=True)
    with pytest.raises(DesktopFailure):
        desktop.act("pyautogui.click(5, 5)")
    desktop.reset(note_task("r:g:0:1"))
    desktop.wait_after_reset()
    solve(desktop)
    assert desktop.evaluate() == 1.0
    assert desktop.resets.counts == {"booted": 1, "revert": 1}


def test_where_trainers_find_it() -> None:
    """As the design writes it."""
    assert collect.OSWorldDesktop is OSWorldDesktop  # type: ignore[attr-defined]
