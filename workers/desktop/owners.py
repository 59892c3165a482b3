"""Whose is a container? The labels that say so, written before it starts, and whether the process they name still lives."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

DESKTOP = "legato-rl.desktop"
"""The label whose value is the desktop's name, `RUN-WORKER`. What does not carry it is not ours and is never touched."""
OWNER = "legato-rl.owner"
"""The label that names the process it was started for, as `owner` does."""

log = logging.getLogger("legato_rl.worker")


def owner(pid: int | None = None) -> str:
    """Process `pid`, which is this one unless told, by a name that no later process has: host, boot, pid and start."""
    pid = os.getpid() if pid is None else pid
    began = _began(pid)
    if began is None:
        raise ProcessLookupError(f"no process {pid}")
    return f"{socket.gethostname()} {_boot()} {pid} {began}"


def labels(name: str, pid: int | None = None) -> dict[str, str]:
    """The labels of a container that is desktop `name` of process `pid`, which is this one unless told."""
    return {DESKTOP: name, OWNER: owner(pid)}


def gone(named: str) -> bool:
    """Whether the process that `owner` has so named is known to be gone. Another host's, or what is no such name, is not."""
    try:
        host, boot, pid, began = named.split(" ")
        number, start = int(pid), int(began)
    except ValueError:
        return False
    if host != socket.gethostname():
        return False
    return boot != _boot() or _began(number) != start


def _boot() -> str:
    """The kernel's name for this machine's present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _began(pid: int) -> int | None:
    """When process `pid` began, in the kernel's ticks since the boot, which nobody sets; None where it has ended."""
    try:
        # the name in brackets may hold anything, brackets too
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def ours(engine: Any) -> list[Any]:
    """All containers with our label, running or not, as the engine lists them."""
    found: list[Any] = engine.containers.list(all=True, filters={"label": DESKTOP}, ignore_removed=True)
    return found


def remove(container: Any) -> bool:
    """Remove a container with its volumes, running or not; whether it was there to be removed. DockerException: it stays."""
    from docker.errors import APIError, NotFound

    try:
        container.remove(v=True, force=True)
    except NotFound:
        return False
    except APIError as error:
        if error.status_code != 409:  # somebody else is removing it
            raise
        return False
    return True


def reap(engine: Any, *, run: str | None = None, name: str | None = None) -> list[str]:
    """Remove what dead owners left, and tell the names. Only what carries our label, and never what has a living owner.

    `run`: only desktops of that run. `name`: the desktop of that name, whoever owns it, since there is one of a name
    and who asks is its worker.
    """
    removed = []
    for container in ours(engine):
        called = container.labels[DESKTOP]
        asked = called == name if name is not None else gone(container.labels.get(OWNER, ""))
        if asked and (run is None or called.startswith(f"{run}-")) and remove(container):
            removed.append(called)
    return sorted(removed)


def reap_others(engine: Any) -> list[str]:
    """What a desktop that starts takes away: what dead owners of any run left. An engine that refuses is only logged."""
    from docker.errors import DockerException

    try:
        removed = reap(engine)
    except (DockerException, OSError) as error:
        log.warning("what dead runs left was not removed: %s", error)
        return []
    if removed:
        log.info("removed what dead runs left: %s", ", ".join(removed))
    return removed
