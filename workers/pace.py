"""How long has a try taken? Its timing record, the rollout's own clock, and a model call's. PURE: time is given in."""

from __future__ import annotations

from dataclasses import dataclass, field

from legato_rl.records import Timing
from legato_rl.wire import CallPending, CallReply


@dataclass
class Pace:
    """The seconds of one try. `limit` is `--rollout-timeout`.

    The rollout's own clock starts at the end of wait_after_reset and stands still while a model call is queued, the
    server is down or the run is paused (design 4.9).
    """

    limit: float | None
    spent: dict[str, float] = field(default_factory=dict)
    _rollout_start: float | None = None
    _standing: float = 0.0

    def add(self, part: str, seconds: float) -> None:
        """`seconds` went into `part`, a field of Timing."""
        self.spent[part] = self.spent.get(part, 0.0) + seconds

    def start_rollout(self, now: float) -> None:
        """wait_after_reset ended."""
        self._rollout_start = now

    def stand(self, seconds: float) -> None:
        """The rollout's clock stood still for `seconds`."""
        self._standing += seconds

    def left(self, now: float) -> float | None:
        """Seconds left of the rollout's own time, 0.0 at the least; None without a limit."""
        if self.limit is None or self._rollout_start is None:
            return None
        return max(0.0, self.limit - (now - self._rollout_start - self._standing))

    def over(self, now: float) -> bool:
        """Whether the rollout's time is used up."""
        left = self.left(now)
        return left is not None and left <= 0.0

    def timing(self, total_s: float) -> Timing:
        """The record."""
        return Timing(total_s=total_s, **self.spent)


@dataclass
class CallClock:
    """The seconds of one model call, over all the proxies that had it; the last one's own are in its reply.

    `began` is when it was first asked. What an earlier proxy told of it is known here alone.
    """

    began: float
    resampled: int = 0
    away_s: float = 0.0
    """Seconds before the present proxy took it in, less those that it ran in."""
    _asked: float = 0.0
    _taken: str = ""
    _ran_before: float = 0.0
    _running: float = 0.0

    def asked(self, now: float) -> None:
        """It is asked, or asked again."""
        self._asked = now

    def told(self, pending: CallPending) -> None:
        """A proxy has it."""
        if pending.taken != self._taken:
            self.resampled += self._taken != ""
            self._ran_before += self._running
            self.away_s = max(0.0, self._asked - self.began - self._ran_before)
            self._taken = pending.taken
        self._running = pending.running_s

    def left(self, deadline_s: float | None) -> float | None:
        """What a proxy that takes it in now may still run it, of `deadline_s` in all."""
        return None if deadline_s is None else max(0.0, deadline_s - self._ran_before - self._running)

    def of(self, told: CallReply, now: float) -> CallReply:
        """The last proxy's reply, with what the call took over all of them."""
        # That proxy may have taken in an earlier ask than the one that was last sent when it was first heard.
        before = now - self.began - told.model.queued_s - told.model.seconds
        away_s = max(0.0, min(self.away_s, before))
        use = {"queued_s": told.model.queued_s + away_s, "resampled": self.resampled}
        return told.model_copy(update={"model": told.model.model_copy(update=use), "stood_s": told.stood_s + away_s})
