"""What time does a test say it is? A clock that stands still until somebody sleeps."""

from __future__ import annotations


class DrivenClock:
    """A Clock on which a sleep returns at once and moves the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
