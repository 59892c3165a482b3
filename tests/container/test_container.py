"""Do container desktops come, go, and leave nothing behind, whoever dies?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from container_desktops import Site

from legato_rl.desktop import DesktopFailure
from legato_rl.errors import ConfigError
from legato_rl.run.processes import scripts_folder
from legato_rl.workers.desktop.container import PORTS, ContainerDesktop, Size, start_desktop
from legato_rl.workers.desktop.owners import DESKTOP, OWNER, labels, reap

pytestmark = pytest.mark.desktop

PATIENCE_S = 120.0
"""Seconds that a busy machine gets for what takes a second."""
SMALL = Size(memory=2**30, cpus=1.0, screen=(1280, 720))
RUN = f"test-{os.getpid()}"


@pytest.fixture(autouse=True)
def nothing_left(engine: Any) -> Iterator[None]:
    """Each test gives back all that it started."""
    yield
    found = engine.containers.list(all=True, filters={"label": DESKTOP})
    left = [container for container in found if container.labels[DESKTOP].startswith(f"{RUN}-")]
    for container in left:
        container.remove(v=True, force=True)
    assert left == []


def test_desktop_as_asked(engine: Any, desktop_image: str) -> None:
    """Size, limits, labels, ports on this machine's own address, a clean baseline, a lease."""
    desktop = start_desktop(engine, desktop_image, f"{RUN}-a", size=SMALL, lease_s=60)
    try:
        container = engine.containers.get(f"legato-rl-{RUN}-a")
        host = container.attrs["HostConfig"]
        assert (host["Memory"], host["NanoCpus"]) == (2**30, 10**9)
        assert container.labels[DESKTOP] == f"{RUN}-a"
        published = [entry for entries in container.ports.values() for entry in entries or []]
        assert {entry["HostIp"] for entry in published} == {"127.0.0.1"}
        assert desktop.address == ":".join(["127.0.0.1", *(str(desktop.ports[port]) for port in PORTS)])
        health = Site(desktop.ports[5000]).get("/legato/health").json()
        assert health["screen"] == [1280, 720]
        assert health["baseline"]
        assert 30 < health["lease_s"] <= 60
    finally:
        desktop.remove()
    desktop.remove()
    with pytest.raises(DesktopFailure):
        desktop.renew()


def test_desktops_start_at_once(engine: Any, desktop_image: str) -> None:
    """Four at a time: each has ports of its own and sees its own files alone."""
    desktops: list[ContainerDesktop] = []

    def start(number: int) -> None:
        desktops.append(start_desktop(engine, desktop_image, f"{RUN}-{number}", size=SMALL, boot_s=4 * PATIENCE_S))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len({port for desktop in desktops for port in desktop.ports.values()}) == 4 * len(PORTS)
        for desktop in desktops:
            site = Site(desktop.ports[5000])
            assert site.run("ls ~/Documents") == ""
            site.run(f"touch ~/Documents/{desktop.name}")
    finally:
        for desktop in desktops:
            desktop.remove()


def test_lease_that_nobody_renews_ends_the_container(engine: Any, desktop_image: str) -> None:
    """The guest server ends, the container with it."""
    desktop = start_desktop(engine, desktop_image, f"{RUN}-lease", size=SMALL, lease_s=900)
    with suppress(DesktopFailure):  # on a busy machine it has ended before it answers
        desktop.renew(0.5, PATIENCE_S)
    ended = engine.containers.get(f"legato-rl-{RUN}-lease").wait(timeout=PATIENCE_S)
    assert ended["StatusCode"] == 0
    desktop.remove()


def test_desktop_of_the_same_name_replaces_the_old_one(engine: Any, desktop_image: str) -> None:
    """A worker that starts again finds its name free."""
    start_desktop(engine, desktop_image, f"{RUN}-same", size=SMALL)
    desktop = start_desktop(engine, desktop_image, f"{RUN}-same", size=SMALL)
    assert len(engine.containers.list(all=True, filters={"label": f"{DESKTOP}={RUN}-same"})) == 1
    desktop.remove()


def test_reap_takes_what_the_dead_left_and_nothing_else(engine: Any, desktop_image: str) -> None:
    """By label and owner: not the living's, not another run's, not a stranger's of the same name."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        dead = labels(f"{RUN}-dead", process.pid)
        process.communicate(b"\n")
    bare = {"command": ["true"], "entrypoint": []}
    made = {
        "dead": engine.containers.create(desktop_image, name=f"legato-rl-{RUN}-dead", labels=dead, volumes=["/v"], **bare),
        "alive": engine.containers.create(desktop_image, labels=labels(f"{RUN}-alive"), **bare),
        "stranger": engine.containers.create(desktop_image, name=f"legato-rl-{RUN}-stranger", **bare),
        "elsewhere": engine.containers.create(
            desktop_image, labels={DESKTOP: f"{RUN}-elsewhere", OWNER: "another-host 1 1.00"}, **bare
        ),
    }
    volumes = {mount["Name"] for mount in made["dead"].attrs["Mounts"]}
    try:
        assert reap(engine, run="another-run") == []
        told = subprocess.run(
            [str(scripts_folder() / "legato-rl"), "reap", "--run", RUN, "--json"], capture_output=True, check=True
        )
        assert json.loads(told.stdout) == {"removed": [f"{RUN}-dead"]}
        left = {container.id for container in engine.containers.list(all=True)}
        assert [name for name, container in made.items() if container.id not in left] == ["dead"]
        assert volumes
        assert volumes.isdisjoint(volume.id for volume in engine.volumes.list())
    finally:
        for name in ("alive", "stranger", "elsewhere"):
            made[name].remove(v=True, force=True)


def test_image_that_does_not_come_up_leaves_nothing(engine: Any, desktop_image: str) -> None:
    """A container that ends at once, and one that never serves, are desktop failures, with nothing left."""
    ends = engine.containers.create(desktop_image, entrypoint=["/bin/false"])
    hangs = engine.containers.create(desktop_image, entrypoint=["/bin/sleep", "1000"])
    try:
        for container in (ends, hangs):
            container.commit("legato-test", container.id[:12])
            with pytest.raises(DesktopFailure, match=r"come up|ended") as failure:
                start_desktop(engine, f"legato-test:{container.id[:12]}", f"{RUN}-bad", size=SMALL, boot_s=2)
            assert failure.value.type == "boot"
    finally:
        for container in (ends, hangs):
            engine.images.remove(f"legato-test:{container.id[:12]}")
            container.remove(v=True, force=True)


def test_no_such_image(engine: Any) -> None:
    """One sentence that names the image and the remedy."""
    with pytest.raises(ConfigError, match=r"no-such:1.*legato-rl desktop build"):
        start_desktop(engine, "no-such:1", f"{RUN}-none")
