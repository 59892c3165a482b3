"""Who runs a folder, of a run or of a service? DISK: the lock of the one command, and a look at that of the sink."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from legato_rl.clock import Clock
from legato_rl.errors import ConfigError, NoAnswer
from legato_rl.rundir import RunDir
from legato_rl.up import is_up

ENDING_S = 90.0
"""Seconds that the processes of a command that was killed get to end, before their folder is refused."""
TURN_S = 0.1


@contextmanager
def held(folder: RunDir, option: str = "out") -> Iterator[None]:
    """Be the one command that runs this folder, which `option` named, while the block lasts. ConfigError where another is.

    The lock goes with this process, however that ends; the processes that it starts do not inherit it.
    """
    where = f"{option} is {str(folder.root)!r}"
    try:
        fd = os.open(folder.command_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}; name a folder that can be written") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that gave its folder back meanwhile took the file with it, and a lock on that would keep nobody out.
            if not os.path.samestat(os.fstat(fd), folder.command_lock.stat()):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise ConfigError(f"{where}: another command runs it; end that one, or wait for it") from None
        yield
    finally:
        os.close(fd)


def wait_for_sink(folder: RunDir, clock: Clock) -> None:
    """Wait until no sink has the folder: one whose command was killed ends soon. ConfigError where it stays."""
    give_up = clock.monotonic() + ENDING_S
    while _is_locked(folder.lock):
        if clock.monotonic() > give_up:
            raise ConfigError(f"out is {str(folder.root)!r}: a sink has it locked; end its processes first")
        clock.sleep(TURN_S)


def wait_until_down(folder: RunDir, sockets: Path, clock: Clock) -> None:
    """Wait until a service that shuts down is down, and may be opened again. NoAnswer where that lasts."""
    give_up = clock.monotonic() + ENDING_S
    while is_up(sockets) or _is_locked(folder.lock) or _is_locked(folder.command_lock):
        if clock.monotonic() > give_up:
            raise NoAnswer(
                f"the service in {str(folder.root)!r} is up after {ENDING_S:g} s: it still shuts down, or was started again"
            )
        clock.sleep(TURN_S)


def _is_locked(lock: Path) -> bool:
    try:
        with lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
