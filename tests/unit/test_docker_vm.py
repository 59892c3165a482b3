"""Are OSWorld's VM containers named, labelled, on Docker's ports, and wholly removed? A provider and an engine of ours."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from legato_rl.workers.desktop.docker_vm import keep_in_order
from legato_rl.workers.desktop.owners import DESKTOP, OWNER, owner


class Container:
    """A container of the engine."""

    def __init__(self, engine: Engine, options: dict[str, Any]) -> None:
        self.engine, self.options, self.labels = engine, options, options.get("labels", {})
        self.ports: dict[str, Any] = {}

    def reload(self) -> None:
        self.ports = {f"{port}/tcp": [{"HostPort": str(40000 + port)}] for port in self.options["ports"]}

    def remove(self, v: bool, force: bool) -> None:
        assert v
        assert force
        self.engine.all.remove(self)


class Engine:
    """Docker's client, as far as it is used."""

    def __init__(self) -> None:
        self.all: list[Container] = []
        self.containers = self

    def run(self, image: str, **options: Any) -> Container:
        self.all.append(Container(self, {"image": image, **options}))
        return self.all[-1]

    def list(self, all: bool, filters: dict[str, str], ignore_removed: bool) -> list[Container]:
        return [container for container in self.all if filters["label"] in container.labels]


def provider(engine: Engine, lock: Path) -> Any:
    """OSWorld's provider, as far as it is adjusted."""
    ports = dict.fromkeys(("server_port", "chromium_port", "vnc_port", "vlc_port"))
    return SimpleNamespace(client=engine, environment={"DISK_SIZE": "32G"}, lock_file=lock, container=None, **ports)


def test_a_vm_in_order(tmp_path: Path) -> None:
    """From its start to its end; what is not ours stays."""
    engine = Engine()
    theirs = engine.run("someone-elses", labels={})
    old = engine.run("old", labels={DESKTOP: "run-1-worker-000"})
    one = provider(engine, tmp_path / "docker_port_allocation.lck")
    keep_in_order(one, "run-1-worker-000", 6, 3)
    assert one.environment == {"DISK_SIZE": "32G", "RAM_SIZE": "6G", "CPU_CORES": "3"}
    assert one.lock_file == tmp_path / "legato-rl-run-1-worker-000.lck"
    container = one.client.containers.run("vm", ports={5000: one._get_available_port(5000)}, detach=True)
    assert old not in engine.all
    assert container.options["name"] == "legato-rl-run-1-worker-000"
    assert container.labels.keys() == {DESKTOP, OWNER}
    assert set(container.options["ports"].values()) == {("127.0.0.1", None)}
    assert (one.server_port, one.chromium_port, one.vnc_port, one.vlc_port) == (45000, 49222, 48006, 48080)
    assert one.container is container
    one.stop_emulator("vm.qcow2")
    assert engine.all == [theirs]
    assert one.container is None


def test_what_dead_runs_left(tmp_path: Path) -> None:
    """A container whose owner is gone, and its lock file; the living's stay."""
    host, _, pid, began = owner().split(" ")
    engine = Engine()
    engine.run("vm", labels={DESKTOP: "run-0-worker-001", OWNER: f"{host} an-older-boot {pid} {began}"})
    living = engine.run("vm", labels={DESKTOP: "run-2-worker-001", OWNER: owner()})
    for run in ("0", "2"):
        (tmp_path / f"legato-rl-run-{run}-worker-001.lck").touch()
    keep_in_order(provider(engine, tmp_path / "docker_port_allocation.lck"), "run-1-worker-000", 4, 4)
    assert engine.all == [living]
    assert [path.name for path in tmp_path.iterdir()] == ["legato-rl-run-2-worker-001.lck"]


def test_a_provider_of_other_insides(tmp_path: Path) -> None:
    """It is left as it is."""
    other = SimpleNamespace(client=Engine())
    keep_in_order(other, "d", 4, 4)
    assert vars(other).keys() == {"client"}
