"""How is text typed so that the guest gets what was meant? Tells pyautogui the keys that it has wrong or has not. PURE.

`<` comes out as `>` on the layout of OSWorld's guests (its issue 257): it is the comma's key with shift. A letter without
a key is dropped silently: it gets a key that no other letter has, until the action is over. So all of pyautogui's
functions type them. The action itself is sent to the letter; code that is no Python is too.
"""

from __future__ import annotations

import ast

PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False\n"
"""What OSWorld puts before each action."""
TYPING = frozenset({"typewrite", "write", "press", "hotkey", "hold", "keyDown", "keyUp"})
"""The functions of pyautogui that have to do with keys."""

LESS_THAN = "pyautogui.platformModule.keyboardMapping['<'] = pyautogui.platformModule.keyboardMapping[',']\n"
LEND_KEYS = """\
class _LegatoKeys(dict):
    def __init__(self, usual, text):
        import atexit, os
        from Xlib.display import Display
        super().__init__(usual)
        self.text, self.letters, self.at, self.most = text, set(text), 0, 0
        self.display = Display(os.environ["DISPLAY"])
        low, high = self.display.display.info.min_keycode, self.display.display.info.max_keycode
        rows = self.display.get_keyboard_mapping(low, high - low + 1)
        self.spare = [low + i for i, symbols in enumerate(rows) if not any(symbols)]
        atexit.register(self.give_back)
        self.lend()
    def lend(self):
        self.lent = dict(zip(dict.fromkeys(self.text[self.at:]), self.spare))
        self.most = max(self.most, len(self.lent))
        for letter, key in self.lent.items():
            symbol = ord(letter) if ord(letter) <= 0xFF else 0x01000000 + ord(letter)
            self.display.change_keyboard_mapping(key, [[symbol] * 4])
        self.display.sync()
        time.sleep(0.2)
    def give_back(self):
        time.sleep(0.5)
        for key in self.spare[:self.most]:
            self.display.change_keyboard_mapping(key, [[0] * 4])
        self.display.sync()
        self.display.close()
    def __contains__(self, key):
        return key in self.letters or super().__contains__(key)
    def __missing__(self, key):
        if key not in self.lent and self.spare:
            time.sleep(0.5)
            at = self.text.find(key, self.at)
            self.at = at if at >= 0 else self.text.find(key)
            self.lend()
        return self.lent.get(key)
pyautogui.platformModule.keyboardMapping = _LegatoKeys(pyautogui.platformModule.keyboardMapping, TEXT)
"""
"""Runs in the guest, with what pyautogui itself needs. All letters get their keys at once, since a program that is slow
looks up a key long after it was pressed; where there are more letters than keys (X has some dozens to spare), the next
ones get theirs when the first is pressed. The waits are for programs to hear of new keys and to read what was typed."""


def guest_code(action: str) -> str:
    """The Python that does `action` (lines of pyautogui code) in the guest."""
    try:
        tree = ast.parse(action)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PREFIX + action
    joiner = _Joiner()
    tree = joiner.visit(tree)
    if not any(isinstance(node, ast.Attribute) and node.attr in TYPING for node in ast.walk(tree)):
        return PREFIX + action
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts.sort(key=lambda node: (node.lineno, node.col_offset))
    text = "".join(str(node.value) for node in texts)
    keyless = "".join(letter for letter in text if ord(letter) >= 0xA0 and not 0xD800 <= ord(letter) <= 0xDFFF)
    less_than = LESS_THAN if "<" in text else ""
    lend = LEND_KEYS.replace("TEXT", ascii(keyless)) if keyless else ""
    return PREFIX + less_than + lend + (ast.unparse(tree) if joiner.joined else action)


class _Joiner(ast.NodeTransformer):
    """Makes one letter of what was written as two escapes (a surrogate pair, as JSON writes it)."""

    joined = False

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if not isinstance(node.value, str):
            return node
        value = node.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if value == node.value:
            return node
        self.joined = True
        return ast.copy_location(ast.Constant(value), node)
