"""How is OSWorld's DesktopEnv built and kept honest? Its own class, with the few places closed where it looks away.

Works with the wheel `desktop-env` 1.0.2 and with the checkouts after it: arguments are those that the constructor has.
Importing this module imports no OSWorld; `open_env` does, once per worker.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import requests

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.desktop import DesktopFailure
from legato_rl.errors import ConfigError
from legato_rl.workers.desktop import host_files
from legato_rl.workers.desktop.docker_vm import keep_in_order
from legato_rl.workers.desktop.guest import PROBE_S, Guest
from legato_rl.workers.desktop.watch import Watch

log = logging.getLogger("legato_rl.worker")

FACTORY = "create_vm_manager_and_provider"
"""Where DesktopEnv takes its provider from."""
PROXY_VARIABLE = "PROXY_CONFIG_FILE"
"""Where OSWorld looks for its list of proxies, when it is imported."""

Provider = Callable[[], Any]
"""Makes a provider of ours: the methods that DesktopEnv calls on one."""


def find_osworld(path: Path | None) -> None:
    """Make `desktop_env` importable: from the checkout at `path` where that has it, else as it is installed.

    ConfigError where it is in neither.
    """
    if path is not None and not path.is_dir():
        raise ConfigError(f"osworld is {str(path)!r}: there is no such folder; name an OSWorld checkout")
    if path is not None and (path / "desktop_env").is_dir() and str(path) not in sys.path:
        sys.path.insert(0, str(path))
    if find_spec("desktop_env") is None:
        where = f"{str(path)!r}, and has no desktop_env" if path else "missing"
        raise ConfigError(
            f"osworld is {where}: name an OSWorld checkout, install desktop-env beside {sys.executable}, or use another "
            "backend such as fake"
        )


def import_osworld(config: DesktopConfig) -> Any:
    """OSWorld's module `desktop_env.desktop_env`. ConfigError where it cannot be imported. Seconds and 300 MB, once."""
    find_osworld(config.osworld_path)
    if config.proxy is not None:
        os.environ[PROXY_VARIABLE] = str(config.proxy)
    try:
        return import_module("desktop_env.desktop_env")
    except ImportError as error:
        raise ConfigError(
            f"osworld cannot be imported by {sys.executable}: {error}; install its requirements there, or name with "
            "osworld-python the interpreter that has them"
        ) from None


def open_env(config: DesktopConfig, name: str, cache: Path, watch: Watch, provider: Provider | None = None) -> Any:
    """Boot a desktop: a DesktopEnv with what `trusted` adds. `provider` stands in for OSWorld's own where given."""
    module = import_osworld(config)
    usual = getattr(module, FACTORY)

    def factory(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if provider is not None:
            return _NoManager(), provider()
        manager, theirs = usual(*args, **kwargs)
        keep_in_order(theirs, name, config.ram_gb, config.cpus)
        return manager, theirs

    wanted = {
        # OSWorld refuses names that it does not know; `docker` is the one whose desktops start clean.
        "provider_name": "docker" if provider is not None else config.provider,
        "path_to_vm": str(config.path_to_vm) if config.path_to_vm else ("container" if provider is not None else None),
        "action_space": "pyautogui",
        "cache_dir": str(cache),
        "screen_size": config.screen_size,
        "headless": True,
        "require_a11y_tree": False,
        "require_terminal": False,
        "os_type": "Ubuntu",
        "enable_proxy": config.proxy is not None,
        "client_password": config.client_password,
    }
    known = inspect.signature(module.DesktopEnv.__init__).parameters
    setattr(module, FACTORY, factory)
    try:
        env = trusted(module.DesktopEnv, watch, own_folders(module, config.osworld_path))
        return env(**{key: value for key, value in wanted.items() if key in known})
    finally:
        setattr(module, FACTORY, usual)


def programs(env: Any) -> set[int]:
    """The guest's ports at which programs of a task may listen: Chrome, VLC, the screen's viewer."""
    return {int(getattr(env, port)) for port in ("chromium_port", "vlc_port", "vnc_port") if getattr(env, port, None)}


def find_token(env: Any) -> str:
    """What every answer of the guest must show; empty where its provider gave it none, as OSWorld's do."""
    return str(getattr(getattr(env, "provider", None), "token", ""))


def own_folders(module: Any, checkout: Path | None) -> list[Path]:
    """Where OSWorld's own files are: its package, and the checkout at `checkout`."""
    return [Path(module.__file__).parent, *([checkout] if checkout else [])]


def trusted(base: Any, watch: Watch, folders: list[Path]) -> Any:
    """`base` with five changes.

    A task brings no file of this machine but those of `folders` and of its rollout's cache. Its client asks once, a setup
    that did not happen raises, no picture is taken, and a guest that was booted anew since the task's start gets no
    verdict: it answers as if nothing had been, and what was open on it is gone.
    """

    class TrustedEnv(base):  # type: ignore[misc]
        boots = 0
        _boot_id = ""

        def reset(self, *args: Any, **kwargs: Any) -> Any:
            host_files.check([*args, kwargs.get("task_config")], [*folders, Path(self.cache_dir_base)])
            seen = super().reset(*args, **kwargs)
            self._boot_id = self._find_boot_id()
            return seen

        def evaluate(self) -> Any:
            verdict = super().evaluate()
            if self._find_boot_id() != self._boot_id:
                raise DesktopFailure("guest_rebooted", "the guest was booted anew since the task's start")
            return verdict

        def _find_boot_id(self) -> str:
            return _boot_id(Guest(self.vm_ip, int(self.server_port), SYSTEM_CLOCK, find_token(self)))

        def _revert_to_snapshot(self) -> None:
            watch.look_away()
            super()._revert_to_snapshot()

        def _start_emulator(self) -> None:
            watch.look_away()
            super()._start_emulator()
            self.boots += 1
            watch.aim(self.vm_ip, int(self.server_port), programs(self), find_token(self))
            # A second try five seconds later would hide a loss, do an action twice, and cost 15 s for a plain 404.
            self.controller.retry_times, self.controller.retry_interval = 1, 0
            usual, server = self.setup_controller.setup, self.setup_controller.http_server

            def setup(config: Any, *args: Any, **kwargs: Any) -> bool:
                return _set_up(usual, server, watch, config, *args, **kwargs)

            self.setup_controller.setup = setup

        def _get_obs(self) -> dict[str, Any]:
            # `reset` ends in one that nobody looks at, and that takes 45 s on a broken screen.
            return {"screenshot": None, "accessibility_tree": None, "terminal": None, "instruction": self.instruction}

    return TrustedEnv


def _boot_id(guest: Guest) -> str:
    """What no other boot, and no other container on this machine, has: containers share the kernel's name for its boot, and
    Docker may give one's port to the next, but their first processes began at other times.
    """
    first = guest.execute(["cat", "/proc/1/stat"], PROBE_S).stdout.rpartition(")")[2].split()
    return f"{guest.boot_id()} {first[19] if len(first) > 19 else ''}"


def _set_up(usual: Callable[..., bool], server: str, watch: Watch, config: Any, *args: Any, **kwargs: Any) -> bool:
    """SetupController.setup, but what OSWorld only logs, or tries again on a half-prepared desktop, raises."""
    watch.pinging = True
    try:
        try:
            # Its own ping of a guest that is gone takes 100 s, and five of those pass for a reset that went well.
            requests.get(server + "/terminal", timeout=PROBE_S)
        except requests.RequestException as error:
            raise DesktopFailure("guest_unreachable", f"before the setup: {error}") from None
        watch.check()
        done = usual(config, *args, **kwargs)
    finally:
        watch.pinging = False
    watch.check()
    if not done:
        raise DesktopFailure("setup", "the guest did not answer before the setup")
    return True


class _NoManager:
    """The place of OSWorld's VM manager, which keeps lists of image files: a provider of ours has none."""

    def get_vm_path(self, **kwargs: Any) -> str:
        return "container"

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None
