"""What does the coloured strip at the window's foot say? Signs to blocks and back. PURE.

The window shows everything in words for people; the strip says the same in blocks of four colours, which survive a
resize, so that a policy without a character recogniser can read the screen from its pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from legato_rl.fake.layout import STRIP

COLOURS = ((52, 66, 92), (236, 184, 64), (64, 176, 120), (72, 148, 216))
"""The colours of the digits 0 to 3; no mixture of two comes near the marker colour."""

WORDS = (
    "acorn", "amber", "anchor", "apple", "arrow", "aspen", "badge", "baker", "basil", "beach", "birch", "bread",
    "brick", "brook", "cabin", "candle", "canoe", "cedar", "chalk", "cherry", "cider", "clover", "cobalt", "comet",
    "coral", "cotton", "daisy", "delta", "ember", "falcon", "fern", "flint", "garnet", "ginger", "harbor", "hazel",
    "indigo", "island", "ivory", "jasmine", "juniper", "kettle", "lantern", "lemon", "linen", "maple", "marble",
    "meadow", "nectar", "oasis", "olive", "onyx", "orchid", "pebble", "pepper", "pilot", "quartz", "raven",
    "saffron", "sierra", "tulip", "velvet", "walnut", "willow",
)  # fmt: skip
"""The 64 words that a window may ask for."""

NONE = 3
"""In place of an option: there is none."""

EMPTY, RIGHT, WRONG = 0, 1, 2
"""What the text field holds."""

OPEN, ACCEPTED, REJECTED, CANCELLED = 0, 1, 2, 3
"""What became of the window: nothing yet, confirmed as asked, confirmed otherwise, cancelled."""


@dataclass(frozen=True)
class Signs:
    """What a look at the window tells."""

    asked: int
    """The option asked for, 0 to 2, or NONE where the window has no such option."""
    word: int
    """Index into WORDS of the word asked for."""
    selected: int
    """The option chosen, or NONE."""
    focused: bool
    """The text field has the keyboard."""
    marked: bool
    """All of its text is marked: typing replaces it."""
    text: int
    """EMPTY, RIGHT or WRONG."""
    submitted: int
    """OPEN, ACCEPTED, REJECTED or CANCELLED."""

    BLOCKS: ClassVar[int] = 10
    """Blocks of the strip between its two markers."""

    def blocks(self) -> tuple[int, ...]:
        """The digits 0 to 3 of the strip, two of them a checksum."""
        word = (self.word >> 4, self.word >> 2 & 3, self.word & 3)
        digits = (self.asked, *word, self.selected, self.focused * 2 + self.marked, self.text, self.submitted)
        check = _check(digits)
        return (*digits, check >> 2, check & 3)

    @classmethod
    def from_blocks(cls, blocks: tuple[int, ...]) -> Signs | None:
        """The signs that these blocks spell; None where the checksum or a digit is wrong."""
        *digits, high, low = blocks
        if len(blocks) != cls.BLOCKS or _check(tuple(digits)) != high * 4 + low:
            return None
        asked, w2, w1, w0, selected, hand, text, submitted = digits
        if text > WRONG:
            return None
        return cls(asked, w2 * 16 + w1 * 4 + w0, selected, hand >= 2, hand % 2 == 1, text, submitted)


def _check(digits: tuple[int, ...]) -> int:
    return (7 + sum((2 * nth + 1) * digit for nth, digit in enumerate(digits))) % 16


def block_edge(nth: float) -> float:
    """The left edge, in units, of the strip's nth cell (0.5 further: its middle). 0 and BLOCKS + 1 are the markers."""
    return STRIP.left + nth * (STRIP.right - STRIP.left) / (Signs.BLOCKS + 2)


def nearest_digit(pixel: tuple[int, ...]) -> int:
    """The digit whose colour is closest to this pixel's."""
    return min(range(4), key=lambda digit: sum((a - b) ** 2 for a, b in zip(COLOURS[digit], pixel, strict=False)))
