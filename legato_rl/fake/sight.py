"""What does a picture of the fake screen show? The window's signs and controls, from pixels alone, at any size."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageChops

from legato_rl.fake.layout import ICON, RECTS, STRIP, Control, in_anchor
from legato_rl.fake.strip import Signs, block_edge, nearest_digit

_HIGH = bytes(255 if value > 150 else 0 for value in range(256))
_LOW = bytes(255 if value < 90 else 0 for value in range(256))
_MARKS = (ICON.centre, *((block_edge(nth + 0.5), STRIP.centre[1]) for nth in (0, Signs.BLOCKS + 1)))
"""Where, in units, the marker colour must be."""


@dataclass(frozen=True)
class Sight:
    """What was seen: the signs, and where the anchor is, in shares (0 to 1) of the picture's width and height."""

    signs: Signs
    left: float
    top: float
    width: float
    height: float

    def locate(self, control: Control) -> tuple[float, float]:
        """The middle of a control, in shares of the picture's width and height."""
        across, down = in_anchor(*RECTS[control].centre)
        return self.left + across * self.width, self.top + down * self.height


def look(image: Image.Image) -> Sight | None:
    """Find and read the window in a picture; None where there is none."""
    image = image.convert("RGB")
    red, green, blue = image.split()
    mask = ImageChops.darker(ImageChops.darker(red.point(_HIGH), blue.point(_HIGH)), green.point(_LOW))
    box = mask.getbbox()
    if box is None:
        return None
    left, top, right, bottom = box
    if not all(mask.getpixel(_spot(mask, box, *centre)) for centre in _MARKS):
        return None
    row = STRIP.centre[1]
    spots = [(block_edge(nth + 0.5), row) for nth in range(1, Signs.BLOCKS + 1)]
    pixels = [image.getpixel(_spot(image, box, *spot)) for spot in spots]
    signs = Signs.from_blocks(tuple(nearest_digit(pixel) for pixel in pixels if isinstance(pixel, tuple)))
    if signs is None:
        return None
    across, down = image.size
    return Sight(signs, left / across, top / down, (right - left) / across, (bottom - top) / down)


def _spot(image: Image.Image, box: tuple[int, int, int, int], x: float, y: float) -> tuple[int, int]:
    """The pixel of a point given in the window's units, where `box` is the anchor in the picture."""
    left, top, right, bottom = box
    across, down = in_anchor(x, y)
    pixel = int(left + across * (right - left)), int(top + down * (bottom - top))
    return min(pixel[0], image.width - 1), min(pixel[1], image.height - 1)
