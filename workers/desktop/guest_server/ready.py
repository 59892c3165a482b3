"""When has the screen settled? By the X server's own reports of what was drawn: no screenshots, almost no CPU."""

from __future__ import annotations

import re
import select
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from Xlib.display import Display
from Xlib.ext import damage

from .clock import now
from .windows import open_windows
from .work import Work

CELL = 64
"""Pixels of the squares in which repeated drawing is counted."""
POLL_S = 0.02
TITLES_S = 0.05
WORK_SHARE = 0.5
"""Share of the cap in which a program at work is waited for as if it drew: one may be at work for ever."""


@dataclass(frozen=True)
class Wanted:
    """What is waited for. `quiet` and `cap` are seconds, `small` is pixels of an area that may change at any time."""

    title: str | None = None
    """A regular expression that some window's title must match: without it a splash screen's pause looks settled."""
    quiet: float = 0.5
    """Nothing drawn for as long. Of 12 starts of real programs none was early with 0.5 s, one with 0.3 s, three with 0.2 s."""
    cap: float = 5.0
    small: int = 900
    """A caret and a digit of a clock are smaller."""


def read_wanted(asked: dict[str, Any]) -> Wanted:
    """`asked` as a request has it. ValueError where a field is unknown or wrong."""
    unknown = set(asked) - set(Wanted.__dataclass_fields__)
    if unknown:
        raise ValueError(f"ready does not take {sorted(unknown)[0]}")
    numbers = {name: float(asked[name]) for name in ("quiet", "cap") if name in asked}
    if any(not 0 <= number <= 600 for number in numbers.values()):
        raise ValueError("quiet and cap are seconds, from 0 to 600")
    title = asked.get("title")
    try:
        re.compile(title or "")
    except re.error as error:
        raise ValueError(f"title is {title!r}: no regular expression ({error})") from None
    return Wanted(title=title or None, small=int(asked.get("small", Wanted.small)), **numbers)


@dataclass(frozen=True)
class Settled:
    """How a wait ended. `seconds` is its length, `last_drawn` when something big was drawn last, from its start."""

    ready: bool
    seconds: float
    last_drawn: float
    title: bool | None
    windows: list[str]
    animated: list[list[int]]

    def json(self) -> dict[str, Any]:
        """As /legato/ready tells it."""
        return asdict(self)


class Repeaters:
    """Cells of the screen that are drawn again and again: an animation, not something new."""

    def __init__(self, span: float = 1.0, times: int = 8, window: float = 3.0) -> None:
        self._span, self._times, self._window = span, times, window
        self._seen: dict[tuple[int, int], list[float]] = {}

    def add(self, at: float, x: int, y: int, width: int, height: int) -> bool:
        """Note that an area was drawn at `at` (seconds). Whether all of it has been drawn again and again."""
        repeated = True
        for column in range(x // CELL, (x + width - 1) // CELL + 1):
            for row in range(y // CELL, (y + height - 1) // CELL + 1):
                times = self._seen.setdefault((column, row), [])
                if not times or at - times[-1] > 0.03:
                    times.append(at)
                while at - times[0] > self._window:
                    times.pop(0)
                repeated = repeated and self._repeats(times)
        return repeated

    def areas(self) -> list[list[int]]:
        """Left and top of the cells that are drawn again and again."""
        return sorted([column * CELL, row * CELL] for (column, row), times in self._seen.items() if self._repeats(times))

    def _repeats(self, times: list[float]) -> bool:
        return len(times) >= self._times and times[-1] - times[0] >= self._span


class Watch:
    """Listens to what is drawn, from its making until it is closed: make it before the action, `settle` after."""

    def __init__(self, display_name: str, wanted: Wanted) -> None:
        self._wanted = wanted
        self._display: Any = Display(display_name)
        self._repeaters = Repeaters()
        self._start = self._drawn = now()
        self._display.damage_query_version()
        self._display.screen().root.damage_create(damage.DamageReportRawRectangles)
        self._display.sync()
        # a new damage object first reports the whole screen
        select.select([self._display.fileno()], [], [], 0.05)
        while self._display.pending_events():
            self._display.next_event()

    def settle(self) -> Settled:
        """Wait until nothing has been drawn for `quiet` seconds from now on and no program of a window is at work, or until the
        cap has passed.
        """
        wanted = self._wanted
        self._read()
        began = worked = self._drawn = now()
        work = Work(self._display)
        title = re.compile(wanted.title) if wanted.title else None
        matched, looked = title is None, 0.0
        while True:
            at = now()
            if title and not matched and at - looked >= TITLES_S:
                looked = at
                if any(title.search(window.title) for window in open_windows(self._display)):
                    matched, self._drawn = True, at
            if at - began < WORK_SHARE * wanted.cap and work.goes_on():
                worked = at
            quiet = matched and at - max(self._drawn, worked) >= wanted.quiet
            if quiet or at - began >= wanted.cap:
                break
            select.select([self._display.fileno()], [], [], POLL_S)
            self._read()
        titles = [window.title for window in open_windows(self._display)]
        told = matched if title else None
        return Settled(quiet, at - began, self._drawn - began, told, titles, self._repeaters.areas()[:8])

    def _read(self) -> None:
        """Take the reports that are there."""
        while self._display.pending_events():
            event = self._display.next_event()
            area = getattr(event, "area", None)
            if area is None:
                continue
            at = now()
            big = area.width * area.height > self._wanted.small
            if big and not self._repeaters.add(at, area.x, area.y, area.width, area.height):
                self._drawn = at

    def close(self) -> None:
        """Hang up."""
        with suppress(Exception):
            self._display.close()
