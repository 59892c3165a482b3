"""Which screenshots are still shown? Old ones fold into a line of text, a block at a time.

Between two folds a prompt only grows at its end, and a server's prefix cache holds. The rule is OSWorld's QwenAgent's.
"""

from __future__ import annotations


def folded_turns(turns: int, folded: int, image_max: int, fold_size: int) -> int:
    """How many of the first turns show no screenshot, at turn number `turns` (from 1), given the last answer `folded`.

    Blocks of `fold_size` are folded until at most `image_max` screenshots are left. The answer never goes back, and the
    newest screenshot is always shown (so a block never exceeds what is there, however small `image_max` is).
    """
    while turns - folded > image_max:
        folded += fold_size
    return min(folded, turns - 1)
