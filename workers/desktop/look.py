"""Where are the guest's windows, and are their programs still at work? What one command in the guest tells. PURE.

A program that starts puts its window up, then loads, and draws when it has loaded: a screen that is quiet is not yet a
program that is there. What it still wants of a processor tells the two apart, on a busy machine too, since the time for
which it waits for one counts as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOOK = (
    "wmctrl -lp; for id in $(wmctrl -l | cut -d ' ' -f 1); do xwininfo -id $id; done; "
    "for turn in 1 2; do grep -sH . /proc/[0-9]*/schedstat; grep -slE '[)] [RD] ' /proc/[0-9]*/stat; "
    "[ $turn = 2 ] || sleep 0.2; done"
)
"""A shell's words: the windows with their programs, each window's place, and twice, 0.2 s apart, the main threads' times and
which of them run, or wait for a processor or a disk, right now: the kernel counts a wait when it is over.
"""
WORKING_NS = 50e6
"""Nanoseconds between the two times above which a program is at work; at rest it is at most 5e6."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in pixels of the screen."""

_OWNER = re.compile(r"^(0x[0-9a-f]+) +-?\d+ +(\d+) ", re.MULTILINE)
_PLACE = re.compile(r"^xwininfo: Window id: (0x[0-9a-f]+)(.*?)Map State: (\w+)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"^ *(Absolute upper-left X|Absolute upper-left Y|Width|Height): +(-?\d+)$", re.MULTILINE)
_WAITS = re.compile(r"^/proc/(\d+)/stat$", re.MULTILINE)
_TIMES = re.compile(r"^/proc/(\d+)/schedstat:(\d+) (\d+) \d+$", re.MULTILINE)


@dataclass(frozen=True)
class Look:
    """By window id: its area without its frame (None: not mapped). `working`: ids of those whose program is at work.

    A guest that lacks one of the tools, or whose kernel keeps no such times, tells less.
    """

    areas: dict[int, Box | None]
    working: frozenset[int]


def read_look(text: str) -> Look:
    """What LOOK has written."""
    areas: dict[int, Box | None] = {}
    for window, place, state in _PLACE.findall(text):
        number = {name: int(value) for name, value in _NUMBER.findall(place)}
        if state == "IsViewable" and len(number) == 4:
            left, top = number["Absolute upper-left X"], number["Absolute upper-left Y"]
            areas[int(window, 16)] = (left, top, left + number["Width"], top + number["Height"])
        else:
            areas[int(window, 16)] = None
    first: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for pid, ran, waited in _TIMES.findall(text):
        at = int(ran) + int(waited)
        wanted[pid] = at - first.setdefault(pid, at)
    working = {*_WAITS.findall(text), *(pid for pid, ns in wanted.items() if ns > WORKING_NS)}
    return Look(areas, frozenset(int(window, 16) for window, pid in _OWNER.findall(text) if pid in working))
