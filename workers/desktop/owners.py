"""Whose is a container? The labels that say so, written before it starts, and whether the process they name still lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil

DESKTOP = "legato-rl.desktop"
"""The label whose value is the desktop's name, `RUN-WORKER`. What does not carry it is not ours and is never touched."""
OWNER = "legato-rl.owner"
"""The label that names the process it was started for: host, pid, and when that process began."""


def labels(name: str, pid: int | None = None) -> dict[str, str]:
    """The labels of a container that is desktop `name` of process `pid`, which is this one unless told."""
    process = psutil.Process(os.getpid() if pid is None else pid)
    return {DESKTOP: name, OWNER: f"{socket.gethostname()} {process.pid} {process.create_time():.2f}"}


def dead(found: Mapping[str, str]) -> bool:
    """Whether the owner in a container's labels is known to be gone. Another host's, or one that cannot be read, is not."""
    try:
        host, pid, began = found.get(OWNER, "").split(" ")
        if host != socket.gethostname():
            return False
        # start times are told in hundredths of a second; another process has had the pid for seconds
        return abs(psutil.Process(int(pid)).create_time() - float(began)) > 1.0
    except psutil.NoSuchProcess:
        return True
    except ValueError:
        return False


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
        asked = called == name if name is not None else dead(container.labels)
        if asked and (run is None or called.startswith(f"{run}-")) and remove(container):
            removed.append(called)
    return sorted(removed)
