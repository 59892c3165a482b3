"""Does a real VM go back to its snapshot, and is what is lost in a revert or a reboot never taken for a rollout's result?

OSWorld's own docker provider boots it. QEMU emulates the CPU, so all takes ten times as long as on a container desktop.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from small_vm import make_small_vm, named_as_theirs

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import env, guest, lease, sense
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.osworld import OSWorldDesktop

pytestmark = pytest.mark.desktop

SCREEN = (640, 480)
"""As the guest's first program sets it."""
PATIENCE_S = 720.0
SLOW_S = 180.0
"""Seconds that an emulated guest gets for what a desktop does in a tenth of one."""
ANSWER = "/home/user/answer.txt"
WRITE = f"print('done', file=open({ANSWER!r}, 'w'))"
HANGS_S = 90.0
"""Seconds that an action may take where a test loses it."""


def answer_task(rollout: str) -> dict[str, Any]:
    """Write the answer to a file."""
    return {
        "id": "an-answer",
        "instruction": f"Write 'done' to {ANSWER}.",
        "config": [{"type": "execute", "parameters": {"command": ["mkdir", "/home/user/prepared"]}}],
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "vm_command_line", "command": ["cat", ANSWER]},
            "expected": {"type": "rule", "rules": {"expected": "done\n"}},
        },
        "legato": {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": None},
    }


class Snapshots:
    """A provider whose revert is a snapshot of the running VM, as VMware's and VirtualBox's are.

    `usual` is OSWorld's docker provider, which boots the VM that the snapshots are of.
    """

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def monitor(self, command: str) -> None:
        """Have QEMU do one of its monitor's commands."""
        code, said = self.usual.container.exec_run(["monitor", command])
        assert code == 0, said
        assert json.loads(said)["return"] == ""

    def take(self) -> None:
        """Take what is there now for clean."""
        self.monitor("savevm clean")

    def revert_to_snapshot(self, path_to_vm: str, snapshot_name: str) -> None:
        """Go back."""
        self.monitor("loadvm clean")

    def start_emulator(self, path_to_vm: str, headless: bool, os_type: str) -> None:
        """Return when it answers; a VM that has gone back runs on."""
        self.usual._wait_for_vm_ready()

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.usual, attribute)


@pytest.fixture(scope="module")
def vm(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OSWorldDesktop]:
    """The VM, which goes back to a snapshot before every rollout."""
    image, disk = make_small_vm(engine)
    cache = tmp_path_factory.mktemp("cache")
    config = DesktopConfig(
        backend="osworld",
        provider="docker",
        path_to_vm=disk,
        screen_size=SCREEN,
        ram_gb=1,
        # two that are emulated wait for each other wherever the machine has not two to spare
        cpus=1,
        cache_dir=cache,
        fast_reset=False,
        # its looks at the screen are made for a CPU that is none of a program's
        ready_signal=False,
        fixed_wait=0.5,
    )
    with named_as_theirs(engine, image), pytest.MonkeyPatch.context() as patch:
        for module, names in ((guest, ("PROBE_S", "SCREENSHOT_S")), (env, ("PROBE_S",)), (lease, ("PROBE_S",))):
            for name in names:
                patch.setattr(module, name, SLOW_S)
        patch.setattr(lease, "LEASE_S", 10 * SLOW_S)
        desktop = OSWorldDesktop(config, f"qemu-{os.getpid()}")
        try:
            warm_up(desktop)
            desktop._env.provider = Snapshots(desktop._env.provider)
            desktop._env.provider.take()
            yield desktop
        finally:
            desktop.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action whose answer never comes is given up soon."""
    monkeypatch.setattr(sense, "ACT_S", HANGS_S)
    monkeypatch.setattr(sense, "MARGIN_S", 2.0)


def begin(vm: OSWorldDesktop, rollout: str) -> None:
    """Reset, and nothing of an earlier rollout is there."""
    vm.reset(answer_task(rollout))
    vm.wait_after_reset()
    assert files(vm) == ["prepared"]


def files(vm: OSWorldDesktop) -> list[str]:
    """What lies in the user's home and in /etc that is not of a clean disk."""
    listed = vm._guest.execute("cd ~; ls -d answer.txt begun prepared /etc/left 2> /dev/null", shell=True)
    return listed.stdout.split()


def wait_until(what: Callable[[], bool]) -> None:
    """Return when it is so; a guest that does not answer is asked again."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while True:
        with suppress(DesktopFailure):
            if what():
                return
        assert SYSTEM_CLOCK.monotonic() < deadline, "it never was"
        SYSTEM_CLOCK.sleep(0.2)


def warm_up(vm: OSWorldDesktop) -> None:
    """Return when the guest has got ready what acts in it."""
    wait_until(lambda: bool(vm._guest.json("POST", "/legato/act", SLOW_S, {"code": "pass"})))


def test_a_snapshot(vm: OSWorldDesktop) -> None:
    """The disk goes back, root's files and all; each rollout has its own verdict."""
    begin(vm, "r:g:0:0")
    assert vm.act(WRITE).rc == 0
    assert vm._guest.execute("echo password | sudo -S touch /etc/left && sync", shell=True).rc == 0
    assert files(vm) == ["/etc/left", "answer.txt", "prepared"]
    vm.wait_before_eval()
    assert vm.evaluate() == 1.0
    begin(vm, "r:g:1:0")
    assert vm.evaluate() == 0.0


def test_a_reboot_between_two_calls(vm: OSWorldDesktop) -> None:
    """The guest comes back and answers every call as if nothing had been, the answer on its disk: yet no verdict."""
    begin(vm, "r:g:2:0")
    assert vm.act(WRITE).rc == 0
    assert vm._guest.execute(["sync"]).rc == 0
    booted = vm._guest.boot_id()
    vm._env.provider.monitor("system_reset")
    wait_until(lambda: vm._guest.boot_id() != booted)
    assert files(vm) == ["answer.txt", "prepared"]
    with pytest.raises(DesktopFailure) as failure:
        vm.evaluate()
    assert failure.value.type == "guest_rebooted"
    begin(vm, "r:g:2:1")
    assert vm.act(WRITE).rc == 0
    assert vm.evaluate() == 1.0


def test_a_reboot_by_an_action(vm: OSWorldDesktop, impatient: None) -> None:
    """The action's answer is lost with the boot that it ended."""
    begin(vm, "r:g:3:0")
    with pytest.raises(DesktopFailure) as failure:
        vm.act("import os; os.system(\"sync; echo password | sudo -S sh -c 'echo b > /proc/sysrq-trigger'\")")
    assert failure.value.type in ("guest_timeout", "answer_lost")
    begin(vm, "r:g:3:1")
    assert vm.evaluate() == 0.0


def test_a_request_in_flight_across_a_revert(vm: OSWorldDesktop, impatient: None) -> None:
    """The guest that goes back has never heard of it: it ends by its own limit, and does nothing in the next rollout."""
    begin(vm, "r:g:4:0")
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(vm.act, f"import time; open('/home/user/begun', 'w'); time.sleep(85); {WRITE}")
        other = Guest(vm._env.vm_ip, int(vm._env.server_port), SYSTEM_CLOCK)
        wait_until(lambda: other.execute(["test", "-e", "/home/user/begun"]).rc == 0)
        vm._env.provider.monitor("loadvm clean")
        other.probe()
        with pytest.raises(DesktopFailure) as failure:
            acting.result(PATIENCE_S)
    assert failure.value.type in ("guest_timeout", "answer_lost")
    begin(vm, "r:g:4:1")
    assert vm.evaluate() == 0.0
