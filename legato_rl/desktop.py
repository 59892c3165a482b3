"""What is a desktop? The protocol that every backend follows, and the failure that it raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from legato_rl.config import DesktopConfig

ReadyState = Literal["ready", "capped", "fixed"]
"""`ready`: the signal fired; `capped`: its cap passed first, guest alive; `fixed`: a fixed wait was asked for."""


class DesktopFailure(Exception):
    """The desktop broke, or may have: a try on it yields no reward.

    `type` is a short snake_case cause (`screenshot`, `action_lost`, `guest_unreachable`, …) that the summary counts by.
    Everything that the guest itself says "no" to is *not* a failure but an answer.
    """

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type


@dataclass(frozen=True)
class Ready:
    """How a wait ended. `seconds` is its length."""

    state: ReadyState
    seconds: float


@dataclass(frozen=True)
class ActResult:
    """What came of one action. `rc` is the guest's exit code, `stderr` its words; `ready` is the wait for the screen.

    `act_s` is the seconds that the action itself took, the wait excluded.
    """

    rc: int
    stderr: str
    act_s: float
    ready: Ready


@runtime_checkable
class Desktop(Protocol):
    """One resettable computer, driven by one worker in plain blocking code. Any method may raise DesktopFailure."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        """Boot the desktop. `name` is unique on the machine and may name containers and folders."""

    def reset(self, task: dict[str, Any]) -> None:
        """Bring the desktop to the start of `task` (an OSWorld task: id, instruction, config, evaluator)."""

    def wait_after_reset(self) -> Ready:
        """Return when the task's start is on the screen."""

    def observe(self) -> bytes:
        """The screen as PNG bytes, at the desktop's screen size."""

    def act(self, action: str) -> ActResult:
        """Do one pyautogui command string, or `WAIT`, `DONE` or `FAIL`, once, and wait for the screen."""

    def wait_before_eval(self) -> Ready:
        """Return when the last action's effects are settled and written."""

    def evaluate(self) -> float:
        """The live verdict, a finite number in [0, 1]. Other exceptions than DesktopFailure are the evaluator's."""

    def close(self) -> None:
        """Give everything back. Called once; must not raise for a desktop that is already gone."""


DESKTOP_METHODS = ("reset", "wait_after_reset", "observe", "act", "wait_before_eval", "evaluate", "close")
"""The methods that a backend class must have."""
