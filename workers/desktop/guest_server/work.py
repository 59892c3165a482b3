"""Are the programs whose windows are open at work? By what their main threads want of a processor, whether or not they get it.

On a busy machine a program may not have begun to draw what an action asked of it while the screen has long been quiet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from Xlib.error import XError

from .clock import now

SPAN_S = 0.05
"""Seconds over which a program is looked at; a caret that blinks takes a few thousandths."""
SHARE = 0.5
"""Share of the time above which a program that wants a processor is at work."""


class Work:
    """What the programs of a display's windows have wanted since it was made or last asked."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._looked, self._wanted = now(), wanted(window_pids(display))

    def goes_on(self) -> bool:
        """Whether one of them is at work. False in less than SPAN_S since the last look."""
        at = now()
        if at - self._looked < SPAN_S:
            return False
        pids = window_pids(self._display)
        before, self._wanted = self._wanted, wanted(pids)
        most = max((seconds - before.get(pid, seconds) for pid, seconds in self._wanted.items()), default=0.0)
        span, self._looked = at - self._looked, at
        return most > SHARE * span or any(waits(pid) for pid in pids)


def window_pids(display: Any) -> set[int]:
    """The processes that say of a window in the window manager's list that it is theirs."""
    root, pid = display.screen().root, display.intern_atom("_NET_WM_PID")
    ids = root.get_full_property(display.intern_atom("_NET_CLIENT_LIST"), 0)
    found = set()
    for id_ in ids.value if ids else ():
        with suppress(XError):  # it closed meanwhile
            owner = display.create_resource_object("window", int(id_)).get_full_property(pid, 0)
            if owner and len(owner.value):
                found.add(int(owner.value[0]))
    return found


def wanted(pids: set[int]) -> dict[int, float]:
    """By process, the seconds that its main thread has run or waited for a processor; 0 where the kernel keeps no times."""
    found = {}
    for pid in pids:
        with suppress(OSError, ValueError):  # it ended meanwhile
            with open(f"/proc/{pid}/schedstat", "rb") as file:
                ran, waited, _ = file.read().split()
            found[pid] = (int(ran) + int(waited)) / 1e9
    return found


def waits(pid: int) -> bool:
    """Whether a main thread runs, or waits for a processor or a disk, right now: the kernel counts a wait when it is over."""
    with suppress(OSError, IndexError):  # it ended meanwhile
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"R", b"D")
    return False
