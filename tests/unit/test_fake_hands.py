"""Do pyautogui's functions do to the window what they do on a real desktop?"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.fake.commands import Call, GuestError
from legato_rl.fake.form import Form, request_of
from legato_rl.fake.hands import PYAUTOGUI, Hands
from legato_rl.fake.layout import RECTS, Control, Place

SIZE = (640, 400)
PLACE = Place(100, 50, 1)


def hands() -> Hands:
    """Hands on a window at a known place."""
    return Hands(SIZE, Form(request_of({"id": "t"}, None)), PLACE)


def do(on: Hands, *calls: tuple[Any, ...], **kwargs: Any) -> Form:
    """Perform pyautogui calls, each a name and its arguments."""
    for name, *args in calls:
        on.do(Call("pyautogui", name, tuple(args), kwargs))
    assert on.form is not None
    return on.form


def spot(control: Control) -> tuple[int, int]:
    """A pixel inside a control."""
    x, y = RECTS[control].centre
    return PLACE.x + int(x), PLACE.y + int(y)


def test_typing_goes_where_the_focus_is() -> None:
    """Nothing is typed without a focus; non-ASCII characters are dropped as pyautogui drops them."""
    on = hands()
    assert do(on, ("typewrite", "lost")).text == ""
    assert do(on, ("click", *spot("field")), ("typewrite", "näm e")).text == "nm e"


def test_keys_edit_the_field() -> None:
    """Backspace, delete, arrows, home, end, select-all by hotkey and by held key, shift."""
    on = hands()
    do(on, ("click", *spot("field")), ("typewrite", "maple"))
    assert do(on, ("press", "backspace"), ("press", "home"), ("press", "delete"), ("typewrite", "n")).text == "napl"
    assert do(on, ("press", ["left", "right", "end"]), ("typewrite", "!")).text == "napl!"
    assert do(on, ("hotkey", "ctrl", "a"), ("typewrite", "x")).text == "x"
    assert do(on, ("keyDown", "ctrl"), ("press", "a"), ("keyUp", "ctrl"), ("press", "delete")).text == ""
    assert do(on, ("hotkey", "shift", "b")).text == "B"


@pytest.mark.parametrize("call", [("tripleClick", *spot("field")), ("doubleClick", *spot("field"))])
def test_many_clicks_mark_the_text(call: tuple[Any, ...]) -> None:
    """What is typed then replaces it."""
    on = hands()
    assert do(on, ("click", *spot("field")), ("write", "old"), call, ("write", "new")).text == "new"


def test_dragging_over_the_field_marks_the_text() -> None:
    """A drag from one end to the other, and the same with button down and up."""
    left, right = spot("field"), (spot("field")[0] + 80, spot("field")[1])
    on = hands()
    do(on, ("click", *left), ("write", "old"), ("moveTo", *left), ("dragTo", *right, 0.5))
    assert on.seconds == 0.5
    assert do(on, ("write", "new")).text == "new"
    assert do(on, ("mouseDown", *left), ("mouseUp", *right), ("write", "last")).text == "last"


def test_only_the_left_button_chooses() -> None:
    """Right and middle clicks move the pointer and choose nothing; a press that ends elsewhere does not either."""
    on = hands()
    form = do(on, ("rightClick", *spot("option1")), ("middleClick", *spot("option1")), ("scroll", -5))
    assert (form.selected, on.at) == (None, spot("option1"))
    assert do(on, ("mouseDown", *spot("option1")), ("mouseUp", *spot("option2"))).selected is None
    assert do(on, ("click", *spot("option1"))).selected == 1


def test_the_keyboard_alone_is_enough() -> None:
    """Tab walks the controls, space and enter press them, shift+tab walks back, escape cancels."""
    on = hands()
    form = do(on, ("press", "tab", 2), ("press", "space"), ("press", "tab", 2), ("write", "w"), ("press", "enter"))
    assert (form.selected, form.text, form.submitted) == (1, "w", (1, "w"))
    assert do(on, ("hotkey", "shift", "tab")).focus == "option2"
    assert do(on, ("press", "esc")).cancelled


def test_positions_end_at_the_screen() -> None:
    """Coordinates are cut to whole pixels and clamped; a pair is a position; moves are relative."""
    on = hands()
    do(on, ("moveTo", 1e9, -5))
    assert on.at == (639, 0)
    do(on, ("moveTo", (10.9, 20)), ("move", -3, 5))
    assert on.at == (7, 25)


@pytest.mark.parametrize(
    ("name", "args", "error"),
    [
        ("clack", (), "AttributeError"),
        ("__init__", (), "AttributeError"),
        ("click", (1, 2, 3, 4, 5, 6, 7, 8), "TypeError"),
        ("click", ("a", 2), "TypeError"),
        ("click", (float("inf"), 2), "TypeError"),
        ("click", (10**400, 2), "TypeError"),
        ("click", (1, 2, 10**9), "TimeoutExpired"),
        ("click", (1, 2, 1, 0, "thumb"), "PyAutoGUIException"),
        ("moveTo", ((1, 2, 3),), "ValueError"),
        ("press", (5,), "TypeError"),
        ("typewrite", (5,), "TypeError"),
        ("keyDown", (None,), "AttributeError"),
        ("scroll", ("up",), "TypeError"),
        ("scroll", (), "TypeError"),
    ],
)
def test_wrong_calls_are_the_guests_errors(name: str, args: tuple[Any, ...], error: str) -> None:
    """A function that does not exist, or that would raise, ends in Python's words."""
    with pytest.raises(GuestError, match=rf"\A{error}"):
        hands().do(Call("pyautogui", name, args))


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["ctrl", "a", "enter"]),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)


@given(
    st.sampled_from(sorted(PYAUTOGUI)),
    st.lists(literals, max_size=4),
    st.dictionaries(st.sampled_from(["x", "button", "interval"]), literals),
)
def test_every_call_has_an_answer(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Any literals to any function: done, or a guest's error; the pointer stays on the screen."""
    on = hands()
    with suppress(GuestError):
        on.do(Call("pyautogui", name, tuple(args), kwargs))
    assert 0 <= on.at[0] < SIZE[0]
    assert 0 <= on.at[1] < SIZE[1]
    assert on.seconds >= 0
