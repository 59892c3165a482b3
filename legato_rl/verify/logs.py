"""Do the logs show that no try was let go without a row? Nothing died, nothing was given back, and they are whole. DISK.

Logs are rotated, cut and lost, and what they lack shows nothing: so they must tell of the run's one start, and then of
every row that a worker had stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from legato_rl import supervisord
from legato_rl.rundir import RunDir

STARTED = re.compile(rb"(.{19}),\d+ \w+ supervisord started with pid ")
"""What supervisord says when it starts, with the second: once in a run that was never resumed."""
SPAWNED = re.compile(rb" spawned: '([^']*)' with pid ")
"""What it says of each start of a process: once of one that did not die."""
STORED = re.compile(rb"(.{19})\.\d+ worker INFO (\S+) is stored: ")
"""What a worker says of each of its rows, with the second, on the same clock."""
LOST = supervisord.LOST.encode()
LET_GO = re.compile(rb" was dropped$| this process ends itself$")
"""What it says of a try that it was told to drop, or gave back as it was told to end."""


def show_no_loss(run: RunDir, stored: Collection[str]) -> bool:
    """Whether no try can have ended without a row. `stored` are the ids of the rows that workers had stored."""
    try:
        begun, starts = _starts(run)
        if len(begun) != 1 or set(starts.values()) != {1}:
            return False
        missing = set(stored)
        for name in starts:
            if name.startswith("worker-"):
                missing -= _stored(run, name, begun[0])
    except (OSError, _LetGo):
        return False
    return not missing


class _LetGo(Exception):
    """A worker let go of a try, or may have, where lines are missing."""


def _starts(run: RunDir) -> tuple[list[bytes], Counter[str]]:
    """The seconds in which supervisord started, and how often it started each process."""
    begun, starts = list[bytes](), Counter[str]()
    with (run.logs / "supervisord.log").open("rb") as file:
        for line in file:
            if LOST in line:
                raise _LetGo
            if started := STARTED.match(line):
                begun.append(started[1])
            elif spawned := SPAWNED.search(line):
                starts[spawned[1].decode(errors="replace")] += 1
    return begun, starts


def _stored(run: RunDir, worker: str, begun: bytes) -> set[str]:
    """The rows that a worker's log tells of, since second `begun`. _LetGo where it tells of another end of a try."""
    stored = set()
    with (run.logs / f"{worker}.log").open("rb") as file:
        for line in file:
            if LOST in line or LET_GO.search(line.rstrip()):
                raise _LetGo
            told = STORED.match(line)
            if told and told[1].replace(b"T", b" ") >= begun:
                stored.add(told[2].decode(errors="replace"))
    return stored
