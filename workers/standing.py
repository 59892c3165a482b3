"""Where does a worker stand? What its two threads tell each other, and the beat that says so. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from legato_rl.config import Phase
from legato_rl.records import RolloutKey, StopReason
from legato_rl.wire import Assignment, Beat, Holding


@dataclass
class Standing:
    """A worker's work, and the broker's last word on it. `deadline` is in seconds of a monotonic clock.

    `started` is when the process began, by the same clock. `assigned` is a try that was handed out and not begun; `dropped`
    the last one that this process, as it ends, let go of without a row.
    """

    started: float = 0.0
    phase: Phase = "booting"
    step: int = -1
    past_actions: bool = False
    deadline: float | None = None
    ready: bool = False
    holds: RolloutKey | None = None
    lease: int = 0
    stored: RolloutKey | None = None
    dropped: RolloutKey | None = None
    built: int = 0
    build_failures: int = 0
    message: str = ""
    assigned: Assignment | None = None
    stop: StopReason | None = None
    drop: bool = False
    rebuild: int = 0
    boots: int = 0
    boot_ask: int = 0
    may_boot: int = 0
    leave: bool = False
    park: bool | None = None
    quit: bool = False

    def give_back_unbegun(self) -> None:
        """Begin nothing any more; a try that was not begun goes back."""
        if self.assigned is not None:
            self.dropped, self.assigned = self.assigned.key, None
        self.ready = False

    def give_back(self) -> None:
        """Do nothing any more; what is held goes back, or else what was not begun."""
        self.give_back_unbegun()
        if self.holds is not None:
            self.dropped, self.holds = self.holds, None

    def beat(self, worker: str, boot: str) -> Beat:
        """What the broker is to know."""
        holds = None
        if self.holds is not None:
            holds = Holding(
                key=self.holds,
                lease=self.lease,
                phase=self.phase,
                step=max(self.step, 0),
                past_actions=self.past_actions,
            )
        return Beat(
            worker=worker,
            boot=boot,
            ready=self.ready and self.assigned is None,
            phase=self.phase,
            holds=holds,
            stored=self.stored,
            built=self.built,
            build_failures=self.build_failures,
            message=self.message,
            boot_ask=self.boot_ask,
            dropped=self.dropped,
            started=self.started,
        )
