"""Can whoever sees the fake screen read it back, at every size, in every state, and find its controls?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_play import resized
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from legato_rl.fake.form import Form, request_of
from legato_rl.fake.layout import CONTROLS, Control, place_window
from legato_rl.fake.screen import Scene, background, draw_screen
from legato_rl.fake.sight import look
from legato_rl.fake.strip import WORDS, Signs

sizes = st.tuples(st.integers(320, 1000), st.integers(240, 700))
steps = st.lists(st.sampled_from([*CONTROLS, "mark", "word", "x", "backspace", "tab"]), max_size=8)


def form_after(task_id: str, done: list[str], infeasible: bool = False) -> Form:
    """A window that these clicks and keys have gone into."""
    form = Form(request_of({"id": task_id, "evaluator": {"func": "infeasible" if infeasible else "f"}}, None))
    for step in done:
        if step in CONTROLS:
            form.click(next(control for control in CONTROLS if control == step))
        elif step == "mark":
            form.click("field", 3)
        elif step == "word":
            for character in WORDS[form.request.word]:
                form.type(character)
        elif step == "x":
            form.type("x")
        else:
            form.key(step)
    return form


def check(size: tuple[int, int], form: Form, pointer: tuple[float, float], photo_kb: int = 0) -> None:
    """The screen, as the agent sends it, says what the form says, and every control is where it seems to be."""
    place = place_window(size, form.request.across, form.request.down)
    at = (int(pointer[0] * size[0]), int(pointer[1] * size[1]))
    png = draw_screen(size, photo_kb, form, place, Scene(at, place.control_at(*at), 3))
    picture = resized(png)
    sight = look(picture)
    assert sight is not None
    assert sight.signs == form.signs()
    for control in CONTROLS:
        spot = [int(round(share * 999) * side / 999) for share, side in zip(sight.locate(control), size, strict=True)]
        assert place.control_at(*spot) == control


shares = st.floats(0, 1, exclude_max=True)


@settings(max_examples=60, deadline=None)
@given(sizes, st.text(max_size=5), steps, st.booleans(), st.tuples(shares, shares))
def test_the_screen_reads_back(
    size: tuple[int, int], task: str, done: list[str], infeasible: bool, pointer: tuple[float, float]
) -> None:
    """Any size, task, state and pointer, after the agent's resize."""
    check(size, form_after(task, done, infeasible), pointer)


@pytest.mark.parametrize("size", [(320, 240), (1920, 1080), (5120, 2880), (320, 2400), (6000, 240)])
@pytest.mark.parametrize("photo_kb", [0, 600])
def test_extreme_sizes_read_back(size: tuple[int, int], photo_kb: int) -> None:
    """The smallest, the usual, one that is scaled down, a tower and a ribbon; with a heavy wallpaper too."""
    check(size, form_after("t", ["option1", "field", "word"]), (0.5, 0.5), photo_kb)


@pytest.mark.parametrize("control", CONTROLS)
def test_each_step_shows(control: Control) -> None:
    """Every click changes the picture, for people as for the strip."""
    before, after = form_after("t", []), form_after("t", [control])
    place, scene = place_window((640, 400), 0.5, 0.5), Scene((0, 0), None, 0)
    assert draw_screen((640, 400), 0, before, place, scene) != draw_screen((640, 400), 0, after, place, scene)


def test_a_photo_has_the_weight_asked_for() -> None:
    """`photo_kb` makes a screenshot about so much heavier."""
    form, place = form_after("t", []), place_window((1920, 1080), 0, 0)
    scene = Scene((0, 0), None, 0)
    plain, heavy = (len(draw_screen((1920, 1080), kb, form, place, scene)) for kb in (0, 900))
    assert heavy - plain == pytest.approx(900 * 1024, rel=0.15)


@pytest.mark.parametrize(
    "picture",
    [
        Image.new("RGB", (64, 64)),
        Image.new("RGB", (64, 64), (255, 0, 255)),
        Image.new("L", (320, 240), 200),
        Image.new("RGBA", (1, 1)),
        background((640, 400)),
    ],
)
def test_no_window_is_seen_where_there_is_none(picture: Image.Image) -> None:
    """Plain pictures, also in the marker's colour, and the desktop before its task."""
    assert look(picture) is None


signs = st.builds(
    Signs, st.integers(0, 3), st.integers(0, 63), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 2),
    st.integers(0, 3),
)  # fmt: skip


@given(signs)
def test_signs_are_spelt_and_read(said: Signs) -> None:
    """Signs to blocks and back; none is lost."""
    assert Signs.from_blocks(said.blocks()) == said


@given(signs, st.integers(0, Signs.BLOCKS - 1), st.integers(1, 3))
def test_one_wrong_block_is_noticed(said: Signs, nth: int, by: int) -> None:
    """The checksum catches every single misread colour."""
    blocks = list(said.blocks())
    blocks[nth] = (blocks[nth] + by) % 4
    assert Signs.from_blocks(tuple(blocks)) is None


def test_a_window_fits_on_every_screen() -> None:
    """Its edges are on the screen, under the panel."""
    for size in [(320, 240), (321, 500), (1920, 1080), (8192, 8192), (8192, 240)]:
        for corner in (0.0, 1.0):
            place = place_window(size, corner, corner)
            assert 0 <= place.x <= size[0] - 300 * place.scale
            assert 20 * place.scale <= place.y <= size[1] - 192 * place.scale
    assert replace(place, x=0).units(place.scale, 0)[0] == 1.0
