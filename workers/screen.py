"""Is that a screenshot? A check that costs little, before anything trusts the bytes. PURE."""

from __future__ import annotations

import io
import math
from typing import Any

from PIL import Image

from legato_rl.desktop import DesktopFailure


def check_screen(png: object, size: tuple[int, int]) -> bytes:
    """`png` itself. DesktopFailure, type `screenshot`, where it is no whole PNG of `size` (width, height in pixels)."""
    if not isinstance(png, bytes):
        raise DesktopFailure("screenshot", f"observe returned a {type(png).__name__}: it must return PNG bytes")
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            found = image.size
            image.verify()
    except Exception as error:
        raise DesktopFailure("screenshot", f"observe returned {len(png)} bytes that are no whole PNG: {error}") from None
    if found != tuple(size):
        raise DesktopFailure("screenshot", f"the screen is {found[0]}x{found[1]}: it must be {size[0]}x{size[1]}")
    return png


class BadVerdict(Exception):
    """An evaluator returned what is no reward."""


def check_verdict(verdict: Any) -> float:
    """The evaluator's answer as a reward. BadVerdict unless it is a finite number in [0, 1]; a bool is a number."""
    if not isinstance(verdict, int | float):
        raise BadVerdict(f"evaluate returned {verdict!r}: it must return a number from 0 to 1")
    reward = float(verdict)
    if not math.isfinite(reward) or not 0.0 <= reward <= 1.0:
        raise BadVerdict(f"evaluate returned {reward}: it must be from 0 to 1")
    return reward
