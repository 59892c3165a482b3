"""How does the fake screen look? Pixels from the state, drawn with Pillow on a cached background."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont, ImageOps

from legato_rl.fake import layout
from legato_rl.fake.form import Form
from legato_rl.fake.layout import OPTIONS, RECTS, Control, Place, Rect
from legato_rl.fake.strip import COLOURS, WORDS, Signs, block_edge

Colour = tuple[int, int, int]

SKY, GROUND = (42, 78, 110), (128, 172, 176)
PANEL, INK, PAPER, EDGE = (24, 30, 40), (36, 42, 52), (244, 245, 247), (168, 176, 188)
TITLE, WHITE, FADED = (58, 68, 86), (255, 255, 255), (112, 122, 136)
ACCENT, ACCENT_SOFT, HOVER = (32, 112, 184), (206, 226, 244), (230, 236, 244)
STATUS = (FADED, (30, 132, 84), (176, 92, 24), FADED)
"""The status line's colours: open, accepted, rejected, cancelled."""
ARROW = ((0, 0), (0, 14), (4, 10), (7, 16), (9, 15), (7, 9), (11, 9))
"""The pointer's outline in units."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True)
class Scene:
    """What there is to draw beside the form itself."""

    pointer: tuple[int, int]
    hovered: Control | None
    actions: int
    """Actions so far; the clock on the panel counts them."""


@lru_cache(maxsize=8)
def font(pixels: int) -> Font:
    """The typeface at this height."""
    return ImageFont.load_default(pixels)


@lru_cache(maxsize=4)
def background(size: tuple[int, int], photo_kb: int = 0) -> Image.Image:
    """Wallpaper, panel and icons. Shared: copy it before drawing on it."""
    width, height = size
    image = ImageOps.colorize(Image.linear_gradient("L").resize(size), SKY, GROUND)
    draw = ImageDraw.Draw(image)
    hill = height // 3
    draw.ellipse((-width // 4, height - hill, width * 2 // 3, height + 2 * hill), fill=(70, 122, 118))
    draw.ellipse((width // 3, height - hill * 2 // 3, width * 5 // 4, height + 2 * hill), fill=(56, 104, 108))
    scale = layout.scale_of(size)
    if photo_kb:
        _photo(image, photo_kb, below=layout.PANEL_HEIGHT * scale)
    draw.rectangle((0, 0, width, layout.PANEL_HEIGHT * scale - 1), fill=PANEL)
    _text(draw, (8, 10), "Activities", 10, WHITE, scale, "lm")
    if width >= 560 * scale:
        for nth, name in enumerate(("Home", "Files", "Trash")):
            _icon(draw, 14, 34 + nth * 52, name, scale)
    return image


def draw_screen(size: tuple[int, int], photo_kb: int, form: Form | None, place: Place | None, scene: Scene) -> bytes:
    """The screen as PNG bytes (RGB, compression level 1: the fastest that compresses)."""
    image = background(size, photo_kb).copy()
    draw = ImageDraw.Draw(image)
    scale = layout.scale_of(size)
    clock = f"{9 + scene.actions // 60 % 15:02d}:{scene.actions % 60:02d}"
    _text(draw, (size[0] / scale - 8, layout.PANEL_HEIGHT / 2), clock, 10, WHITE, scale, "rm")
    if form is not None and place is not None:
        image.paste(draw_window(form, scene, place.scale), (place.x, place.y))
    tip = scene.pointer
    draw.polygon([(tip[0] + x * scale, tip[1] + y * scale) for x, y in ARROW], fill=WHITE, outline=(0, 0, 0))
    if form is not None and place is not None:
        _marks(draw, place, form.signs())
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def draw_window(form: Form, scene: Scene, scale: int) -> Image.Image:
    """The window alone, less the marks that go on top of everything."""
    request = form.request
    image = Image.new("RGB", (layout.WINDOW[0] * scale, layout.WINDOW[1] * scale), PAPER)
    draw = ImageDraw.Draw(image)
    draw.rectangle(layout.TITLE_BAR.scaled(scale).box, fill=TITLE)
    _text(draw, (26, 11), "Request form", 11, WHITE, scale, "lm")
    for ends in ((281, 7, 288, 14), (281, 14, 288, 7)):
        draw.line([end * scale for end in ends], fill=WHITE, width=scale)
    _text(draw, (8, 31), f"Choose {request.label} and type “{WORDS[request.word]}”,", 11, INK, scale, "lm")
    _text(draw, (8, 44), "then press Confirm.", 11, INK, scale, "lm")
    for nth, control in enumerate(OPTIONS):
        _option(draw, form, scene, nth, control, scale)
    _text(draw, (8, 97), "Word", 11, INK, scale, "lm")
    _field(draw, form, scene, scale)
    _button(draw, "confirm", "Confirm", form, scene, scale)
    _button(draw, "cancel", "Cancel", form, scene, scale)
    draw.line((0, 148 * scale, 300 * scale, 148 * scale), fill=EDGE, width=scale)
    _text(draw, (8, 161), form.status, 10, STATUS[form.signs().submitted], scale, "lm")
    _text(draw, (292, 161), f"{scene.actions} actions", 10, FADED, scale, "rm")
    draw.rectangle((0, 0, image.width - 1, image.height - 1), outline=TITLE, width=scale)
    return image


def _option(draw: ImageDraw.ImageDraw, form: Form, scene: Scene, nth: int, control: Control, scale: int) -> None:
    chosen = form.selected == nth
    _box(draw, control, ACCENT_SOFT if chosen else _face(control, scene), form, scale)
    left, middle = RECTS[control].left + 12, RECTS[control].centre[1]
    ring = [(left - 4.5) * scale, (middle - 4.5) * scale, (left + 4) * scale, (middle + 4) * scale]
    draw.ellipse(ring, fill=WHITE, outline=ACCENT if chosen else FADED, width=scale)
    if chosen:
        draw.ellipse([ring[0] + 2 * scale, ring[1] + 2 * scale, ring[2] - 2 * scale, ring[3] - 2 * scale], fill=ACCENT)
    _text(draw, (left + 9, middle), form.request.options[nth], 11, INK, scale, "lm")


def _field(draw: ImageDraw.ImageDraw, form: Form, scene: Scene, scale: int) -> None:
    rect = RECTS["field"]
    _box(draw, "field", WHITE, form, scale)
    typeface = font(11 * scale)
    shown, caret = form.text, form.caret
    while shown and typeface.getlength(shown) > (rect.right - rect.left - 12) * scale:
        shown, caret = shown[1:], max(0, caret - 1)
    left, middle = (rect.left + 5) * scale, rect.centre[1] * scale
    if form.marked:
        width = typeface.getlength(shown)
        draw.rectangle((left, middle - 7 * scale, left + width, middle + 7 * scale), fill=ACCENT_SOFT)
    draw.text((left, middle), shown, fill=INK, font=typeface, anchor="lm")
    if form.focus == "field":
        x = left + typeface.getlength(shown[:caret])
        draw.line((x, middle - 7 * scale, x, middle + 6 * scale), fill=ACCENT, width=scale)


def _button(draw: ImageDraw.ImageDraw, control: Control, label: str, form: Form, scene: Scene, scale: int) -> None:
    main = control == "confirm"
    face = (ACCENT if control != scene.hovered else TITLE) if main else _face(control, scene)
    _box(draw, control, face, form, scale)
    _text(draw, RECTS[control].centre, label, 11, WHITE if main else INK, scale, "mm")


def _face(control: Control, scene: Scene) -> Colour:
    return HOVER if control == scene.hovered else WHITE


def _box(draw: ImageDraw.ImageDraw, control: Control, fill: Colour, form: Form, scale: int) -> None:
    focused = form.focus == control
    draw.rounded_rectangle(
        RECTS[control].scaled(scale).box, radius=3 * scale, fill=fill, outline=ACCENT if focused else EDGE,
        width=2 * scale if focused else scale,
    )  # fmt: skip


def _marks(draw: ImageDraw.ImageDraw, place: Place, signs: Signs) -> None:
    """The anchor's squares and the strip, above even the pointer, so that every screen can be read."""
    colours = [layout.MARKER, *(COLOURS[digit] for digit in signs.blocks()), layout.MARKER]
    for nth, colour in enumerate(colours):
        cell = (block_edge(nth) * place.scale, block_edge(nth + 1) * place.scale)
        x, y = place.x, place.y + layout.STRIP.top * place.scale
        bottom = place.y + layout.STRIP.bottom * place.scale - 1
        draw.rectangle((x + round(cell[0]), y, x + round(cell[1]) - 1, bottom), fill=colour)
    icon = layout.ICON.scaled(place.scale)
    moved = Rect(icon.left + place.x, icon.top + place.y, icon.right + place.x, icon.bottom + place.y)
    draw.rectangle(moved.box, fill=layout.MARKER)


def _icon(draw: ImageDraw.ImageDraw, x: int, y: int, name: str, scale: int) -> None:
    draw.rounded_rectangle(Rect(x, y, x + 28, y + 22).scaled(scale).box, radius=3 * scale, fill=(226, 190, 104))
    draw.rectangle(Rect(x, y + 5, x + 28, y + 8).scaled(scale).box, fill=(206, 166, 80))
    _text(draw, (x + 14, y + 31), name, 9, WHITE, scale, "mm")


def _photo(image: Image.Image, photo_kb: int, below: int) -> None:
    """Noise that does not compress, as a photograph would not, in colours that are never the marker's."""
    width, height = image.size
    rows = min(height - below, photo_kb * 1024 // (width * 3) + 1)
    planes = [random.Random(plane).randbytes(width * rows) for plane in range(3)]
    planes[1] = planes[1].translate(bytes(range(128, 256)) * 2)
    bands = [Image.frombytes("L", (width, rows), plane) for plane in planes]
    image.paste(Image.merge("RGB", bands), (0, height - rows))


def _text(
    draw: ImageDraw.ImageDraw, at: tuple[float, float], text: str, height: int, fill: Colour, scale: int, anchor: str
) -> None:
    """Text at a point given in units."""
    draw.text((at[0] * scale, at[1] * scale), text, fill=fill, font=font(height * scale), anchor=anchor)
