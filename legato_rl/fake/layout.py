"""Where is what on the fake screen? Geometry shared by the one who draws it and the one who reads it. PURE.

The window is designed on a grid of 300 × 192 units and drawn at a whole number of pixels per unit. Three squares in a
colour that occurs nowhere else (the icon in its title bar and both ends of the strip at its foot) span a rectangle, the
*anchor*; whoever finds it in a picture, at whatever size, knows where every control is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from legato_rl.errors import ConfigError

Control = Literal["option0", "option1", "option2", "field", "confirm", "cancel"]
"""The window's controls, in tab order."""

CONTROLS: tuple[Control, ...] = get_args(Control)
OPTIONS: tuple[Control, ...] = CONTROLS[:3]

MIN_SCREEN = (320, 240)
"""The smallest screen, in pixels, that the window fits on."""

WINDOW = (300, 192)
"""Width and height of the window in units."""

PANEL_HEIGHT = 20
"""Units of the bar along the upper edge of the screen."""


def check_size(size: tuple[int, int]) -> None:
    """ConfigError for a screen that the window does not fit on."""
    if size[0] < MIN_SCREEN[0] or size[1] < MIN_SCREEN[1]:
        raise ConfigError(
            f"screen is '{size[0]}x{size[1]}': the fake desktop's window needs at least "
            f"{MIN_SCREEN[0]}x{MIN_SCREEN[1]}, so make it larger"
        )


@dataclass(frozen=True)
class Rect:
    """A rectangle from (left, top) up to, not including, (right, bottom)."""

    left: int
    top: int
    right: int
    bottom: int

    def holds(self, x: float, y: float) -> bool:
        """Whether the point lies inside."""
        return self.left <= x < self.right and self.top <= y < self.bottom

    def scaled(self, scale: int) -> Rect:
        """The same rectangle in pixels of `scale` a unit."""
        return Rect(self.left * scale, self.top * scale, self.right * scale, self.bottom * scale)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """As Pillow draws it: the last column and row included."""
        return self.left, self.top, self.right - 1, self.bottom - 1

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


RECTS: dict[Control, Rect] = {
    "option0": Rect(8, 56, 100, 78),
    "option1": Rect(104, 56, 196, 78),
    "option2": Rect(200, 56, 292, 78),
    "field": Rect(56, 87, 292, 107),
    "confirm": Rect(120, 118, 202, 140),
    "cancel": Rect(210, 118, 292, 140),
}
TITLE_BAR = Rect(0, 0, 300, 22)
ICON = Rect(6, 5, 18, 17)
STRIP = Rect(4, 176, 296, 186)
ANCHOR = Rect(STRIP.left, ICON.top, STRIP.right, STRIP.bottom)
"""The bounding box of everything in the marker colour."""

MARKER = (208, 0, 208)
"""The colour of the squares that span the anchor."""


@dataclass(frozen=True)
class Place:
    """Where the window stands: its upper left corner in pixels, and pixels per unit."""

    x: int
    y: int
    scale: int

    def units(self, x: float, y: float) -> tuple[float, float]:
        """A point of the screen in the window's units."""
        return (x - self.x) / self.scale, (y - self.y) / self.scale

    def control_at(self, x: float, y: float) -> Control | None:
        """The control under a point of the screen."""
        u, v = self.units(x, y)
        return next((control for control, rect in RECTS.items() if rect.holds(u, v)), None)


def scale_of(size: tuple[int, int]) -> int:
    """Pixels per unit on a screen of this size (width, height): about half of what would fit, and at least 1."""
    return max(1, round(0.55 * min(size[0] / MIN_SCREEN[0], size[1] / MIN_SCREEN[1])))


def place_window(size: tuple[int, int], across: float, down: float) -> Place:
    """The window's place on a screen, `across` and `down` (0 to 1) of the room that is left."""
    scale = scale_of(size)
    top = PANEL_HEIGHT * scale
    return Place(
        x=int(across * (size[0] - WINDOW[0] * scale)),
        y=top + int(down * (size[1] - top - WINDOW[1] * scale)),
        scale=scale,
    )


def in_anchor(x: float, y: float) -> tuple[float, float]:
    """A point of the window (units) as a share of the anchor's width and height."""
    return (x - ANCHOR.left) / (ANCHOR.right - ANCHOR.left), (y - ANCHOR.top) / (ANCHOR.bottom - ANCHOR.top)
