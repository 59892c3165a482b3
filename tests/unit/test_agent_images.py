"""Does the policy see the pixels that OSWorld's agent would send?"""

from __future__ import annotations

import base64
import contextlib
import io

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from legato_rl.workers.agent.folding import folded_turns
from legato_rl.workers.agent.images import (
    FACTOR,
    MAX_LONG_SIDE,
    MAX_PIXELS,
    MIN_PIXELS,
    process_screenshot,
    smart_resize,
)
from legato_rl.workers.agent.png import encode_png


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """A picture in which every pixel differs from its neighbours."""
    size = width * height * len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, (width, height), bytes(i * 7 % 251 for i in range(size)))


def png(image: Image.Image) -> bytes:
    """The image as Pillow writes it."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def shown(url: str) -> bytes:
    """The PNG inside of a data URL."""
    kind, data = url.split(",", 1)
    assert kind == "data:image/png;base64"
    return base64.b64decode(data, validate=True)


@pytest.mark.parametrize(
    ("size", "resized"),
    [
        ((1080, 1920), (1088, 1920)),
        ((1088, 1920), (1088, 1920)),
        ((768, 1366), (768, 1376)),
        ((10, 1000), (32, 576)),
        ((1, 1), (64, 64)),
        ((4320, 7680), (2688, 4800)),
        ((100, 16384), (64, 8192)),
    ],
)
def test_known_sizes(size: tuple[int, int], resized: tuple[int, int]) -> None:
    """Heights and widths as the rule gives them, by hand."""
    assert smart_resize(*size) == resized


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_resized_screen_keeps_bounds_and_aspect(height: int, width: int) -> None:
    """Multiples of 32 within the pixel bounds, each side within one block of a common scale."""
    assume(max(height, width) / min(height, width) <= 200)
    new_height, new_width = smart_resize(height, width)
    assert new_height % FACTOR == new_width % FACTOR == 0
    assert MIN_PIXELS <= new_height * new_width <= MAX_PIXELS
    assert max(new_height, new_width) <= MAX_LONG_SIDE
    low, high = (
        max((new_height - FACTOR) / height, (new_width - FACTOR) / width),
        min((new_height + FACTOR) / height, (new_width + FACTOR) / width),
    )
    assert low < high


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_resizing_twice_changes_nothing_more(height: int, width: int) -> None:
    """A size that the rule gave, it leaves alone."""
    assume(max(height, width) / min(height, width) <= 200)
    once = smart_resize(height, width)
    assume(max(once) / min(once) <= 200)
    assert smart_resize(*once) == once


@pytest.mark.parametrize("size", [(1, 201), (201, 1), (0, 10)])
def test_a_sliver_is_refused(size: tuple[int, int]) -> None:
    """Aspect ratios above 200 and empty screens are errors that name the size."""
    with pytest.raises(ValueError, match=f"{size[1]} x {size[0]}"):
        smart_resize(*size)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_processing_gives_pillows_own_resize(mode: str) -> None:
    """The pixels are those of `Image.resize` with its default filter, in the mode of the screenshot."""
    original = picture(150, 90, mode)
    processed = process_screenshot(png(original))
    assert (processed.original_size, processed.processed_size) == ((150, 90), (160, 96))
    image = Image.open(io.BytesIO(shown(processed.url)))
    assert (image.mode, image.tobytes()) == (mode, original.resize((160, 96)).tobytes())


def test_a_screenshot_of_the_right_size_is_sent_as_it_is() -> None:
    """No new encoding: the same bytes."""
    data = png(picture(160, 96))
    assert shown(process_screenshot(data).url) == data


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["RGB", "RGBA", "L", "1"]), st.data())
def test_encoding_is_lossless(width: int, height: int, mode: str, data: st.DataObject) -> None:
    """Every pixel of every mode comes back."""
    size = len(Image.new(mode, (width, height)).tobytes())
    image = Image.frombytes(mode, (width, height), data.draw(st.binary(min_size=size, max_size=size)))
    again = Image.open(io.BytesIO(encode_png(image)))
    assert (again.mode, again.size, again.tobytes()) == (image.mode, image.size, image.tobytes())


SMALL = png(picture(64, 64))


@given(st.binary(max_size=40))
def test_what_is_no_image_is_a_value_error(data: bytes) -> None:
    """Garbage, with and without the head of a PNG, is refused in one way."""
    for garbage in (data, SMALL[:20] + data):
        with pytest.raises(ValueError, match="is no readable image"):
            process_screenshot(garbage)


@given(st.integers(0, len(SMALL) - 1))
def test_a_cut_off_image_is_a_value_error_or_made_whole(end: int) -> None:
    """Most ends are refused; where only the PNG's last bytes are missing, what is sent is a whole PNG again."""
    with contextlib.suppress(ValueError):
        data = shown(process_screenshot(SMALL[:end]).url)
        assert end > len(SMALL) - 24
        Image.open(io.BytesIO(data)).verify()


@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_damaged_image_is_a_value_error_or_an_image(at: int, flip: int) -> None:
    """One changed byte anywhere raises nothing else; where Pillow still decodes it, the result is whole."""
    damaged = bytearray(SMALL)
    damaged[at] ^= flip
    with contextlib.suppress(ValueError):
        processed = process_screenshot(bytes(damaged))
        assert Image.open(io.BytesIO(shown(processed.url))).size == processed.processed_size


def test_folding_at_20_and_10() -> None:
    """Turns 1–20 show all; at 21, 31, 41 … ten more fold, so that 11 to 20 are shown."""
    folded, at = 0, {}
    for turn in range(1, 52):
        folded = folded_turns(turn, folded, 20, 10)
        at[turn] = folded
    assert [at[t] for t in (1, 20, 21, 30, 31, 40, 41, 50, 51)] == [0, 0, 10, 10, 20, 20, 30, 30, 40]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 120))
def test_folding_never_goes_back_and_always_shows_the_newest(image_max: int, fold_size: int, turns: int) -> None:
    """At most `image_max` are shown, at least one, and a prompt changes only where a block folds."""
    folded = 0
    for turn in range(1, turns + 1):
        before, folded = folded, folded_turns(turn, folded, image_max, fold_size)
        assert folded >= before
        assert 1 <= turn - folded <= image_max
        if folded != before:
            assert turn - before > image_max
