"""Is the fake server's prefix cache a longest-prefix cache with a budget?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato_rl.fake.prefix_cache import PrefixCache

BLOCK = 4
sequences = st.lists(st.lists(st.integers(0, 1), max_size=24), max_size=20)


def common(one: list[int], other: list[int]) -> int:
    """Length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(sequences)
def test_unbounded_cache_agrees_with_the_definition(prompts: list[list[int]]) -> None:
    """The longest common prefix with anything seen, in whole blocks, one token always left to compute."""
    cache = PrefixCache(10_000, BLOCK)
    seen: list[list[int]] = []
    for prompt in prompts:
        longest = max((common(prompt, other) // BLOCK for other in seen), default=0)
        assert cache.lookup(prompt) == min(longest, max(0, len(prompt) - 1) // BLOCK) * BLOCK
        cache.insert(prompt)
        seen.append(prompt)
    assert cache.queries == sum(map(len, prompts))


@given(sequences, st.integers(0, 40))
def test_bounded_cache_keeps_the_newest(prompts: list[list[int]], budget: int) -> None:
    """It never holds more than its budget, never claims what was not seen, and has what came last."""
    cache = PrefixCache(budget, BLOCK)
    seen: list[list[int]] = []
    for prompt in prompts:
        longest = max((common(prompt, other) for other in seen), default=0)
        assert cache.lookup(prompt) <= longest
        cache.insert(prompt)
        seen.append(prompt)
        assert len(cache) <= budget
        assert cache.lookup([*prompt, 9]) == min(len(prompt), budget) // BLOCK * BLOCK


def test_a_used_prefix_outlives_an_unused_one() -> None:
    """The least recently used leaf goes first, and a shared root goes last."""
    cache = PrefixCache(3 * BLOCK, BLOCK)
    root, left, right = [0] * BLOCK, [1] * BLOCK, [2] * BLOCK
    cache.insert(root + left)
    cache.insert(root + right)
    cache.lookup([*root, *left, 9])
    cache.insert([3] * BLOCK)
    assert cache.lookup([*root, *left, 9]) == 2 * BLOCK
    assert cache.lookup([*root, *right, 9]) == BLOCK
