"""Does OSWorld's own docker provider drive a desktop of ours? Its image's name is a tag of our image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import ContainerCollection
from small_vm import named_as_theirs
from test_container_env import NOTE, note_task, solve

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.owners import DESKTOP, labels, ours, reap

pytestmark = pytest.mark.desktop

NAME = f"vm-{os.getpid()}"
PATIENCE_S = 60.0


@pytest.fixture
def tagged(engine: Any, desktop_image: str) -> Iterator[None]:
    """The tag, and nothing left of what was started by it."""
    with named_as_theirs(engine, desktop_image):
        yield
    assert reap(engine, name=NAME) == []


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """What stands for the VM's disk; a container needs none."""
    (tmp_path / "vm.qcow2").write_bytes(b"")
    return tmp_path / "vm.qcow2"


@pytest.fixture
def desktop(tagged: None, disk: Path, tmp_path: Path) -> Iterator[OSWorldDesktop]:
    """A desktop as a run has it: OSWorld's provider, kept in order, and no fast reset."""
    config = DesktopConfig(
        backend="osworld", provider="docker", path_to_vm=disk, cache_dir=tmp_path / "cache", fast_reset=False
    )
    started = OSWorldDesktop(config, NAME)
    yield started
    started.close()


def test_osworld_alone(tagged: None, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No code of ours: DesktopEnv, provider, client and evaluators find in our image what they look for in their VM."""
    from desktop_env.desktop_env import DesktopEnv

    usual = ContainerCollection.run

    def run(self: Any, image: str, **options: Any) -> Any:
        # The provider publishes its ports to the whole network, and nobody removes what a killed test leaves.
        options["ports"] = {port: ("127.0.0.1", number) for port, number in options["ports"].items()}
        return usual(self, image, labels=labels(NAME), **options)

    monkeypatch.setattr(ContainerCollection, "run", run)
    task = note_task()
    task["config"][1] = {"type": "open", "parameters": {"path": NOTE}}
    task["evaluator"]["expected"]["rules"]["expected"] = "plain words\n"
    env = DesktopEnv(provider_name="docker", path_to_vm=str(disk), cache_dir=str(tmp_path), require_a11y_tree=False)
    try:
        seen = env.reset(task_config=task)
        assert seen["screenshot"].startswith(b"\x89PNG")
        # OSWorld waits for nothing but time, and a window has a title before it takes keys: so it is waited for here.
        guest = Guest(env.vm_ip, int(env.server_port), SYSTEM_CLOCK)
        until(guest, "wmctrl -l | grep -q Mousepad")
        settled = guest.json("POST", "/legato/ready", 2 * PATIENCE_S, {"title": "note", "cap": PATIENCE_S})
        assert settled["ready"], settled
        env.step("pyautogui.typewrite('plain words\\n')", pause=1)
        env.step("pyautogui.hotkey('ctrl', 's')", pause=1)
        until(guest, f"grep -q plain {NOTE}")
        assert env.evaluate() == 1
        was = env.provider.container.id
        env.reset(task_config=task)
        assert env.provider.container.id != was
        assert env.evaluate() == 0
    finally:
        env.close()


def until(guest: Guest, command: str) -> None:
    """Return when this succeeds in the guest."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while guest.execute(command, shell=True).rc != 0:
        assert SYSTEM_CLOCK.monotonic() < deadline, command
        SYSTEM_CLOCK.sleep(0.2)


def test_a_rollout_and_a_revert(engine: Any, desktop: OSWorldDesktop) -> None:
    """Named, labelled, on ports of Docker's choice, reverted to a new container, and removed with its volumes."""
    seen = []
    for number, reward in enumerate((1.0, 0.0)):
        desktop.reset(note_task(f"r:g:{number}:0"))
        desktop.wait_after_reset()
        if reward:
            solve(desktop)
        assert desktop.evaluate() == reward
        (container,) = [one for one in ours(engine) if one.labels[DESKTOP] == NAME]
        seen.append(container.id)
        assert container.name == f"legato-rl-{NAME}"
        bound = [port["HostIp"] for ports in container.ports.values() for port in ports or []]
        assert set(bound) == {"127.0.0.1"}
    assert seen[0] != seen[1]
    assert desktop.resets.counts == {"booted": 1, "revert": 1}
    desktop.close()
    assert [one for one in ours(engine) if one.labels[DESKTOP] == NAME] == []


def test_a_request_in_flight_across_a_revert(desktop: OSWorldDesktop) -> None:
    """It is lost with the container that it was sent to, and the next rollout has nothing of it."""
    desktop.reset(note_task())
    desktop.wait_after_reset()
    env = desktop._env
    other = Guest(env.vm_ip, int(env.server_port), SYSTEM_CLOCK)
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(desktop.act, f"import time; open('/tmp/begun', 'w'); time.sleep(100); open({NOTE!r}, 'w')")
        until(other, "test -e /tmp/begun")
        env.provider.revert_to_snapshot(env.path_to_vm, env.snapshot_name)
        with pytest.raises(DesktopFailure) as failure:
            acting.result(PATIENCE_S)
    assert failure.value.type == "answer_lost"
    desktop.reset(note_task("r:g:0:1"))
    desktop.wait_after_reset()
    solve(desktop)
    assert desktop.evaluate() == 1.0
