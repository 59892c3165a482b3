"""What does the window ask, what state is it in, and what is that worth? The fake desktop's only application.

PURE: clicks and keys go in by name of the control, and the state, the signs and the score come out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from legato_rl.canonical import canonical_json
from legato_rl.fake.layout import CONTROLS, OPTIONS, Control
from legato_rl.fake.strip import ACCEPTED, CANCELLED, EMPTY, NONE, OPEN, REJECTED, RIGHT, WORDS, WRONG, Signs

COLOUR_NAMES = ("Amber", "Blue", "Coral", "Green", "Ivory", "Lilac", "Olive", "Pearl", "Slate", "Teal")
MAX_TEXT = 200
"""Characters that the text field takes."""


@dataclass(frozen=True)
class Request:
    """What the window asks for: choose `label` (one of `options`, or none of them), type `word`, confirm."""

    options: tuple[str, ...]
    label: str
    word: int
    across: float
    down: float
    """The window's place, as shares of the room on the screen."""

    @property
    def asked(self) -> int:
        """The index of the option asked for; NONE where the window has no such option."""
        return self.options.index(self.label) if self.label in self.options else NONE


def is_infeasible(task: dict[str, Any]) -> bool:
    """Whether the task counts as solved exactly when the last action says that it cannot be done."""
    evaluator = task.get("evaluator")
    return isinstance(evaluator, dict) and evaluator.get("func") == "infeasible"


def request_of(task: dict[str, Any], seed: int | None) -> Request:
    """What the window asks in this task: a function of its id, the seed, and whether it is feasible."""
    digest = hashlib.sha256(canonical_json(["request", str(task.get("id", "")), seed])).digest()
    names = sorted(COLOUR_NAMES, key=lambda name: hashlib.sha256(digest + name.encode()).digest())
    label = names[3] if is_infeasible(task) else names[digest[0] % 3]
    return Request(tuple(names[:3]), label, digest[1] % len(WORDS), digest[2] / 256, digest[3] / 256)


class Form:
    """The window with three options, a text field, Confirm and Cancel."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.selected: int | None = None
        self.text = ""
        self.caret = 0
        self.marked = False
        self.focus: Control | None = None
        self.submitted: tuple[int | None, str] | None = None
        self.cancelled = False
        self.status = "Waiting for your choice."

    def click(self, control: Control | None, times: int = 1) -> None:
        """The left button went down and up on this control, `times` times in a row."""
        self.marked = False
        self.focus = control
        if control == "field":
            self.caret = len(self.text)
            self.marked = times >= 2 and bool(self.text)
            self.status = "Type the word."
        elif control is not None:
            self.activate(control)

    def activate(self, control: Control) -> None:
        """Press this control, by mouse or by key."""
        if control in OPTIONS:
            self.selected = OPTIONS.index(control)
            self.status = f"{self.request.options[self.selected]} is chosen."
        elif control == "confirm":
            self.submitted = (self.selected, self.text)
            self.cancelled = False
            self.status = "Confirmed." if self._submission() == ACCEPTED else "Confirmed, but that is not what was asked."
        elif control == "cancel":
            self.selected, self.text, self.caret, self.submitted = None, "", 0, None
            self.cancelled = True
            self.status = "Cancelled. Nothing was sent."

    def type(self, character: str) -> None:
        """One printable character from the keyboard."""
        if self.focus == "field":
            self._replace_marked()
            if len(self.text) < MAX_TEXT:
                self.text = self.text[: self.caret] + character + self.text[self.caret :]
                self.caret += 1
        elif character == " " and self.focus is not None:
            self.activate(self.focus)

    def key(self, key: str, held: frozenset[str] = frozenset()) -> None:
        """One key that is no character (pyautogui's names), or one pressed while `held` modifiers are down."""
        if held & {"ctrl", "alt", "win"}:
            if key == "a" and "ctrl" in held and self.focus == "field":
                self.marked = bool(self.text)
        elif key in ("tab", "enter", "esc"):
            self._navigate(key, backwards="shift" in held)
        elif self.focus == "field":
            self._edit(key)

    def _navigate(self, key: str, backwards: bool) -> None:
        if key == "enter":
            self.activate(self.focus if self.focus not in (None, "field") else "confirm")
        elif key == "esc":
            self.activate("cancel")
        else:
            at = CONTROLS.index(self.focus) if self.focus else (0 if backwards else -1)
            self.focus = CONTROLS[(at + (-1 if backwards else 1)) % len(CONTROLS)]
            self.marked = self.focus == "field" and bool(self.text)
            self.caret = len(self.text)

    def _edit(self, key: str) -> None:
        if key in ("backspace", "delete"):
            if self.marked:
                self._replace_marked()
            elif key == "backspace" and self.caret > 0:
                self.text = self.text[: self.caret - 1] + self.text[self.caret :]
                self.caret -= 1
            elif key == "delete":
                self.text = self.text[: self.caret] + self.text[self.caret + 1 :]
        elif key in ("left", "right", "home", "end"):
            step = {"left": self.caret - 1, "right": self.caret + 1, "home": 0, "end": len(self.text)}[key]
            self.caret = min(max(step, 0), len(self.text))
            self.marked = False

    def _replace_marked(self) -> None:
        if self.marked:
            self.text, self.caret, self.marked = "", 0, False

    def signs(self) -> Signs:
        """What the window shows of its state."""
        text = EMPTY if not self.text else RIGHT if self.text == WORDS[self.request.word] else WRONG
        return Signs(
            asked=self.request.asked,
            word=self.request.word,
            selected=NONE if self.selected is None else self.selected,
            focused=self.focus == "field",
            marked=self.marked,
            text=text,
            submitted=self._submission(),
        )

    def _submission(self) -> int:
        if self.submitted is None:
            return CANCELLED if self.cancelled else OPEN
        return ACCEPTED if self.submitted == (self.request.asked, WORDS[self.request.word]) else REJECTED

    def score(self) -> float:
        """1.0 for what was asked, confirmed and not cancelled since; 0.5 for the right option with another word."""
        if self.submitted is None:
            return 0.0
        if self._submission() == ACCEPTED:
            return 1.0
        return 0.5 if self.submitted[0] == self.request.asked else 0.0
