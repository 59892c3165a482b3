"""How is a guest acted on, and how does it say that its screen has settled? In two ways, by whose server it runs.

OSWorld's server starts a new Python for every action and has no signal. Ours keeps one prepared and listens to what the
X server draws, from before the action on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from legato_rl.clock import Clock
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import Guest, Ran, acted
from legato_rl.workers.desktop.settle import Settled, settle_by_looking

ACT_S = 120.0
"""Seconds that an action may take in the guest, as OSWorld's server has it."""
MARGIN_S = 15.0
"""Seconds that an answer may take beyond what was asked for."""
HEALTH = "/legato/health"
"""The route by which our server is known."""


@dataclass(frozen=True)
class Wait:
    """A wait for the screen: nothing drawn for `quiet_s` seconds, `cap_s` at most."""

    quiet_s: float
    cap_s: float


class Sense(Protocol):
    """One guest's ways."""

    def act(self, code: str, wait: Wait | None) -> tuple[Ran, float, Settled | None]:
        """Run `code` once, then wait for the screen: what came of it, its seconds alone, how the wait ended.

        Code that does not end is a result as well: the guest kills it after ACT_S, and the screen is not waited for.
        """

    def settle(self, wait: Wait) -> Settled:
        """Wait for the screen."""


class StockSense:
    """A guest that runs OSWorld's server."""

    def __init__(self, guest: Guest, size: tuple[int, int], clock: Clock) -> None:
        self._guest, self._size, self._clock = guest, size, clock

    def act(self, code: str, wait: Wait | None) -> tuple[Ran, float, Settled | None]:
        """As Sense.act."""
        start = self._clock.monotonic()
        answer = self._guest.execute(["python", "-c", code], ACT_S + MARGIN_S)
        seconds = self._clock.monotonic() - start
        if wait and not answer.ended:
            return answer, seconds, Settled(False, 0.0, None)
        return answer, seconds, self.settle(wait) if wait else None

    def settle(self, wait: Wait) -> Settled:
        """As Sense.settle."""
        return settle_by_looking(self._guest, self._size, self._clock, wait.quiet_s, wait.cap_s)


class OwnSense:
    """A guest that runs our server."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def act(self, code: str, wait: Wait | None) -> tuple[Ran, float, Settled | None]:
        """As Sense.act: one exchange for both."""
        asked: dict[str, object] = {"code": code, "timeout": ACT_S}
        if wait:
            asked["ready"] = {"quiet": wait.quiet_s, "cap": wait.cap_s}
        limit = ACT_S + MARGIN_S + (wait.cap_s if wait else 0.0)
        answer, said = acted(*self._guest.call("POST", "/legato/act", limit, asked))
        if not answer.ended:
            return answer, ACT_S, Settled(False, 0.0, None) if wait else None
        try:
            return answer, float(said["seconds"]), _settled(said["ready"]) if wait else None
        except (KeyError, TypeError, ValueError) as error:
            raise DesktopFailure("bad_body", f"/legato/act was answered {str(said)[:200]}: {error!r}") from None

    def settle(self, wait: Wait) -> Settled:
        """As Sense.settle."""
        said = self._guest.json("POST", "/legato/ready", wait.cap_s + MARGIN_S, {"quiet": wait.quiet_s, "cap": wait.cap_s})
        try:
            return _settled(said)
        except (KeyError, TypeError, ValueError) as error:
            raise DesktopFailure("bad_body", f"/legato/ready was answered {str(said)[:200]}: {error!r}") from None


def _settled(said: dict[str, object]) -> Settled:
    return Settled(said["ready"] is True, float(str(said["seconds"])), None)
