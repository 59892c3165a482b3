"""Are a window's place and its program's work read right, and is an area told from an empty one?"""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from legato_rl.workers.desktop.look import WORKING_NS, Box, Look, read_look
from legato_rl.workers.desktop.picture import POINTER, Frame

SIZE = (320, 240)
PLACE = """
xwininfo: Window id: {id} "stock.xlsx - LibreOffice Calc"

  Absolute upper-left X:  {left}
  Absolute upper-left Y:  {top}
  Relative upper-left X:  1
  Relative upper-left Y:  20
  Width: 800
  Height: 600
  Depth: 24
  Map State: {state}
  Override Redirect State: no
"""
LISTED = """0x00200008 -1 0      host tint2
0x00c00024  0 207    host stock.xlsx - LibreOffice Calc
0x00800003  0 522    host report
"""


def times(pid: int, *values: tuple[int, int]) -> str:
    """What a process' times were, one reading after the other."""
    return "".join(f"/proc/{pid}/schedstat:{ran} {waited} 7\n" for ran, waited in values)


def test_what_is_told() -> None:
    """Places of windows, and whose main thread wanted a processor, whether or not it got one."""
    ns = int(WORKING_NS)
    text = (
        LISTED
        + PLACE.format(id="0xc00024", left=0, top=-20, state="IsViewable")
        + PLACE.format(id="0x800003", left=5, top=5, state="IsUnMapped")
        + times(207, (ns, 5 * ns))
        + times(522, (9 * ns, 0))
        + times(207, (ns + 1, 6 * ns))
        + times(522, (9 * ns + ns // 2, 0))
        + times(900, (0, 0), (8 * ns, 0))
    )
    assert read_look(text) == Look({0xC00024: (0, -20, 800, 580), 0x800003: None}, frozenset({0xC00024}))
    assert read_look(text + "/proc/522/stat\n").working == {0xC00024, 0x800003}


def test_a_guest_that_lacks_the_tools() -> None:
    """It tells nothing, and nothing is made up."""
    assert read_look("") == Look({}, frozenset())
    assert read_look(LISTED + times(207, (1, 1))) == Look({}, frozenset())


@given(st.text())
def test_any_text(text: str) -> None:
    """Whatever a guest writes is read."""
    assert isinstance(read_look(text + PLACE.format(id="0x1", left=0, top=0, state=text)), Look)


def frame(image: Image.Image) -> Frame:
    """The picture of a screen."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return Frame(file.getvalue(), SIZE)


boxes = st.tuples(st.integers(-50, 200), st.integers(-50, 150), st.integers(64, 300), st.integers(64, 200)).map(
    lambda place: (place[0], place[1], place[0] + place[2], place[1] + place[3])
)
colours = st.tuples(*[st.integers(0, 255)] * 3)


def screen(box: Box, ground: tuple[int, ...]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A busy screen with an area of one colour."""
    image = Image.effect_noise(SIZE, 90).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=ground)  # type: ignore[arg-type]
    return image, draw


@settings(max_examples=25, deadline=None)
@given(boxes, colours, st.integers(0, 319), st.integers(0, 239))
def test_an_area_with_a_pointer_only_is_empty(box: Box, ground: tuple[int, ...], x: int, y: int) -> None:
    """Whatever is around it; wherever the pointer is; whatever the colour, and wherever the window lies."""
    image, draw = screen(box, ground)
    inside = (max(box[0], x), max(box[1], y))
    ink = tuple(255 - value if abs(255 - 2 * value) > 40 else 0 for value in ground)
    draw.polygon([inside, (inside[0] + 12, inside[1] + 12), (inside[0], inside[1] + 19)], fill=ink)  # type: ignore[arg-type]
    assert frame(image).empty(box)


@settings(max_examples=25, deadline=None)
@given(boxes, colours)
def test_an_area_with_a_line_of_text_is_not_empty(box: Box, ground: tuple[int, ...]) -> None:
    """A prompt of a few letters is enough."""
    image, draw = screen(box, ground)
    left, top = max(box[0], 0), max(box[1], 0)
    ink = 255 if sum(ground) < 384 else 0
    for letter in range(0, POINTER + 8, 8):
        draw.rectangle((left + letter, top + 2, left + letter + 4, top + 10), fill=(ink, ink, ink))
    seen = (min(box[2], SIZE[0]) - left, min(box[3], SIZE[1]) - top)
    assert frame(image).empty(box) is not (seen[0] > POINTER and seen[1] > 2)


def test_an_area_that_is_not_on_the_screen() -> None:
    """Nobody can tell what is on it."""
    assert not frame(Image.new("RGB", SIZE)).empty((400, 0, 500, 100))
