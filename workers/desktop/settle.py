"""When has the screen settled? By looking, on a guest that has no signal of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from legato_rl.clock import Clock
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.picture import Frame

ANIMATED = 4
"""Times that a square of the screen changes in one wait before it counts as an animation, which never settles."""


@dataclass(frozen=True)
class Settled:
    """How a wait ended: whether nothing changed any more, after how many seconds, and the last picture if one was taken."""

    ready: bool
    seconds: float
    frame: Frame | None


def settle_by_looking(guest: Guest, size: tuple[int, int], clock: Clock, quiet_s: float, cap_s: float) -> Settled:
    """Take pictures `quiet_s` apart until two are the same, at most `cap_s` seconds. DesktopFailure from the guest."""
    start = clock.monotonic()
    before = guest.screenshot(size)
    changes: Counter[tuple[int, int]] = Counter()
    while True:
        clock.sleep(quiet_s)
        frame = guest.screenshot(size)
        changed = before.changed_squares(frame)
        changes.update(changed)
        if not any(changes[square] < ANIMATED for square in changed):
            return Settled(True, clock.monotonic() - start, frame)
        if clock.monotonic() - start + quiet_s > cap_s:
            return Settled(False, clock.monotonic() - start, frame)
        before = frame
