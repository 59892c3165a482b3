"""Does a flood of faults leave few lines, and hide no other fault?"""

from __future__ import annotations

from legato_rl.faults import MOST_KINDS, Faults


def test_a_flood_is_said_a_few_times() -> None:
    """The first, second, fourth …: a hundred thousand are 17 lines, and another kind is said at once."""
    faults = Faults()
    said = [count for _ in range(100_000) if (count := faults.note("a"))]
    assert said == [2**power for power in range(17)]
    assert faults.note("b") == 1
    assert faults.total == 100_001


def test_kinds_without_end_are_kept_as_one() -> None:
    """Whoever makes up kinds takes no memory."""
    faults = Faults()
    for number in range(10 * MOST_KINDS):
        faults.note(str(number))
    assert len(faults.counts) == MOST_KINDS + 1
    assert faults.total == 10 * MOST_KINDS
