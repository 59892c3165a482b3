"""What does the policy see of a screenshot? The same pixels that OSWorld's agent would send, as a data URL."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

from PIL import Image

from legato_rl.workers.agent.png import encode_png

FACTOR = 32
"""Pixels of one side of the square that the vision encoder turns into one token."""
MIN_PIXELS = 56 * 56
MAX_PIXELS = 16 * 16 * 4 * 12_800
MAX_LONG_SIDE = 8192
MAX_ASPECT = 200

_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
"""The last chunk of every PNG."""


@dataclass(frozen=True)
class ProcessedScreenshot:
    """A screenshot ready for a prompt. Sizes are (width, height) in pixels.

    `url` is the one str object for this image in every later prompt, so that looking it up in a dict hashes it once.
    """

    url: str
    original_size: tuple[int, int]
    processed_size: tuple[int, int]


def smart_resize(height: int, width: int) -> tuple[int, int]:
    """The (height, width) at which a screenshot is sent: multiples of 32, at most 13,107,200 pixels, aspect kept.

    Only too many pixels scale a screen down: 1080 × 1920 becomes 1088 × 1920. ValueError for a side below 1 and for an
    aspect ratio above 200. The rule is Qwen-VL's, with the bounds that OSWorld's agent passes to it.
    """
    if min(height, width) < 1:
        raise ValueError(f"a screenshot of {width} x {height} pixels is empty")
    if max(height, width) / min(height, width) > MAX_ASPECT:
        raise ValueError(f"a screenshot of {width} x {height} pixels is too narrow: the limit is {MAX_ASPECT} to 1")
    if max(height, width) > MAX_LONG_SIDE:
        shrink = max(height, width) / MAX_LONG_SIDE
        height, width = int(height / shrink), int(width / shrink)
    rounded = round(height / FACTOR) * FACTOR, round(width / FACTOR) * FACTOR
    pixels = rounded[0] * rounded[1]
    if pixels > MAX_PIXELS:
        shrink = math.sqrt(height * width / MAX_PIXELS)
        return math.floor(height / shrink / FACTOR) * FACTOR, math.floor(width / shrink / FACTOR) * FACTOR
    if pixels < MIN_PIXELS:
        grow = math.sqrt(MIN_PIXELS / (height * width))
        return math.ceil(height * grow / FACTOR) * FACTOR, math.ceil(width * grow / FACTOR) * FACTOR
    return rounded


def process_screenshot(png: bytes) -> ProcessedScreenshot:
    """Decode a screenshot, resize it with Pillow's default filter, encode it losslessly.

    An RGB PNG that has the right size already is passed on byte for byte. ValueError where `png` is no readable image,
    or one that `smart_resize` refuses.
    """
    try:
        image = Image.open(io.BytesIO(png))
        image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"the screenshot of {len(png)} bytes is no readable image: {error}") from error
    width, height = image.size
    new_height, new_width = smart_resize(height, width)
    size = new_width, new_height
    # Pillow decodes a PNG whose very end is missing; a server may not.
    whole = image.format == "PNG" and png.endswith(_PNG_END)
    as_it_is = whole and image.mode == "RGB" and size == image.size
    processed = png if as_it_is else encode_png(image.resize(size))
    url = "data:image/png;base64," + base64.b64encode(processed).decode("ascii")
    return ProcessedScreenshot(url, (width, height), size)
