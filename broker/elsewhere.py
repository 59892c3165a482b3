"""Which try should begin on another desktop than the one before it? PURE: failures in; whether a desktop may take a try, out.

A desktop that is broken in a way that no self-check sees would take all tries of an attempt. So a try that comes after one
that failed on the desktop waits for another desktop, and is nobody's in particular when there is no other, or it waited
long enough. A broker that restarts knows nothing of it: that costs a preference, and no try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from legato_rl.records import RolloutKey

ELSEWHERE_S = 60.0
"""Seconds that a try waits for another desktop: the others may be busy for much longer, and this one would stand idle."""


@dataclass
class Elsewhere:
    """The tries that wait, each with the desktop that it avoids and since when."""

    avoided: dict[RolloutKey, tuple[str, float]] = field(default_factory=dict)

    def failed(self, key: RolloutKey, desktop: str, now: float) -> None:
        """The try `key` failed on `desktop`, and another one of its attempt comes."""
        self.avoided[key.next_try()] = desktop, now

    def may_take(self, desktop: str, key: RolloutKey, others: Callable[[], bool], now: float) -> bool:
        """Whether `desktop` may begin the try `key`. `others`: whether another desktop works, asked where it matters."""
        avoided, since = self.avoided.get(key, ("", now))
        return avoided != desktop or now - since >= ELSEWHERE_S or not others()

    def taken(self, key: RolloutKey) -> None:
        """The try `key` is begun."""
        self.avoided.pop(key, None)

    def forget(self, run: str) -> None:
        """A run is over, or begins anew."""
        self.avoided = {key: value for key, value in self.avoided.items() if key.run != run}
