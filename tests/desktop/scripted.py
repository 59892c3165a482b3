"""What drives OSWorld's real package in tests? OSWorldDesktop on a guest that the test scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bad.guest import Guest
from driven_clock import DrivenClock

from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.env import Provider
from legato_rl.workers.desktop.osworld import OSWorldDesktop


class ScriptedProvider:
    """A provider whose every boot is the guest that `boot` gives, counted from 0."""

    def __init__(self, boot: Callable[[int], Guest]) -> None:
        self._boot = boot
        self.boots = 0
        self.guest: Guest | None = None
        self.token = ""

    def start_emulator(self, path_to_vm: str, headless: bool, os_type: str) -> None:
        """Boot."""
        self.guest = self._boot(self.boots)
        self.boots += 1
        self.token = getattr(self.guest, "token", "")

    def get_ip_address(self, path_to_vm: str) -> str:
        """Its programs' ports are such that nothing listens there."""
        assert self.guest is not None
        return f"127.0.0.1:{self.guest.port}:1:2:3"

    def revert_to_snapshot(self, path_to_vm: str, snapshot_name: str) -> None:
        """The next boot is clean."""

    def stop_emulator(self, path_to_vm: str, region: Any = None, *args: Any, **kwargs: Any) -> None:
        """Nothing is to be given back."""


class ScriptedDesktop(OSWorldDesktop):
    """OSWorldDesktop on that provider; its waits take no time."""

    def __init__(self, config: DesktopConfig, boot: Callable[[int], Guest]) -> None:
        self.clock = DrivenClock()
        self.scripted = ScriptedProvider(boot)
        super().__init__(config, "scripted")

    def _provider(self, name: str) -> Provider | None:
        return lambda: self.scripted

    @property
    def guest(self) -> Guest:
        """The guest of the last boot."""
        assert self.scripted.guest is not None
        return self.scripted.guest


def config(cache: Path, **fields: Any) -> DesktopConfig:
    """The settings of such a desktop."""
    return DesktopConfig(backend="container", cache_dir=cache, screen_size=(320, 240), **fields)


@contextmanager
def desktop(cache: Path, *guests: Guest, **fields: Any) -> Iterator[ScriptedDesktop]:
    """A desktop that boots these guests one after the other, the last one again and again."""
    one = ScriptedDesktop(config(cache, **fields), lambda n: guests[min(n, len(guests) - 1)])
    try:
        yield one
    finally:
        one.close()


def task(func: Any = "exact_match", domain: str | None = None, rollout: str = "r:g:0:0", **evaluator: Any) -> dict[str, Any]:
    """A task whose evaluator has these fields; `config` is its setup."""
    setup = evaluator.pop("config", [])
    return {
        "id": "small-task",
        "instruction": "do it",
        "config": setup,
        "evaluator": {"func": func, **evaluator},
        "legato": {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": domain},
    }
