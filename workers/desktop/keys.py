"""How is text typed so that the guest gets what was meant? Rewrites the two things that pyautogui types wrong. PURE.

`<` comes out as `>` on the layout of OSWorld's guests (its issue 257), so it is typed as shift and comma. What has no
key is dropped silently, so it gets one for a moment. All else is sent to the letter; code that is no Python is too.
"""

from __future__ import annotations

import ast
from itertools import groupby

PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False\n"
"""What OSWorld puts before each action."""
TYPING = ("typewrite", "write")

LEND_A_KEY = """\
def _legato_type(text):
    import os
    from Xlib import X
    from Xlib.display import Display
    from Xlib.ext import xtest
    display = Display(os.environ["DISPLAY"])
    low, high = display.display.info.min_keycode, display.display.info.max_keycode
    mapping = display.get_keyboard_mapping(low, high - low + 1)
    spare = next(low + i for i, symbols in reversed(list(enumerate(mapping))) if not any(symbols))
    try:
        for letter in text:
            symbol = ord(letter) if 0xA0 <= ord(letter) <= 0xFF else 0x01000000 + ord(letter)
            display.change_keyboard_mapping(spare, [[symbol] * 4])
            display.sync()
            time.sleep(0.1)
            xtest.fake_input(display, X.KeyPress, spare)
            xtest.fake_input(display, X.KeyRelease, spare)
            display.sync()
            time.sleep(0.1)
    finally:
        display.change_keyboard_mapping(spare, [[0] * 4])
        display.sync()
        display.close()
"""
"""Runs in the guest, with what pyautogui itself needs. Programs hear of the new key late, hence the waits."""


def guest_code(action: str) -> str:
    """The Python that does `action` (lines of pyautogui code) in the guest."""
    try:
        tree = ast.parse(action)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PREFIX + action
    rewriter = _Rewriter()
    tree = rewriter.visit(tree)
    if not rewriter.changed:
        return PREFIX + action
    helper = LEND_A_KEY if rewriter.lends else ""
    return PREFIX + helper + ast.unparse(ast.fix_missing_locations(tree))


class _Rewriter(ast.NodeTransformer):
    changed = False
    lends = False

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return node
        if not (isinstance(call.func.value, ast.Name) and call.func.value.id == "pyautogui"):
            return node
        first = call.args[0] if call.args else None
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
            return node
        text = first.value
        if call.func.attr == "press" and text == "<" and len(call.args) == 1 and not call.keywords:
            self.changed = True
            return [_less_than()]
        if call.func.attr not in TYPING or not any(map(_kind, text)):
            return node
        self.changed = True
        return [self._typed(call, kind, "".join(letters)) for kind, letters in groupby(text, key=_kind)]

    def _typed(self, call: ast.Call, kind: int, text: str) -> ast.stmt:
        if kind == 0:
            arguments: list[ast.expr] = [ast.Constant(text), *call.args[1:]]
            return ast.Expr(ast.Call(call.func, arguments, call.keywords))
        if kind == 1:
            return _less_than() if text == "<" else _many(len(text))
        self.lends = True
        return ast.Expr(ast.Call(ast.Name("_legato_type", ast.Load()), [ast.Constant(text)], []))


def _kind(letter: str) -> int:
    """0: pyautogui types it. 1: `<`. 2: it has no key."""
    return 1 if letter == "<" else 2 if ord(letter) > 126 else 0


def _less_than() -> ast.stmt:
    return ast.parse("pyautogui.hotkey('shift', ',')").body[0]


def _many(count: int) -> ast.stmt:
    return ast.parse(f"for _ in range({count}): pyautogui.hotkey('shift', ',')").body[0]
