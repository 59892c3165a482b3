"""Do two pictures of the screen show the same? What counts as a picture, and what as a change."""

from __future__ import annotations

import io

from PIL import Image, ImageChops

from legato_rl.desktop import DesktopFailure

NOISE_PIXELS = 900
"""Pixels that may differ between two equal pictures: a blinking caret and a clock's digit, wherever they are."""
NOISE_DEPTH = 8
"""Difference of a channel, of 255, below which a pixel counts as equal."""
SQUARE = 64
"""Pixels of the side of a square in which changes are counted."""
BLANK_SHARE = 0.995
"""Share of one colour above which a picture counts as not drawn yet."""

POINTER = 32
"""Pixels of the side of the square in which a pointer, or a caret alone, is seen."""


class Frame:
    """A whole PNG of `size` pixels. DesktopFailure, type `screenshot`, where the bytes are none."""

    def __init__(self, png: bytes, size: tuple[int, int]) -> None:
        try:
            with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
                found = image.size
                image.verify()  # every chunk's checksum
            with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
                self.image = image.convert("RGB")  # decodes: a torn picture ends here
        except Exception as error:
            raise DesktopFailure("screenshot", f"the guest gave {len(png)} bytes that are no whole PNG: {error}") from None
        if found != tuple(size):
            raise DesktopFailure("screenshot", f"the screen is {found[0]}x{found[1]}: it must be {size[0]}x{size[1]}")
        self.png = png

    def changed_squares(self, other: Frame) -> set[tuple[int, int]]:
        """The squares (column, row) in which the two differ; none where all that differs is a caret or a clock's digit."""
        if self.png == other.png:
            return set()
        most = _difference(self.image, other.image)
        if sum(most.histogram()[NOISE_DEPTH:]) <= NOISE_PIXELS:
            return set()
        mask = _deep(most)
        left, top, right, bottom = mask.getbbox() or (0, 0, 0, 0)
        corners = (
            (x, y) for x in range(left // SQUARE, -(-right // SQUARE)) for y in range(top // SQUARE, -(-bottom // SQUARE))
        )
        return {(x, y) for x, y in corners if mask.crop((x * SQUARE, y * SQUARE, (x + 1) * SQUARE, (y + 1) * SQUARE)).getbbox()}

    def blank(self) -> bool:
        """Whether nearly all of it is one colour, as before a desktop is drawn."""
        small = self.image.resize((192, 108), Image.Resampling.NEAREST)
        counts = small.getcolors(192 * 108) or []
        return max((count for count, _ in counts), default=0) >= BLANK_SHARE * 192 * 108

    def empty(self, box: tuple[int, int, int, int]) -> bool:
        """Whether the area (left, top, right, bottom; what is beyond the screen does not count) shows one colour, but for
        something as small as a pointer. An area that is not on the screen at all is not empty: nobody can tell.
        """
        left, top, right, bottom = max(box[0], 0), max(box[1], 0), min(box[2], self.image.width), min(box[3], self.image.height)
        if left >= right or top >= bottom:
            return False
        area = self.image.crop((left, top, right, bottom))
        counts = area.resize((64, 64), Image.Resampling.NEAREST).getcolors(64 * 64) or []
        ground = Image.new("RGB", area.size, max(counts)[1])
        seen = _deep(_difference(area, ground)).getbbox()
        return seen is None or max(seen[2] - seen[0], seen[3] - seen[1]) <= POINTER


def _difference(one: Image.Image, other: Image.Image) -> Image.Image:
    """By pixel, the difference of the channel that differs most."""
    red, green, blue = ImageChops.difference(one, other).split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue)


def _deep(difference: Image.Image) -> Image.Image:
    """White where a difference counts, else black."""
    return difference.point([0] * NOISE_DEPTH + [255] * (256 - NOISE_DEPTH))
