"""What does a picture of the fake screen show? The window's signs and controls, from pixels alone, at any size."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageChops

from legato_rl.fake.layout import RECTS, STRIP, Control, in_anchor
from legato_rl.fake.strip import Signs, block_edge, nearest_digit

_HIGH = bytes(255 if value > 150 else 0 for value in range(256))
_LOW = bytes(255 if value < 90 else 0 for value in range(256))


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
    signs = _read(image, box)
    if signs is None:
        return None
    across, down = image.size
    return Sight(signs, left / across, top / down, (right - left) / across, (bottom - top) / down)


def _read(image: Image.Image, box: tuple[int, int, int, int]) -> Signs | None:
    left, top, right, bottom = box
    row = (STRIP.top + STRIP.bottom) / 2
    digits = []
    for nth in range(1, Signs.BLOCKS + 1):
        across, down = in_anchor((block_edge(nth) + block_edge(nth + 1)) / 2, row)
        x, y = left + across * (right - left), top + down * (bottom - top)
        pixel = image.getpixel((min(int(x), image.width - 1), min(int(y), image.height - 1)))
        digits.append(nearest_digit(pixel if isinstance(pixel, tuple) else (0, 0, 0)))
    return Signs.from_blocks(tuple(digits))
