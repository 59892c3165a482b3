"""Does OSWorld's own docker provider drive a desktop of ours, kept in order? Its image's name is a tag of our image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_container_env import note_task, solve

from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = pytest.mark.desktop

THEIRS = "happysixd/osworld-docker"


@pytest.fixture
def tagged(engine: Any, desktop_image: str) -> Iterator[None]:
    """The tag, unless this machine has OSWorld's real image, which is left alone."""
    had = [tag for image in engine.images.list(THEIRS) for tag in image.tags]
    assert not had, f"{had} is on this machine: these tests would run on a real VM"
    engine.images.get(desktop_image).tag(THEIRS)
    yield
    engine.images.remove(THEIRS, noprune=True)


def test_a_rollout_and_a_revert(engine: Any, tagged: None, tmp_path: Path) -> None:
    """Named, labelled, on ports of Docker's choice, reverted to a new container, and removed with its volumes."""
    name = f"vm-{os.getpid()}"
    (tmp_path / "vm.qcow2").write_bytes(b"")
    config = DesktopConfig(
        backend="osworld", provider="docker", path_to_vm=tmp_path / "vm.qcow2", cache_dir=tmp_path / "cache", fast_reset=False
    )
    desktop = OSWorldDesktop(config, name)
    try:
        seen = []
        for number, reward in enumerate((1.0, 0.0)):
            desktop.reset(note_task(f"r:g:{number}:0"))
            desktop.wait_after_reset()
            if reward:
                solve(desktop)
            assert desktop.evaluate() == reward
            (container,) = [one for one in ours(engine) if one.labels[DESKTOP] == name]
            seen.append(container.id)
            assert container.name == f"legato-rl-{name}"
            bound = [port["HostIp"] for ports in container.ports.values() for port in ports or []]
            assert set(bound) == {"127.0.0.1"}
        assert seen[0] != seen[1]
        assert desktop.resets.counts == {"booted": 1, "revert": 1}
    finally:
        desktop.close()
    assert [one for one in ours(engine) if one.labels[DESKTOP] == name] == []
