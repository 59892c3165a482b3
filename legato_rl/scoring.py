"""What is an attempt's advantage? GRPO's group arithmetic (Shao et al., DeepSeekMath, 2024, outcome supervision). PURE.

Design, section 4.6: (reward - mean) / std over the group's usable rows, with the population's standard deviation; 0
where rewards do not differ or only one row is there. Once per rollout, never over `surplus`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

FLAT = 1e-9
"""Rewards whose spread is at most this carry no signal."""


def is_flat(rewards: Sequence[float]) -> bool:
    """Whether a group's rewards carry no signal (all advantages are 0)."""
    return len(rewards) < 2 or max(rewards) - min(rewards) <= FLAT


def advantages(rewards: Sequence[float]) -> list[float]:
    """One advantage per reward, in order; all 0.0 for a flat group."""
    if is_flat(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    return [(reward - mean) / std for reward in rewards]
