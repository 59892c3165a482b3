"""What is sent to the guest for an action, and does it type what was meant?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.workers.desktop.keys import PREFIX, guest_code

SHIFT, COMMA, LESS_KEY, ASCII_KEYS, LOW, HIGH = 9, 10, 11, 32, 8, 255


class SlowX:
    """An X server, pyautogui on it as it is (its keys for ASCII, `<` that is `>`), and a program that is slow.

    The program looks pressed keys up only when it gets `PATIENCE` seconds, in the keyboard map of that moment.
    """

    PATIENCE = 0.3

    def __init__(self, spare: int) -> None:
        self.map: dict[int, list[int]] = {key: [1] * 4 for key in range(LOW, HIGH + 1)}
        for key in range(HIGH - spare + 1, HIGH + 1):
            self.map[key] = [0] * 4
        self.keys: dict[Any, int | None] = {chr(code): code for code in range(32, 127)}
        self.keys.update({"<": LESS_KEY, ",": COMMA, "shift": SHIFT})
        self.platform = SimpleNamespace(keyboardMapping=self.keys)
        self.waiting: list[int | str] = []
        self.typed, self.slept = "", 0.0
        self.at_exit: list[Callable[[], None]] = []

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        if seconds >= self.PATIENCE:
            self.look()

    def look(self) -> None:
        for key in self.waiting:
            symbol = self.map[key][0] if isinstance(key, int) else ord(key)
            self.typed += chr(symbol & 0xFFFFFF) if symbol else ""
        self.waiting = []

    def press(self, keys: Any, presses: int = 1) -> None:
        for key in [keys] if isinstance(keys, str) else keys:
            mapping = self.platform.keyboardMapping
            if key not in mapping or mapping[key] is None:
                continue
            code = mapping[key]
            if ord(key) < 127:
                # with shift: these keys as they are on the guest's layout
                self.waiting.append({"<": {COMMA: "<", LESS_KEY: ">"}.get(code, "?")}.get(key, key))
            else:
                self.waiting.append(code)

    def hotkey(self, *keys: Any) -> None:
        self.press(keys[0] if not isinstance(keys[0], str) else keys)

    def typewrite(self, message: Iterable[str], interval: float = 0.0) -> None:
        for letter in message:
            self.press(letter)

    write = typewrite

    # what the guest's code asks of python-xlib
    def Display(self, name: str) -> Any:
        return SimpleNamespace(
            display=SimpleNamespace(info=SimpleNamespace(min_keycode=LOW, max_keycode=HIGH)),
            get_keyboard_mapping=lambda low, count: [self.map[key] for key in range(low, low + count)],
            change_keyboard_mapping=lambda key, rows: self.map.update({key: rows[0]}),
            sync=lambda: None,
            close=lambda: None,
        )


def run(action: str, spare: int = 40) -> SlowX:
    """What comes of an action."""
    server = SlowX(spare)
    before = dict(server.map)
    pyautogui = SimpleNamespace(
        platformModule=server.platform,
        **{name: getattr(server, name) for name in ("press", "hotkey", "typewrite", "write")},
    )
    modules = {
        "pyautogui": pyautogui,
        "time": SimpleNamespace(sleep=server.sleep),
        "atexit": SimpleNamespace(register=server.at_exit.append),
        "Xlib": SimpleNamespace(),
        "Xlib.display": SimpleNamespace(Display=server.Display),
    }
    code = compile(guest_code(action), "<action>", "exec")
    with mock.patch.dict(sys.modules, modules), mock.patch.dict(os.environ, {"DISPLAY": ":0"}):
        exec(code, {"__name__": "__main__"})
        for last in server.at_exit:
            last()
    server.look()
    assert server.map == before
    return server


@pytest.mark.parametrize(
    "action",
    ["pyautogui.click(1, 2)", "pyautogui.typewrite('plain > text')", "x = '<'", "print('<é>')", "a < pyautogui.press('b')"],
)
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
        ("pyautogui.write(message='é<')", "é<"),
        ("pyautogui.write(['é', '<', 'a'])", "é<a"),
        ("pyautogui.press('<')", "<"),
        ("pyautogui.press(['<', 'é'])", "<é"),
        ("pyautogui.hotkey('é')", "é"),
        ("pyautogui.typewrite('x'); pyautogui.typewrite('€')", "x€"),
        ("if True:\n    pyautogui.typewrite('<')", "<"),
        ("text = 'ß<'\nfor letter in text:\n    pyautogui.press(letter)", "ß<"),
        ("x = 'é'\npyautogui.write(f'{x}ü<')", "éü<"),
        (r"pyautogui.typewrite('back\\slash < \u00e9')", "back\\slash < é"),
        (r"pyautogui.typewrite('\ud83d\ude00!')", "\U0001f600!"),
        ('pyautogui.typewrite("""é\nü""")', "éü"),
    ],
)
def test_text_comes_out_as_it_was_meant(action: str, text: str) -> None:
    """By each of pyautogui's ways, in a program that reads its keys late."""
    assert run(action).typed == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])), st.integers(1, 5))
def test_any_text(text: str, spare: int) -> None:
    """Whatever it holds, also where there are more letters than keys."""
    assert run(f"pyautogui.typewrite({text!r})", spare).typed == text


def test_no_key_to_spare() -> None:
    """Then the letter is dropped, as pyautogui does."""
    assert run("pyautogui.write('aéb')", 0).typed == "ab"


def test_a_letter_costs_nothing() -> None:
    """The waits are for the action, not for each letter."""
    short, long = (run(f"pyautogui.write({'äöüß' * count!r})") for count in (1, 500))
    assert short.slept == long.slept < 1.0
