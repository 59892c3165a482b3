"""Which desktops may boot now? At most so many at once, in the order in which they asked. PURE.

Booting takes far more of a machine than working does: sixty-four VMs that start together start none in time. A revert is
a boot. A worker numbers its boots, so that a late grant is never taken for the next one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BootTokens:
    """The boots that go on and those that wait. `most` at once; None lets all."""

    most: int | None
    granted: dict[str, int] = field(default_factory=dict)
    """By worker, the number of the boot that it may do."""
    waiting: dict[str, int] = field(default_factory=dict)
    """The same for those that wait, the first to ask first."""

    def ask(self, worker: str, number: int) -> None:
        """`worker` waits for its boot `number`, or does it; 0 says that it does none. A repeat changes nothing."""
        if number == 0:
            self.release(worker)
        elif self.granted.get(worker) != number and self.waiting.get(worker) != number:
            self.release(worker)
            self.waiting[worker] = number
        self._grant()

    def release(self, worker: str) -> None:
        """`worker` is gone, or boots nothing any more."""
        self.granted.pop(worker, None)
        self.waiting.pop(worker, None)
        self._grant()

    def _grant(self) -> None:
        while self.waiting and (self.most is None or len(self.granted) < self.most):
            worker = next(iter(self.waiting))
            self.granted[worker] = self.waiting.pop(worker)
