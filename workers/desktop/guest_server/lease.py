"""Does anybody still want this desktop? A lease that is renewed, or the guest server ends, and its container with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .clock import now

FOREVER = 0.0
"""Seconds of no lease at all."""


class Lease:
    """The right to go on. `end` is called once, in a thread of this lease's, when nobody renewed in time."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self._end = end
        self._changed = threading.Condition()
        self._until = 0.0
        self.renew(seconds)
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def renew(self, seconds: float) -> None:
        """Go on for `seconds` from now; 0 is for ever. ValueError where it is no length of time."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds is {seconds}: a lease is 0 (for ever) or more")
        with self._changed:
            self._until = now() + seconds if seconds else float("inf")
            self._changed.notify()

    def left(self) -> float | None:
        """Seconds that are left; None for ever."""
        with self._changed:
            return None if self._until == float("inf") else max(self._until - now(), 0.0)

    def _watch(self) -> None:
        with self._changed:
            while (left := self._until - now()) > 0:
                self._changed.wait(None if left == float("inf") else left)
        self._end()
