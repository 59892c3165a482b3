"""What do pyautogui's functions do to mouse, keyboard and window? Each one as a method of the same signature.

PURE: time that a function would take (`duration`, `interval`, `time.sleep`) is added up in `seconds` for the caller to
let pass. What pyautogui ignores (an unknown key, a character that no key makes) is ignored; what it raises on, raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from legato_rl.fake.commands import Call, GuestError
from legato_rl.fake.form import Form
from legato_rl.fake.layout import Control, Place

MODIFIERS = {"ctrl": "ctrl", "ctrlleft": "ctrl", "ctrlright": "ctrl", "shift": "shift", "shiftleft": "shift"} | {
    "shiftright": "shift", "alt": "alt", "altleft": "alt", "altright": "alt", "win": "win", "winleft": "win"
}  # fmt: skip
ALIASES = {"return": "enter", "\n": "enter", "\r": "enter", "\t": "tab", "escape": "esc", "del": "delete", "space": " "}
MAX_REPEATS = 1000
"""Clicks or key presses of one call; more would outlast the guest's patience."""


class Hands:
    """Mouse and keyboard on a screen of `size` pixels, with the window `form` at `place` (or an empty desktop)."""

    def __init__(self, size: tuple[int, int], form: Form | None = None, place: Place | None = None) -> None:
        self.size = size
        self.form = form
        self.place = place
        self.at = (size[0] // 2, size[1] // 2)
        self.seconds = 0.0
        self._held: set[str] = set()
        self._down: tuple[Control | None, tuple[int, int]] | None = None

    def do(self, call: Call) -> None:
        """Perform one call. GuestError, worded as Python would, where there is no such function or argument."""
        table = TIME if call.module == "time" else PYAUTOGUI
        function = table.get(call.name)
        if function is None:
            raise GuestError(f"AttributeError: module {call.module!r} has no attribute {call.name!r}")
        try:
            inspect.signature(function).bind(self, *call.args, **call.kwargs)
        except TypeError as error:
            raise GuestError(f"TypeError: {call.name}() {error}") from None
        function(self, *call.args, **call.kwargs)

    def hovered(self) -> Control | None:
        """The control under the pointer."""
        return self.place.control_at(*self.at) if self.place else None

    def move_to(self, x: Any = None, y: Any = None, duration: Any = 0.0, tween: Any = None) -> None:
        self._spend(duration)
        if isinstance(x, list | tuple):
            if len(x) != 2 or y is not None:
                raise GuestError("ValueError: a position has two numbers")
            x, y = x
        across = self.at[0] if x is None else _pixel(x, self.size[0])
        down = self.at[1] if y is None else _pixel(y, self.size[1])
        self.at = (across, down)

    def move(self, x: Any = 0, y: Any = 0, duration: Any = 0.0, tween: Any = None) -> None:
        self.move_to(self.at[0] + _number(x or 0), self.at[1] + _number(y or 0), duration)

    def click(
        self, x: Any = None, y: Any = None, clicks: Any = 1, interval: Any = 0.0, button: Any = "primary",
        duration: Any = 0.0,
    ) -> None:  # fmt: skip
        self.move_to(x, y, duration)
        times = _repeats(clicks)
        self._spend(interval, times)
        if _button(button) == "left" and self.form and times:
            self.form.click(self.hovered(), times)

    def right_click(self, x: Any = None, y: Any = None, interval: Any = 0.0, duration: Any = 0.0) -> None:
        self.click(x, y, 1, interval, "right", duration)

    def middle_click(self, x: Any = None, y: Any = None, interval: Any = 0.0, duration: Any = 0.0) -> None:
        self.click(x, y, 1, interval, "middle", duration)

    def double_click(
        self, x: Any = None, y: Any = None, interval: Any = 0.0, button: Any = "left", duration: Any = 0.0
    ) -> None:
        self.click(x, y, 2, interval, button, duration)

    def triple_click(
        self, x: Any = None, y: Any = None, interval: Any = 0.0, button: Any = "left", duration: Any = 0.0
    ) -> None:
        self.click(x, y, 3, interval, button, duration)

    def mouse_down(self, x: Any = None, y: Any = None, button: Any = "primary", duration: Any = 0.0) -> None:
        self.move_to(x, y, duration)
        if _button(button) == "left":
            self._down = (self.hovered(), self.at)

    def mouse_up(self, x: Any = None, y: Any = None, button: Any = "primary", duration: Any = 0.0) -> None:
        self.move_to(x, y, duration)
        if _button(button) != "left" or self._down is None:
            return
        (control, start), self._down = self._down, None
        if self.form and control == self.hovered():
            dragged = abs(start[0] - self.at[0]) + abs(start[1] - self.at[1]) > 3
            self.form.click(control, 2 if dragged and control == "field" else 1)

    def drag_to(self, x: Any = None, y: Any = None, duration: Any = 0.0, tween: Any = None, button: Any = "primary") -> None:
        self.mouse_down(button=button)
        self.mouse_up(x, y, button, duration)

    def scroll(self, clicks: Any, x: Any = None, y: Any = None) -> None:
        _number(clicks)
        self.move_to(x, y)

    def typewrite(self, message: Any, interval: Any = 0.0) -> None:
        if not isinstance(message, str | list | tuple):
            raise GuestError(f"TypeError: {type(message).__name__!r} object is not iterable")
        self._spend(interval, len(message))
        for key in message:
            self._tap(key)

    def press(self, keys: Any, presses: Any = 1, interval: Any = 0.0) -> None:
        names = _names(keys)
        times = _repeats(presses)
        self._spend(interval, times)
        for _ in range(times):
            for name in names:
                self._tap(name)

    def hotkey(self, *keys: Any, interval: Any = 0.0) -> None:
        names = [name for key in keys for name in _names(key)]
        before = set(self._held)
        for name in names:
            self.key_down(name)
        self._held = before

    def key_down(self, key: Any) -> None:
        name = _key(key)
        if name in MODIFIERS:
            self._held.add(MODIFIERS[name])
        else:
            self._tap(key)

    def key_up(self, key: Any) -> None:
        self._held.discard(MODIFIERS.get(_key(key), ""))

    def sleep(self, secs: Any) -> None:
        if _number(secs) < 0:
            raise GuestError("ValueError: sleep length must be non-negative")
        self._spend(secs)

    def _tap(self, key: Any) -> None:
        name = _key(key)
        if self.form is None or name in MODIFIERS:
            return
        if len(name) == 1 and name.isascii() and name.isprintable() and not self._held - {"shift"}:
            character = key if len(key) == 1 else name
            self.form.type(character.upper() if "shift" in self._held else character)
        else:
            self.form.key(name, frozenset(self._held))

    def _spend(self, seconds: Any, times: int = 1) -> None:
        self.seconds += max(0.0, _number(seconds)) * times


def _number(value: Any) -> float:
    if isinstance(value, int | float) and abs(value) < 1e300:  # NaN fails the comparison
        return float(value)
    raise GuestError(f"TypeError: a finite number is required, not {value!r:.80}")


def _pixel(value: Any, bound: int) -> int:
    """A coordinate as the screen has it: whole, and no further than its edges."""
    return int(min(max(_number(value), 0.0), bound - 1.0))


def _repeats(value: Any) -> int:
    if not isinstance(value, int):
        raise GuestError(f"TypeError: {type(value).__name__!r} object cannot be interpreted as an integer")
    if value > MAX_REPEATS:
        raise GuestError("TimeoutExpired: the command timed out after 120 seconds")
    return max(0, value)


def _button(value: Any) -> str:
    if value in ("left", "primary", 1):
        return "left"
    if value in ("middle", "right", "secondary", 2, 3):
        return "other"
    raise GuestError(f"PyAutoGUIException: button argument not in ('left', 'middle', 'right'), got {value!r:.80}")


def _names(keys: Any) -> list[str]:
    if isinstance(keys, str):
        return [keys]
    if isinstance(keys, list | tuple) and all(isinstance(key, str) for key in keys):
        return list(keys)
    raise GuestError(f"TypeError: a key is a string, not {keys!r:.80}")


def _key(key: Any) -> str:
    """pyautogui's name of the key, in lower case."""
    if not isinstance(key, str):
        raise GuestError(f"AttributeError: {type(key).__name__!r} object has no attribute 'lower'")
    return ALIASES.get(key.lower(), key.lower())


PYAUTOGUI: dict[str, Callable[..., None]] = {
    "click": Hands.click, "leftClick": Hands.click, "rightClick": Hands.right_click, "middleClick": Hands.middle_click,
    "doubleClick": Hands.double_click, "tripleClick": Hands.triple_click, "moveTo": Hands.move_to, "move": Hands.move,
    "moveRel": Hands.move, "dragTo": Hands.drag_to, "mouseDown": Hands.mouse_down, "mouseUp": Hands.mouse_up,
    "scroll": Hands.scroll, "vscroll": Hands.scroll, "hscroll": Hands.scroll, "typewrite": Hands.typewrite,
    "write": Hands.typewrite, "press": Hands.press, "hotkey": Hands.hotkey, "keyDown": Hands.key_down,
    "keyUp": Hands.key_up, "sleep": Hands.sleep,
}  # fmt: skip
TIME: dict[str, Callable[..., None]] = {"sleep": Hands.sleep}
