"""Which processes are there, and which of them are nobody's? Read from /proc; what is not in a baseline is ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from .clock import now, sleep

END_S = 10.0
"""Seconds in which all that shall end must have ended; new ones made meanwhile are ended too."""
CACHES = frozenset({"dconf-service", "gvfsd-metadata", "gconfd-2"})
"""Services that keep a copy of files in the home folder. One that outlives a restore drops the next task's writes where they
equal its stale copy, and writes the old task's values back with the next: they are never part of a baseline. They
start again when they are asked."""

Key = tuple[int, int]
"""Pid and start time: a pid alone may be used again."""


@dataclass(frozen=True)
class Process:
    """One process that is no zombie and no thread of the kernel."""

    pid: int
    parent: int
    uid: int
    command: str

    @property
    def caches(self) -> bool:
        """Whether it is one of CACHES."""
        return os.path.basename(self.command.split(" ", 1)[0]) in CACHES


def processes() -> dict[Key, Process]:
    """All processes."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # it ended meanwhile
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            # the name in brackets may hold anything, brackets too
            rest = stat[stat.rindex(b")") + 2 :].split()
            if rest[0] != b"Z" and command:
                uid = os.stat(f"/proc/{name}").st_uid
                found[(int(name), int(rest[19]))] = Process(int(name), int(rest[1]), uid, command)
    return found


def strangers(baseline: Iterable[Key], spared: Iterable[int]) -> dict[Key, Process]:
    """The processes that are in no baseline, but for the pids in `spared`."""
    kept, spared = set(baseline), {*spared, *lineage()}
    return {key: process for key, process in processes().items() if key not in kept and process.pid not in spared}


def lineage() -> set[int]:
    """This process and those above it."""
    parents = {process.pid: process.parent for process in processes().values()}
    pids, pid = set(), os.getpid()
    while pid and pid not in pids:
        pids.add(pid)
        pid = parents.get(pid, 0)
    return pids


def end_strangers(baseline: Iterable[Key], spared: Iterable[int]) -> int:
    """Kill all strangers, also those of root; how many there were. Some may be left after END_S."""
    kept, spared = frozenset(baseline), frozenset(spared)
    ended: set[Key] = set()
    deadline = now() + END_S
    while (left := strangers(kept, spared)) and now() < deadline:
        for key in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(key[0], signal.SIGKILL)
        ended |= left.keys()
        sleep(0.005)
    return len(ended)
