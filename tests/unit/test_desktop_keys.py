"""What is sent to the guest for an action, and does it type what was meant?"""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.workers.desktop.keys import PREFIX, guest_code


class Recorder:
    """A pyautogui that notes what it would type."""

    def __init__(self) -> None:
        self.typed = ""
        self.calls: list[str] = []

    def typewrite(self, message: str, interval: float = 0.0) -> None:
        # what pyautogui has no key for it drops, and < comes out as >
        self.typed += "".join(">" if letter == "<" else letter for letter in message if ord(letter) < 127)

    write = typewrite

    def hotkey(self, *keys: str) -> None:
        self.typed += "<" if keys == ("shift", ",") else ""
        self.calls.append("+".join(keys))

    def press(self, key: str) -> None:
        self.typed += ">" if key == "<" else ""
        self.calls.append(key)


def typed(action: str) -> str:
    """What comes out of an action."""
    recorder = Recorder()
    tree = ast.parse(guest_code(action).removeprefix(PREFIX))
    body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    lend = lambda text: setattr(recorder, "typed", recorder.typed + text)  # noqa: E731
    exec(compile(ast.Module(body, []), "<action>", "exec"), {"pyautogui": recorder, "_legato_type": lend})
    return recorder.typed


@pytest.mark.parametrize("action", ["pyautogui.click(1, 2)", "pyautogui.typewrite('plain > text')", "x = '<'", "print('<é>')"])
def test_what_is_sent_to_the_letter(action: str) -> None:
    """Nothing in it is typed wrong."""
    assert guest_code(action) == PREFIX + action


@pytest.mark.parametrize("action", ["pyautogui.typewrite('it's')", "def", "pyautogui.press(", "\0"])
def test_code_that_is_no_python(action: str) -> None:
    """The guest's Python says so; that is a result."""
    assert guest_code(action) == PREFIX + action


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("pyautogui.typewrite('a<b')", "a<b"),
        ("pyautogui.write('<<<é<', interval=0.1)", "<<<é<"),
        ("pyautogui.press('<')", "<"),
        ("pyautogui.typewrite('x'); pyautogui.typewrite('€')", "x€"),
        ("if True:\n    pyautogui.typewrite('<')", "<"),
        (r"pyautogui.typewrite('back\\slash < \u00e9')", "back\\slash < é"),
    ],
)
def test_text_comes_out_as_it_was_meant(action: str, text: str) -> None:
    """Backslashes and quotes included."""
    assert typed(action) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text(text: str) -> None:
    """Whatever it holds."""
    assert typed(f"pyautogui.typewrite({text!r})") == text
