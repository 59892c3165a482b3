"""Which fault is worth a line in the log? Of each kind the first, second, fourth, eighth …, so that a flood fills no disk.

PURE.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MOST_KINDS = 256
"""Kinds that are told apart; those beyond are counted as one."""


@dataclass
class Faults:
    """Faults by kind, as its owner names them."""

    counts: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str) -> int:
        """Count a fault; how many of its kind there are by now where that is to be said, else 0."""
        if kind not in self.counts and len(self.counts) >= MOST_KINDS:
            kind = "other"
        self.counts[kind] += 1
        count = self.counts[kind]
        return count if count & (count - 1) == 0 else 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()
