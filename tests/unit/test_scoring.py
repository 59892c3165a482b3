"""Are advantages GRPO's, to the digit, and 0 where a group carries no signal?"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.scoring import FLAT, advantages, is_flat

rewards_of_a_group = st.lists(st.floats(0, 1), max_size=32)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 0, 0, 0], [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]),
        ([1, 1, 1, 0], [*[1 / math.sqrt(3)] * 3, -math.sqrt(3)]),
        ([1, 0], [1, -1]),
        ([0.25, 0.75], [-1, 1]),
    ],
)
def test_known_groups(rewards: list[float], expected: list[float]) -> None:
    """Population standard deviation: a lone success of four stands 1.73 out, not 1.5."""
    assert advantages(rewards) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rewards", [[], [1.0], [0.0], [0.5] * 8, [0.3, 0.3 + FLAT / 2]])
def test_flat_groups_have_no_advantage(rewards: list[float]) -> None:
    """No rows, a lone survivor, and equal rewards carry no signal."""
    assert is_flat(rewards)
    assert advantages(rewards) == [0.0] * len(rewards)


@given(rewards_of_a_group)
def test_mean_is_0_and_std_is_1(rewards: list[float]) -> None:
    """Over every group that is not flat; a flat one is all zeros. Nothing is ever NaN."""
    scores = advantages(rewards)
    assert len(scores) == len(rewards)
    if is_flat(rewards):
        assert not any(scores)
    else:
        # The rewards' spread is at least 1e-9 of their size, which costs as many digits.
        assert math.fsum(scores) / len(scores) == pytest.approx(0, abs=1e-6)
        assert math.fsum(score**2 for score in scores) / len(scores) == pytest.approx(1, rel=1e-6)


@given(rewards_of_a_group)
def test_order_is_kept(rewards: list[float]) -> None:
    """A higher reward never has a lower advantage."""
    pairs = sorted(zip(rewards, advantages(rewards), strict=True))
    assert all(low[1] <= high[1] for low, high in pairwise(pairs))
