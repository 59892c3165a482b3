"""Is a guest that was booted anew in the middle of a rollout, and answers all the same, given no verdict?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bad.guest import Guest, done
from scripted import desktop, task

from legato_rl.desktop import DesktopFailure

pytestmark = pytest.mark.desktop

GRADED: dict[str, Any] = {
    "result": {"type": "vm_command_line", "command": ["answer", "it"]},
    "expected": {"type": "rule", "rules": {"expected": "yes\n"}},
}


def test_a_new_boot(tmp_path: Path) -> None:
    """A failure; the next rollout is reverted, and graded on the boot that it began with."""
    with Guest(commands={"^answer it": done(output="yes\n"), "boot_id$": done(output="first\n")}) as guest:
        with desktop(tmp_path, guest) as driven:
            driven.reset(task(**GRADED))
            guest.commands["boot_id$"] = done(output="second\n")
            with pytest.raises(DesktopFailure) as failure:
                driven.evaluate()
            assert failure.value.type == "guest_rebooted"
            boots = driven.scripted.boots
            driven.reset(task(rollout="r:g:0:1", **GRADED))
            assert driven.scripted.boots == boots + 1
            assert driven.evaluate() == 1.0


def test_a_guest_without_a_name_for_its_boot(tmp_path: Path) -> None:
    """No Linux, or no cat: nothing can be told, and the verdict stands."""
    unknown = done(rc=1, error="No such file or directory")
    with Guest(commands={"^answer it": done(output="yes\n"), "boot_id$": unknown}) as guest, desktop(tmp_path, guest) as driven:
        driven.reset(task(**GRADED))
        assert driven.evaluate() == 1.0


def test_another_container_at_the_same_port(tmp_path: Path) -> None:
    """It shares the kernel's name for the boot, but its first process began at another time."""
    stat = "1 (a b) c) S {}1 2 3 4".format("0 " * 18)
    commands = {"^answer it": done(output="yes\n"), "boot_id$": done(output="one\n"), "^cat /proc/1/stat": done(output=stat)}
    with Guest(commands=commands) as guest, desktop(tmp_path, guest) as driven:
        driven.reset(task(**GRADED))
        assert driven.evaluate() == 1.0
        driven.reset(task(rollout="r:g:0:1", **GRADED))
        guest.commands["^cat /proc/1/stat"] = done(output=stat.replace("1 2 3 4", "9 2 3 4"))
        with pytest.raises(DesktopFailure) as failure:
            driven.evaluate()
        assert failure.value.type == "guest_rebooted"
