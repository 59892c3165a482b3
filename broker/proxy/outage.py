"""Is the model server there? PURE: what was seen and when, in; whether to admit, to probe, and to give up, out.

While the server is up, a probe is due only when calls are in the air and nothing came back for a while: a server that
dies can leave its connections open without a byte, and only `/health` tells. While it is down, probes come with a
growing pause. That pause, and the seconds counted towards giving up, go back to nothing only with a completion, so that
a server which passes its health check and still ends every call is not asked in a tight loop, and not for ever.

While the run is paused nothing counts towards giving up: trainers pause it to load weights, or to start the server anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LOOK_S = 5.0
"""Seconds without a sign of life, with calls in the air, after which `/health` is looked at."""
FIRST_PAUSE_S = 0.25
FULL_LEAST_S = 60.0
"""Seconds that a server may put every call off, however short `server_wait` is: a full queue is no outage."""
FULL_GAP_S = 120.0
"""Seconds without a call put off after which a full server's time counts anew."""
LONGEST_PAUSE_S = 5.0
"""Seconds between two probes of a server that is down: the first doubles up to the longest."""

Standing = Literal["up", "down", "paused"]


@dataclass
class Outage:
    """The server as seen so far. `server_wait` is the seconds that it may be down, summed since the last completion."""

    server_wait: float
    message: str = ""
    paused: bool = False
    outages: int = 0
    """How many times the server went down; an attempt that saw this number change spends no retry."""
    _full_since: float | None = None
    _full_at: float = 0.0
    _down_since: float | None = None
    _down_before: float = 0.0
    _pause: float = FIRST_PAUSE_S
    _probe_at: float = 0.0
    _sign_at: float = 0.0
    _probing: bool = False

    @property
    def down(self) -> bool:
        return self._down_since is not None

    @property
    def standing(self) -> Standing:
        """`paused` before `down`: what the server does during a pause is its trainer's affair."""
        if self.paused:
            return "paused"
        return "down" if self.down else "up"

    def pause(self, paused: bool, now: float) -> None:
        """The run is paused, or goes on."""
        if paused == self.paused:
            return
        self._down_before += self._down_now(now)
        self.paused, self._full_since = paused, None
        if self.down:
            self._down_since = now

    def down_s(self, now: float) -> float:
        """Seconds down since the last completion, those of a pause left out."""
        return self._down_before + self._down_now(now)

    def gave_up(self, now: float) -> bool:
        """Whether the server is down, or does nothing but put calls off, and was waited for long enough."""
        if self.paused:
            return False
        return self._full(now) or (self.down and self.down_s(now) >= self.server_wait)

    def _full(self, now: float) -> bool:
        """Whether it still puts every call off, after a long time of that. Of one that nobody asks nothing is known."""
        if self._full_since is None or now - self._full_at > FULL_GAP_S:
            return False
        return self._full_at - self._full_since >= max(self.server_wait, FULL_LEAST_S)

    def departure(self, now: float) -> None:
        """The first attempt left after a time with none in the air: silence counts from here."""
        self._sign_at = now

    def completion(self, now: float) -> None:
        """A call was answered. While the server is down that is a straggler and proves nothing of its health."""
        self._full_since = None
        if not self.down:
            self._down_before, self._pause = 0.0, FIRST_PAUSE_S
        self._sign_at = now

    def put_off(self, why: str, now: float) -> None:
        """A healthy server put a call off (a full queue, a rate limit)."""
        if self._full_since is None or now - self._full_at > FULL_GAP_S:
            self._full_since = now
        self._full_at = now
        if not self.down:
            self.message = why

    def lost(self, why: str, now: float) -> None:
        """The server refused, cut off or failed its health check."""
        self.message = why
        if self._down_since is None:
            self._down_since = now
            self.outages += 1
            self._probe_at = now + self._pause

    def probe_due(self, now: float, in_the_air: bool) -> bool:
        """Whether `/health` should be asked now; true once, until `probed` tells the result."""
        if self._probing or now < self._next_probe(in_the_air):
            return False
        self._probing = True
        return True

    def probed(self, healthy: bool, why: str, now: float) -> None:
        """The result of the probe that was due."""
        self._probing = False
        self._sign_at = now
        if healthy:
            if self._down_since is not None:
                self._down_before += self._down_now(now)
                self._grow()
            self._down_since, self.message = None, ""
        elif self.down:
            # What took the server down says more than that it is still not there.
            self._grow()
            self._probe_at = now + self._pause
        else:
            self.lost(why, now)

    def _down_now(self, now: float) -> float:
        """Seconds of the present outage that count."""
        return 0.0 if self._down_since is None or self.paused else now - self._down_since

    def _next_probe(self, in_the_air: bool) -> float:
        if self.down:
            return self._probe_at
        return self._sign_at + LOOK_S if in_the_air else float("inf")

    def _grow(self) -> None:
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
