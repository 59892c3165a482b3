"""Which reset does a task begin with?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.reset import Resets, why_revert
from legato_rl.workers.desktop.watch import Watch

PLAIN: dict[str, Any] = {"id": "t", "config": [{"type": "launch", "parameters": {"command": ["gimp"]}}], "evaluator": {}}
SUDO: dict[str, Any] = {
    "id": "t",
    "config": [],
    "evaluator": {"postconfig": [{"parameters": {"command": "echo x | sudo -S y"}}]},
}


@pytest.mark.parametrize(
    ("task", "domain", "dirty", "fast", "why"),
    [
        (PLAIN, "gimp", "", True, ""),
        (PLAIN, None, "", True, ""),
        (PLAIN, "os", "", True, "domain os"),
        (PLAIN, "multi_apps", "", True, "domain multi_apps"),
        (SUDO, "vlc", "", True, "the task needs root or installs packages"),
        (PLAIN, "gimp", "DesktopFailure in act", True, "DesktopFailure in act"),
        (PLAIN, "gimp", "", False, "fast reset is off"),
    ],
)
def test_why_a_revert(task: dict[str, Any], domain: str | None, dirty: str, fast: bool, why: str) -> None:
    """By domain, by what the task says, by what was left, by what was asked."""
    assert why_revert(task, domain, dirty, fast) == why


class Env:
    """A DesktopEnv that notes how it is reset."""

    vm_ip, server_port, boots = "127.0.0.1", 1, 1

    def __init__(self) -> None:
        self.reverted: list[bool] = []
        self.is_environment_used = False
        self.cache_dir_base = ""
        self.fails = False
        self.booted = False
        """A revert came since the last setup."""

    def reset(self, task_config: dict[str, Any] | None) -> None:
        if task_config is None:
            assert self.is_environment_used
            self.booted = True
            return
        self.reverted.append(self.booted)
        self.booted = False
        assert not self.is_environment_used
        assert "legato" not in task_config
        if self.fails:
            raise RuntimeError("Setup step 1 failed")


class Scrubber:
    """A Cleaner that leaves what the test says."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.broken = False

    def clean(self) -> list[str]:
        if self.broken:
            raise DesktopFailure("guest_timeout", "no answer")
        return self.left


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Env, Scrubber, Resets, dict[str, Any]]:
    """A freshly booted desktop with a fast reset."""
    env, scrubber = Env(), Scrubber()
    resets = Resets(env, Watch(), scrubber, True)
    return env, scrubber, resets, {**PLAIN, "legato": {"domain": "gimp"}}


def test_the_first_rollout_needs_no_reset(scene: Any, tmp_path: Path) -> None:
    """What was just booted is clean; what comes after it is cleaned in place."""
    env, _, resets, task = scene
    ways = [resets.way]
    for _ in range(3):
        resets.reset(task, tmp_path)
        ways.append(resets.way)
    assert env.reverted == [False, False, False]
    assert ways == [None, "booted", "fast", "fast"]
    assert resets.counts == {"booted": 1, "fast": 2}


def test_what_the_fast_reset_leaves(scene: Any, tmp_path: Path) -> None:
    """Whatever is not as it was, or an answer that is lost, makes it a revert."""
    env, scrubber, resets, task = scene
    resets.reset(task, tmp_path)
    scrubber.left = ["process: 12 sleep"]
    resets.reset(task, tmp_path)
    scrubber.left, scrubber.broken = [], True
    resets.reset(task, tmp_path)
    assert env.reverted == [False, True, True]
    assert resets.counts == {"booted": 1, "escalated": 2}


def test_a_setup_that_fails(scene: Any, tmp_path: Path) -> None:
    """OSWorld would skip the revert after it: here the next reset is one, and the one after that fast again."""
    env, _, resets, task = scene
    env.fails = True
    with pytest.raises(DesktopFailure, match="Setup step 1 failed") as failure:
        resets.reset(task, tmp_path)
    assert failure.value.type == "setup"
    assert resets.way == "booted"
    env.fails = False
    resets.reset(task, tmp_path)
    resets.reset(task, tmp_path)
    assert env.reverted == [False, True, False]


def test_a_guest_without_a_fast_reset(tmp_path: Path) -> None:
    """Every rollout but the first is a revert."""
    env = Env()
    resets = Resets(env, Watch(), None, True)
    for _ in range(3):
        resets.reset({**PLAIN, "legato": {}}, tmp_path)
    assert env.reverted == [False, True, True]
