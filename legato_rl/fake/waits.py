"""How long does the fake desktop take, and when does it fail? Functions of a key, so that a simulator agrees. PURE.

Every draw is hashed from (seed, group, attempt, try, what, how many before it): it does not depend on which desktop
runs the rollout, nor on what else was drawn.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Literal

from legato_rl.canonical import canonical_json
from legato_rl.config import FakeConfig

WaitKind = Literal["boot", "reset", "settle", "act", "eval"]
"""The waits of a rollout, in order: reset, settle, (act, settle) per action but DONE and FAIL, settle, eval."""

Fault = Literal[
    "fail_boot", "fail_reset", "fail_observe", "fail_act", "fail_evaluate", "bug_evaluate", "hang", "crash"
]  # fmt: skip
"""What can go wrong: the rates' names in FakeConfig."""


def uniforms(*key: str | int) -> tuple[float, float]:
    """Two independent numbers in [0, 1), the same for the same key."""
    digest = hashlib.sha256(canonical_json(key)).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53, (int.from_bytes(digest[8:16], "big") >> 11) / 2**53


def long_tailed(mean: float, sigma: float, *key: str | int) -> float:
    """A draw of `mean` seconds times a log-normal factor of mean 1 and this sigma; `mean` itself where sigma is 0."""
    if sigma == 0:
        return mean
    u, v = uniforms(*key)
    normal = math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
    return mean * math.exp(sigma * normal - sigma * sigma / 2.0)


class Waits:
    """The waits and failures of one rollout, in the order in which each kind is asked for.

    A simulator that builds it with the same arguments, and asks in the same order per kind, sees the same seconds.
    """

    def __init__(self, config: FakeConfig, seed: int, group_id: str, attempt: int, try_: int) -> None:
        self._config = config
        self._key = (seed, group_id, attempt, try_)
        self._drawn: Counter[str] = Counter()

    def next(self, kind: WaitKind) -> float:
        """Seconds of the next wait of this kind."""
        return long_tailed(getattr(self._config, f"{kind}_s"), self._config.tail, *self._count(kind))

    def strikes(self, fault: Fault) -> bool:
        """Whether the next chance for this fault is one."""
        rate: float = getattr(self._config, fault)
        return uniforms(*self._count(fault))[0] < rate

    def _count(self, what: str) -> tuple[str | int, ...]:
        nth = self._drawn[what]
        self._drawn[what] += 1
        return (*self._key, what, nth)
