"""What does an action string say? pyautogui statements as data, read with `ast`; nothing of them is ever executed.

A desktop's action is a short Python program: calls of pyautogui and time with literal arguments, one a line or
separated by `;`. A statement that is anything else is what a real guest would make of it: an error at its turn, after
the statements before it were done. PURE.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

MAX_ACTION = 131_072
"""Bytes that a guest accepts as one command (Linux: MAX_ARG_STRLEN)."""

_MODULES = frozenset({"pyautogui", "time"})
_SETTINGS = frozenset({"FAILSAFE", "PAUSE"})


class GuestError(Exception):
    """The guest's program ended with a non-zero exit code; the message is the last line of its stderr."""


@dataclass(frozen=True)
class Call:
    """One call: the module, the function's name, and its literal arguments."""

    module: str
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """A statement that raises when it is reached."""

    stderr: str


def statements(action: str) -> list[Call | Broken]:
    """The statements of an action, in order. GuestError where it is no Python at all, so that none of it runs."""
    if len(action.encode("utf-8", "surrogatepass")) >= MAX_ACTION:
        raise GuestError("OSError: [Errno 7] Argument list too long: 'python3'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(action)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise GuestError(f"SyntaxError: {getattr(error, 'msg', None) or error}") from None
    found: list[Call | Broken] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            missing = next((name.name for name in node.names if name.name not in _MODULES or name.asname), None)
            if missing is not None:
                found.append(Broken(f"ModuleNotFoundError: No module named {missing!r}"))
        elif not _is_setting(node):
            found.append(_call(node))
    return found


def _is_setting(node: ast.stmt) -> bool:
    """`pyautogui.FAILSAFE = False` and the like, which change nothing here."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Constant):
        return False
    target = node.targets[0]
    return isinstance(target, ast.Attribute) and target.attr in _SETTINGS and _name(target.value) == "pyautogui"


def _call(node: ast.stmt) -> Call | Broken:
    value = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(value, ast.Call):
        return Broken("RuntimeError: this desktop runs calls of pyautogui and time.sleep only")
    function = value.func
    if isinstance(function, ast.Name):
        return Broken(f"NameError: name {function.id!r} is not defined")
    if not isinstance(function, ast.Attribute):
        return Broken("TypeError: object is not callable")
    module = _name(function.value)
    if module is None or module not in _MODULES:
        return Broken(f"NameError: name {module or '?'!r} is not defined")
    try:
        args = tuple(ast.literal_eval(arg) for arg in value.args)
        kwargs = {word.arg: ast.literal_eval(word.value) for word in value.keywords if word.arg}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return Broken(f"NameError: {function.attr}() was given an argument that is no literal")
    if len(kwargs) != len(value.keywords):
        return Broken(f"TypeError: {function.attr}() argument after ** must be a mapping")
    return Call(module, function.attr, args, kwargs)


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None
