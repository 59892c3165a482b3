"""How many screenshots does a prompt have room for? Estimates with Qwen-VL's tokens, in sentences for people. PURE."""

from __future__ import annotations

from dataclasses import dataclass

IMAGE_MAX = 20
"""Screenshots in a prompt, where nobody says otherwise: the default of --image-max."""
SCREEN_SIZE = (1920, 1080)
"""The default of --screen."""
TOKEN_SIDE = 32
"""Pixels of one side of the square that is one token."""
TEXT_TOKENS = 4_000
"""Tokens set aside for a prompt's text: the system prompt, about 1,000, and the answers of some 20 steps."""
MOST_TOKENS = 12_800
"""Tokens of the largest screenshot that the agent sends; a larger screen is scaled down to it."""


@dataclass(frozen=True)
class Wanted:
    """What a run will put into a prompt: screenshots at most, of a screen in pixels, and the answer's tokens."""

    image_max: int
    screen_size: tuple[int, int]
    max_tokens: int

    @property
    def screenshot_tokens(self) -> int:
        """Tokens of one screenshot: 2,040 at 1920 x 1080."""
        columns, rows = (round(side / TOKEN_SIDE) for side in self.screen_size)
        return min(columns * rows, MOST_TOKENS)

    @property
    def tokens(self) -> int:
        """Tokens of a prompt with all its screenshots, its text, and its answer."""
        return self.image_max * self.screenshot_tokens + TEXT_TOKENS + self.max_tokens

    def held_by(self, context: int) -> int:
        """Screenshots that a context of that many tokens holds beside text and answer."""
        return max(0, (context - TEXT_TOKENS - self.max_tokens) // self.screenshot_tokens)

    def needs(self) -> str:
        """What is wanted, in words."""
        width, height = self.screen_size
        plural = "" if self.image_max == 1 else "s"
        return (
            f"{self.image_max} screenshot{plural} of {width}x{height}, their text and an answer of {self.max_tokens:,} tokens "
            f"are about {self.tokens:,} tokens"
        )

    def context_remedy(self, context: int) -> str:
        """What to do about a context that is too short; empty where it is not."""
        if context >= self.tokens:
            return ""
        held = self.held_by(context)
        other = f"run with --image-max {held}" if held else "lower --screen or --max-tokens"
        return f"{self.needs()}: serve a longer context (vLLM: --max-model-len), or {other}"


def images_remedy(held: int) -> str:
    """What to do about a server that takes fewer images in a prompt than are wanted, but some."""
    return f"raise --limit-mm-per-prompt or run with --image-max {held}"
