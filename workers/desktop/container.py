"""How is a container desktop started and given back? By the Docker engine's own API, every call bounded."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.desktop import DesktopFailure
from legato_rl.errors import ConfigError
from legato_rl.workers.desktop.guest import FOREIGN, Guest
from legato_rl.workers.desktop.owners import labels, reap, remove

ENGINE_S = 60
"""Seconds of one call of the engine."""
BOOT_S = 60.0
"""Seconds from the start of a container to a desktop that is drawn and answers."""
LEASE_S = 120.0
"""Seconds after which a desktop ends itself that nobody renews."""
CALL_S = 10.0
TURN_S = 0.05
SHM_BYTES = 512 * 2**20
PORTS = (5000, 9222, 8006, 8080)
"""OSWorld's guest server, Chrome's debugging port, the screen for a browser, VLC: always in this order."""
PANEL = "^tint2$"
"""Title of the panel's window: it is the last thing of the session that is drawn."""


@dataclass(frozen=True)
class Size:
    """What a desktop may take. `memory` is bytes, `cpus` may be a fraction."""

    memory: int = 4 * 2**30
    cpus: float = 4.0
    screen: tuple[int, int] = (1920, 1080)


class ContainerDesktop:
    """A running container. `ports` has for each of PORTS the one on 127.0.0.1 that Docker chose.

    `token` is known to this container and to who started it: by it one tells the container from whoever has its port next.
    """

    host = "127.0.0.1"

    def __init__(self, name: str, container: Any, ports: dict[int, int], token: str, clock: Clock) -> None:
        self.name = name
        self.ports = ports
        self.token = token
        self.guest = Guest(self.host, ports[5000], clock, token)
        self._container = container

    @property
    def address(self) -> str:
        """As OSWorld's providers tell it: host, then the ports of server, Chrome, screen and VLC, between colons."""
        return ":".join([self.host, *(str(self.ports[port]) for port in PORTS)])

    def renew(self, seconds: float = LEASE_S, limit_s: float = CALL_S) -> None:
        """Keep the desktop for `seconds` more. DesktopFailure where it does not answer within `limit_s`."""
        self.guest.json("POST", "/legato/lease", limit_s, {"seconds": seconds})

    def remove(self) -> None:
        """Give it back, whatever state it is in; no error where it is gone. DesktopFailure where the engine refuses."""
        self.guest.close()
        try:
            remove(self._container)
        except (DockerException, OSError) as error:
            raise DesktopFailure("engine", f"container of {self.name} was not removed ({error})") from None


def connect_engine() -> Any:
    """The Docker engine that the environment names. ConfigError where none answers."""
    try:
        engine = docker.from_env(timeout=ENGINE_S)
        engine.ping()
    except (DockerException, OSError) as error:
        raise ConfigError(f"no Docker engine answers ({error}); start one, or set DOCKER_HOST to its address") from None
    return engine


def container_name(name: str) -> str:
    """The name of the container of desktop `name`. ConfigError where it cannot be one."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", name):
        raise ConfigError(f"desktop name is {name!r}: it must be of letters, digits, `_`, `.` and `-`")
    return f"legato-rl-{name}"


def start_desktop(
    engine: Any,
    image: str,
    name: str,
    *,
    size: Size | None = None,
    lease_s: float = LEASE_S,
    boot_s: float = BOOT_S,
    clock: Clock = SYSTEM_CLOCK,
) -> ContainerDesktop:
    """Start desktop `name` from `image`, wait until it is drawn, and take its clean baseline.

    A container that an earlier process of this name left is removed first. ConfigError where the engine has no such image,
    DesktopFailure (type `boot`) where it does not come up within `boot_s` seconds; nothing is left behind then.
    """
    size = size or Size()
    called, token = container_name(name), secrets.token_hex(16)
    try:
        reap(engine, name=name)
        container = engine.containers.create(
            image,
            name=called,
            labels=labels(name),
            detach=True,
            environment={
                "SCREEN": f"{size.screen[0]}x{size.screen[1]}x24",
                "LEGATO_LEASE_S": str(max(lease_s, boot_s) if lease_s else 0),
                "LEGATO_TOKEN": token,
            },
            ports={f"{port}/tcp": ("127.0.0.1", None) for port in PORTS},
            mem_limit=size.memory,
            memswap_limit=size.memory,
            # the engine refuses more than the machine has
            nano_cpus=int(min(size.cpus, engine.info()["NCPU"]) * 1e9),
            shm_size=SHM_BYTES,
        )
    except ImageNotFound:
        raise ConfigError(f"image is {image}: the engine has none of that name; make it with legato-rl desktop build") from None
    except (DockerException, OSError) as error:
        # a call that ran out of time may have made it all the same
        with suppress(DockerException, OSError):
            reap(engine, name=name)
        raise DesktopFailure("boot", f"container of {name} was not made ({error})") from None
    try:
        container.start()
        container.reload()
        ports = _ports(container, name)
        desktop = ContainerDesktop(name, container, ports, token, clock)
        _come_up(desktop, clock, clock.monotonic() + boot_s, lease_s)
        return desktop
    except BaseException as error:
        with suppress(DockerException, OSError):
            remove(container)
        if isinstance(error, (DockerException, OSError)):
            raise DesktopFailure("boot", f"container of {name} did not start ({error})") from None
        raise


def _ports(container: Any, name: str) -> dict[int, int]:
    """The ports that Docker chose."""
    found = {}
    for port in PORTS:
        published = container.ports.get(f"{port}/tcp")
        if not published:
            raise DesktopFailure("boot", f"container of {name} ended as it started: {_last_words(container)}")
        found[port] = int(published[0]["HostPort"])
    return found


def _come_up(desktop: ContainerDesktop, clock: Clock, deadline: float, lease_s: float) -> None:
    """Wait for the guest's server, then for the drawn panel, take the baseline, and begin the lease.

    A busy machine is slow in all of it: nothing but the deadline ends a wait.
    """
    guest = desktop.guest

    def left() -> float:
        return max(deadline - clock.monotonic(), 1.0)

    while True:
        try:
            guest.json("GET", "/legato/health", CALL_S)
            break
        except DesktopFailure as failure:
            if failure.type == FOREIGN:
                old = "its image is of another version; make it again with legato-rl desktop build"
                raise DesktopFailure("boot", f"desktop {desktop.name} does not show its token ({old})") from None
            if clock.monotonic() >= deadline:
                raise DesktopFailure("boot", f"desktop {desktop.name} did not come up ({failure})") from None
            clock.sleep(TURN_S)
    try:
        settled = guest.json("POST", "/legato/ready", left() + CALL_S, {"title": PANEL, "cap": left()})
        if not settled["ready"]:
            raise DesktopFailure("boot", f"its windows are {settled['windows']}")
        guest.json("POST", "/legato/baseline", left() + CALL_S, {"seconds": left()})
        if lease_s:
            desktop.renew(lease_s, left() + CALL_S)
    except DesktopFailure as failure:
        raise DesktopFailure("boot", f"desktop {desktop.name} did not come up ({failure})") from None


def _last_words(container: Any) -> str:
    """The end of a container's log."""
    with suppress(DockerException, OSError):
        return str(container.logs(tail=5).decode("utf-8", "replace").strip())
    return "no log"
