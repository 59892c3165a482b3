"""What time is it? The only module that reads a clock, so that everything else can be given one."""

from __future__ import annotations

import time
from datetime import date, datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """A source of time that a test can drive."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. For durations and deadlines."""

    def wall(self) -> float:
        """Seconds since the epoch. Only for people; may jump."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


def iso(wall: float) -> str:
    """`wall` (seconds since the epoch) as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(wall, tz=timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day(wall: float) -> str:
    """The local date of `wall` (seconds since the epoch) as an agent's prompt names it, `Monday, January 05, 2026`."""
    return date.fromtimestamp(wall).strftime("%A, %B %d, %Y")
