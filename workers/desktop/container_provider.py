"""How does DesktopEnv get a container desktop? Through a provider of ours: the methods that it calls on one.

A revert is a fresh container: clean by construction.
"""

from __future__ import annotations

from typing import Any

from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.container import ContainerDesktop, Size, connect_engine, start_desktop
from legato_rl.workers.desktop.owners import reap_others


class ContainerProvider:
    """The container desktop `name`, as OSWorld sees providers."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        self._config, self._name = config, name
        self._engine: Any = connect_engine()
        reap_others(self._engine)
        self._desktop: ContainerDesktop | None = None
        self.token = ""
        """The last container's, also when that is gone: then nobody can show it."""

    def start_emulator(self, path_to_vm: str, headless: bool, os_type: str) -> None:
        """Start it. DesktopFailure where it does not come up."""
        if self._desktop is None:
            config = self._config
            size = Size(memory=config.ram_gb * 2**30, cpus=config.cpus, screen=config.screen_size)
            self._desktop = start_desktop(self._engine, config.image, self._name, size=size)
            self.token = self._desktop.token

    def get_ip_address(self, path_to_vm: str) -> str:
        """Host and ports of the running desktop, as OSWorld writes them."""
        assert self._desktop is not None, "DesktopEnv asks after a start only"
        return self._desktop.address

    def save_state(self, path_to_vm: str, snapshot_name: str) -> None:
        """A container keeps no states: its image is its one start."""
        raise NotImplementedError("a container desktop has no snapshots but its image")

    def revert_to_snapshot(self, path_to_vm: str, snapshot_name: str) -> None:
        """Give the container up; DesktopEnv starts the next one."""
        self.stop_emulator(path_to_vm)

    def stop_emulator(self, path_to_vm: str = "", region: Any = None, *args: Any, **kwargs: Any) -> None:
        """Give the container up, whatever state it is in."""
        desktop, self._desktop = self._desktop, None
        if desktop is not None:
            desktop.remove()
