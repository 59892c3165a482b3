"""How long has a try taken? Its timing record, and the rollout's own clock. PURE: time is given in."""

from __future__ import annotations

from dataclasses import dataclass, field

from legato_rl.records import Timing


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
