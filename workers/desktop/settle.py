"""When has the screen settled? By looking, on a guest that has no signal of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from legato_rl.clock import Clock
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.picture import Frame

ANIMATED = 4
"""Times that a square of the screen changes in one wait before it counts as an animation, which never settles."""

SPARING = 150
"""Pictures of this boot above which there is one look in place of many: each leaves a connection open on OSWorld's server."""
SPARING_S = 2.0
"""Seconds after which that look is taken."""


@dataclass(frozen=True)
class Settled:
    """How a wait ended: whether nothing changed any more, after how many seconds, and the last picture if one was taken."""

    ready: bool
    seconds: float
    frame: Frame | None


def settle_by_looking(guest: Guest, size: tuple[int, int], clock: Clock, quiet_s: float, cap_s: float) -> Settled:
    """Take pictures `quiet_s` apart until two are the same, at most `cap_s` seconds. DesktopFailure from the guest.

    A guest that has given SPARING pictures is given SPARING_S seconds, and looked at once: what it shows counts as settled.
    """
    start = clock.monotonic()
    if guest.screenshots > SPARING:
        clock.sleep(min(SPARING_S, cap_s))
        frame = guest.screenshot(size)
        return Settled(True, clock.monotonic() - start, frame)
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
