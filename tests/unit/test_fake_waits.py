"""Are the fake desktop's waits and faults functions of the rollout alone, with the mean and rate that were set?"""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.config import FakeConfig
from legato_rl.fake.waits import WaitKind, Waits, long_tailed

KINDS: tuple[WaitKind, ...] = ("boot", "reset", "settle", "act", "eval")
rollouts = st.tuples(st.integers(0, 2**63 - 1), st.text(max_size=8), st.integers(0, 99), st.integers(0, 9))


@given(rollouts, st.lists(st.sampled_from(KINDS), max_size=30), st.randoms())
def test_order_between_kinds_does_not_matter(rollout: tuple[int, str, int, int], asked: list[WaitKind], random: object) -> None:
    """The nth wait of a kind is the same whatever else was drawn before it."""
    config = FakeConfig(reset_s=3, act_s=1, settle_s=2, eval_s=4, boot_s=5, tail=1)
    mixed, sorted_ = Waits(config, *rollout), Waits(config, *rollout)
    drawn = [(kind, mixed.next(kind)) for kind in asked]
    assert sorted(drawn) == sorted((kind, sorted_.next(kind)) for kind in sorted(asked))


@given(rollouts, rollouts)
def test_rollouts_differ(one: tuple[int, str, int, int], other: tuple[int, str, int, int]) -> None:
    """Two rollouts have the same waits exactly when they are the same."""
    config = FakeConfig(act_s=1, tail=1)
    assert (Waits(config, *one).next("act") == Waits(config, *other).next("act")) == (one == other)


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_mean_is_as_set(sigma: float) -> None:
    """The long tail does not move the mean, and there is one."""
    waits = [long_tailed(2.0, sigma, "mean", n) for n in range(20_000)]
    assert fmean(waits) == pytest.approx(2.0, rel=0.04)
    assert max(waits) > 2.0 * (1 + 2 * sigma)


def test_no_tail_is_constant() -> None:
    """Without a tail every wait is the mean itself."""
    waits = Waits(FakeConfig(act_s=0.25), 1, "g", 0, 0)
    assert {waits.next("act") for _ in range(50)} == {0.25}


@pytest.mark.parametrize("rate", [0.0, 0.2, 1.0])
def test_faults_come_at_their_rate(rate: float) -> None:
    """0 is never, 1 is always, and in between it is about the share asked for."""
    config = FakeConfig(fail_act=rate)
    strikes = [Waits(config, 3, "g", attempt, 0).strikes("fail_act") for attempt in range(2000)]
    assert fmean(strikes) == pytest.approx(rate, abs=0.03)
