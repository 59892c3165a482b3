"""Is this desktop clean, and how does it get clean again? A baseline, the way back to it, and what did not go back."""

from __future__ import annotations

import os
import pwd
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import clock
from .hands import Hands
from .identity import User
from .processes import Key, end_strangers, processes, strangers
from .run import run
from .tree import Tree, copy_at_rest, names, remove
from .xstate import XState, connect, layout_command, put_back, read_state

BACKGROUND = 0x305070
"""The root window's colour, as the session sets it."""
TMP = ("/tmp", "/var/tmp", "/dev/shm", "/run/user")
SYSTEM = (
    *("/etc", "/opt", pwd.getpwuid(0).pw_dir, "/srv", "/var", "/run/sudo", "/usr/local", "/usr/bin", "/usr/sbin"),
    *("/usr/share/applications", "/usr/share/glib-2.0", "/usr/share/mime"),
)
"""What only root can change. A change there is told, not undone."""
OUTSIDE = ("/var/tmp", "/var/lib/legato", "/var/log/legato", "/var/cache")
"""What is left out of SYSTEM: restored, our own, or nobody's."""
READ_ONCE = (".config/openbox", ".config/tint2", ".themes", ".Xauthority")
"""Files of the session's own programs, which live through a reset with what they have read. None of them uses GTK, whose
settings a file dialog writes."""
TOLD = 20
"""Names that are told of each kind of what is left."""
BASELINE_S = 60.0
"""Seconds in which a baseline must be taken where nobody says otherwise."""
HAND_S = 30.0
"""Seconds in which the prepared interpreter must be ready again where the rollout ended it."""
LAYOUT_S = 10.0
SETTLE_S = 10.0
"""Seconds that window manager and X server get to follow, on a busy machine too: a revert takes longer."""


class NoBaseline(Exception):
    """Nothing says what clean is: the server was started anew, or nobody took a baseline."""


@dataclass(frozen=True)
class Baseline:
    """A clean desktop."""

    taken: float
    processes: frozenset[Key]
    home: Tree
    temporary: frozenset[str]
    x: XState


class Resetter:
    """Takes the baseline and goes back to it. One call at a time."""

    def __init__(self, user: User, hands: Hands, store: str) -> None:
        self._user = user
        self._hands = hands
        self._store = store
        self._lock = threading.Lock()
        self._baseline: Baseline | None = None
        self._hand: int | None = None

    def has_baseline(self) -> bool:
        """Whether a reset is possible."""
        return self._baseline is not None

    def take_baseline(self, seconds: float) -> dict[str, Any]:
        """Take what is there now for clean. OSError, which says why, where that is not possible within `seconds`."""
        with self._lock:
            start = clock.now()
            self._start_hand(seconds)
            end_strangers((key for key, process in processes().items() if not process.caches), self._spared())
            # the session's programs may still be writing
            home = copy_at_rest(self._copy_home, "the home folder", start + seconds)
            self._baseline = Baseline(
                taken=clock.wall(),
                processes=frozenset(strangers((), self._spared())),
                home=home,
                temporary=frozenset(names(TMP)),
                x=self._x_state(),
            )
            found = {"processes": len(self._baseline.processes), "files": len(home)}
            return {**found, "seconds": clock.now() - start}

    def reset(self) -> dict[str, Any]:
        """Go back to the baseline: `clean`, what is `left`, how many processes were `ended`, and `ms` by phase.

        OSError, which says why, where the prepared interpreter does not come up.
        """
        with self._lock:
            baseline = self._need()
            laps: dict[str, float] = {}
            start = clock.now()

            def lap(name: str) -> None:
                nonlocal start
                laps[name] = round((clock.now() - start) * 1e3, 1)
                start = clock.now()

            ended = end_strangers(baseline.processes, self._spared())
            lap("processes")
            changed = baseline.home.restore()
            lap("home")
            _clear(baseline)
            lap("temporary")
            display = connect(self._user.env["DISPLAY"])
            try:
                if command := layout_command(read_state(display), baseline.x):
                    run(self._user, command, shell=False, timeout=LAYOUT_S)
                put_back(display, baseline.x, BACKGROUND)
            finally:
                display.close()
            lap("x")
            # One that was between fork and exec when the others were ended cannot be seen then; it can now.
            if late := end_strangers(baseline.processes, self._spared()):
                ended += late
                changed += baseline.home.restore()
                _clear(baseline)
            # Not earlier: it imports from the home. One that was started since the last reset did so from the rollout's.
            if self._hands.pid != self._hand:
                self._hands.close()
            self._start_hand(HAND_S)
            lap("interpreter")
            left = self._left(baseline)
            if reread := [path for path in changed if path.startswith(READ_ONCE)]:
                left["session_files"] = reread
            lap("check")
            return {"clean": not left, "left": told(left), "ended": ended, "ms": laps}

    def check(self) -> dict[str, Any]:
        """Whether the desktop is as in the baseline, and what is not; changes nothing."""
        with self._lock:
            left = self._left(self._need())
            return {"clean": not left, "left": told(left)}

    def _need(self) -> Baseline:
        if self._baseline is None:
            raise NoBaseline("no baseline was taken since this server started")
        return self._baseline

    def _start_hand(self, seconds: float) -> None:
        """Have the prepared interpreter ready, on a clean desktop."""
        self._hands.start(seconds)
        self._hand = self._hands.pid

    def _copy_home(self) -> Tree:
        return Tree(self._user.home, os.path.join(self._store, "home"))

    def _spared(self) -> set[int]:
        return {pid for pid in (self._hands.pid,) if pid is not None}

    def _left(self, baseline: Baseline) -> dict[str, list[str]]:
        """What differs from the baseline, by kind. Whatever of X follows with a delay gets that delay."""
        deadline = clock.now() + SETTLE_S
        while (x := baseline.x.differences(self._x_state())) and clock.now() < deadline:
            clock.sleep(0.01)
        alive = processes()
        found = {
            "processes": [process.command[:80] for process in strangers(baseline.processes, self._spared()).values()],
            "gone": [f"pid {pid}" for pid, start in baseline.processes if (pid, start) not in alive],
            "home": baseline.home.differences(),
            "temporary": sorted(names(TMP) - baseline.temporary),
            "x": x,
            "system": changed_since(baseline.taken),
        }
        return {kind: what for kind, what in found.items() if what}

    def _x_state(self) -> XState:
        display = connect(self._user.env["DISPLAY"])
        try:
            return read_state(display)
        finally:
            display.close()


def _clear(baseline: Baseline) -> None:
    """Remove what is new in the temporary folders; what cannot be removed is found by the check."""
    for path in sorted(names(TMP) - baseline.temporary):
        with suppress(OSError):
            remove(path)


def told(left: dict[str, list[str]]) -> dict[str, list[str]]:
    """`left`, no list longer than TOLD."""
    return {kind: what[:TOLD] for kind, what in left.items()}


def changed_since(taken: float) -> list[str]:
    """Paths in SYSTEM that were changed since `taken` (seconds since the epoch), by a time that nobody can set."""
    roots = [path for path in SYSTEM if os.path.exists(path)]
    outside: list[str] = []
    for path in OUTSIDE:
        outside += ["-path", path, "-prune", "-o"]
    command = ["find", *roots, "-xdev", *outside, "-newerct", f"@{taken:.6f}", "-print"]
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    return sorted(listed.stdout.split("\n")[:-1])
