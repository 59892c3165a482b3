"""What does one `computer_use` call do? The table from its parameters to pyautogui lines, `WAIT`, `DONE` and `FAIL`.

The table is OSWorld's QwenAgent's. Values that make that agent raise, and text where a number is due, raise
UnreadableCall here; what it passes over (an unknown action, a key press without keys) gives no action.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Call = Mapping[str, Any]
"""A call's parameters by name: text, or what JSON in it decoded to."""

Coordinates = Literal["relative", "absolute"]

RELATIVE_MAX = 999
"""Relative coordinates run from 0 to this over the whole screen."""

FAILURE_STATUSES = frozenset({"fail", "failed", "failure", "error", "infeasible"})
DRAG_SECONDS = 0.5


class UnreadableCall(ValueError):
    """A call with a value that cannot be carried out; the message names it."""


@dataclass(frozen=True)
class Screen:
    """The sizes that coordinates are scaled between, each (width, height) in pixels."""

    original: tuple[int, int]
    processed: tuple[int, int]
    coordinates: Coordinates = "relative"

    def place(self, x: float, y: float) -> tuple[int, int]:
        """The model's point in pixels of the desktop, truncated. Not clamped: 999 lies one pixel off the screen."""
        span = (RELATIVE_MAX, RELATIVE_MAX) if self.coordinates == "relative" else self.processed
        return int(x * (self.original[0] / span[0])), int(y * (self.original[1] / span[1]))


def python_string(text: str) -> str:
    """`text` as a Python string literal. Lone surrogates, which models do emit, become escapes: UTF-8 has none."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")


def actions_of(call: Call, screen: Screen, *, infeasible: bool) -> list[str]:
    """The actions of one call, in order. `infeasible`: whether its response says that the task cannot be done.

    None for an action that is unknown or has nothing to do. UnreadableCall for a value of the wrong kind.
    """
    action = str(call.get("action"))
    if action in _POINTED:
        point = _point(call, screen)
        return [_POINTED[action].format(f"{point[0]}, {point[1]}" if point else "")]
    if action in _MOUSE_BUTTON:
        point = _point(call, screen)
        return [*([f"pyautogui.moveTo({point[0]}, {point[1]})"] if point else []), _MOUSE_BUTTON[action]]
    if action == "call_user":
        return ["FAIL" if infeasible else "DONE"]
    if action in _DRAWN:
        return _DRAWN[action](call, screen)
    if action in _PLAIN:
        return _PLAIN[action](call)
    return []


def _point(call: Call, screen: Screen) -> tuple[int, int] | None:
    """The call's point; None where there is no list of two, which means "where the cursor is"."""
    value = call.get("coordinate")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list) or len(value) < 2:
        return None
    if any(isinstance(number, str) for number in value[:2]):
        raise UnreadableCall(f"coordinate is {str(value[:2])[:80]}, which are no numbers")
    x, y = (_finite("coordinate", number) for number in value[:2])
    return screen.place(x, y)


def _finite(name: str, value: Any) -> float:
    """`value`, text or a number, as a float; UnreadableCall where it is none or not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UnreadableCall(f"{name} is {str(value)[:40]!r}, which is no number") from None
    if not math.isfinite(number):
        raise UnreadableCall(f"{name} is {number}, which is no finite number")
    return number


def _keys(call: Call) -> list[str]:
    """The call's keys in lower case: a list, or text in which `+` joins them."""
    value = call.get("keys")
    if isinstance(value, str) and value.startswith("["):
        value = value.split(",")  # a list in Python's spelling, which is no JSON
    parts = [part for item in (value if isinstance(value, list) else [value or ""]) for part in str(item).split("+")]
    keys = [part.strip(" \t\r\n[](){}\"'").lower() for part in parts]
    return [key for key in keys if key]


def _type(call: Call) -> list[str]:
    value = call.get("text")
    text = ("" if value is None else str(value)).replace("\r\n", "\n").replace("\r", "\n")
    if "\n" not in text:
        return [f"pyautogui.typewrite({python_string(text)})"]
    actions = []
    for number, line in enumerate(text.split("\n")):
        if number:
            actions.append('pyautogui.press("enter")')
        if line:
            actions.append(f"pyautogui.typewrite({python_string(line)})")
    return actions


def _key(call: Call) -> list[str]:
    keys = _keys(call)
    if not keys:
        return []
    return [f"pyautogui.{'hotkey' if len(keys) > 1 else 'press'}({', '.join(map(python_string, keys))})"]


def _terminate(call: Call) -> list[str]:
    status = str(call.get("status") or "success").strip().lower()
    return ["FAIL" if status in FAILURE_STATUSES else "DONE"]


def _move(call: Call, screen: Screen) -> list[str]:
    x, y = _point(call, screen) or (0, 0)
    return [f"pyautogui.moveTo({x}, {y})"]


def _drag(call: Call, screen: Screen) -> list[str]:
    point = _point(call, screen)
    if point is None:
        return ["pyautogui.dragTo(0, 0)"]
    duration = _finite("duration", call.get("duration", DRAG_SECONDS))
    return [f"pyautogui.dragTo({point[0]}, {point[1]}, duration={duration})"]


_POINTED = {
    "left_click": "pyautogui.click({})",
    "right_click": "pyautogui.rightClick({})",
    "middle_click": "pyautogui.middleClick({})",
    "double_click": "pyautogui.doubleClick({})",
    "triple_click": "pyautogui.tripleClick({})",
}
"""Clicks at the point, or without arguments where the cursor is."""

_MOUSE_BUTTON = {
    "left_mouse_down": "pyautogui.mouseDown(button='left')",
    "left_mouse_up": "pyautogui.mouseUp(button='left')",
}

_DRAWN: Mapping[str, Callable[[Call, Screen], list[str]]] = {"mouse_move": _move, "left_click_drag": _drag}

_PLAIN: Mapping[str, Callable[[Call], list[str]]] = {
    "type": _type,
    "key": _key,
    "key_down": lambda call: [f"pyautogui.keyDown({python_string(key)})" for key in _keys(call)],
    "key_up": lambda call: [f"pyautogui.keyUp({python_string(key)})" for key in _keys(call)],
    "scroll": lambda call: [f"pyautogui.scroll({int(_finite('pixels', call.get('pixels', 0)))})"],
    "hscroll": lambda call: [f"pyautogui.hscroll({int(_finite('pixels', call.get('pixels', 0)))})"],
    "wait": lambda call: ["WAIT"],
    "screenshot": lambda call: ["WAIT"],
    "terminate": _terminate,
}

ACTIONS = (*_POINTED, *_MOUSE_BUTTON, *_DRAWN, *_PLAIN, "call_user")
"""Every action there is, as the prompt lists them."""
