"""May the desktop's answers be trusted? Guards a backend: whatever it does wrong becomes a failure with a type."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, SupportsFloat, TypeVar, get_args

from PIL import Image

from legato_rl.desktop import ActResult, Desktop, DesktopFailure, Ready, ReadyState
from legato_rl.records import ResetWay

T = TypeVar("T")
FAULTS = (Exception, SystemExit)
"""What a backend or an evaluator may raise of its own; one that calls sys.exit must not end the worker."""
LARGEST_RC = 2**32
"""An exit code beyond this is none (Windows' have 32 bits)."""
LONGEST_S = 1e9
"""Seconds beyond this are a fault of the backend's clock."""


class EvaluatorFailed(Exception):
    """The evaluator raised something of its own, or returned what is no reward; `type` names the cause."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type


class Desk:
    """A desktop behind its guard. Every method raises DesktopFailure for a broken desktop, a backend's bug included.

    `size` is the screen's width and height in pixels. `reset_way` is how the last reset went, None where nobody told.
    """

    reset_way: ResetWay | None = None

    def __init__(self, desktop: Desktop, size: tuple[int, int]) -> None:
        self._desktop = desktop
        self._size = size

    def reset(self, task: dict[str, Any]) -> None:
        """As Desktop.reset."""
        try:
            _guard(lambda: self._desktop.reset(task))
        finally:
            self.reset_way = _reset_way(self._desktop)

    def wait_after_reset(self) -> Ready:
        """As Desktop.wait_after_reset."""
        return _ready("wait_after_reset", _guard(self._desktop.wait_after_reset))

    def observe(self) -> bytes:
        """A whole PNG of the screen's size."""
        return check_screen(_guard(self._desktop.observe), self._size)

    def act(self, action: str) -> ActResult:
        """As Desktop.act: sent once."""
        result = _typed("act", ActResult, _guard(lambda: self._desktop.act(action)))
        is_rc = isinstance(result.rc, int) and abs(result.rc) <= LARGEST_RC
        if not (is_rc and isinstance(result.stderr, str) and _is_seconds(result.act_s)):
            said = f"rc {result.rc!r:.40}, act_s {result.act_s!r:.40}, stderr {result.stderr!r:.60}"
            raise DesktopFailure("bad_answer", f"act gave {said}: a whole number, seconds and text are needed")
        _ready("act", result.ready)
        return result

    def wait_before_eval(self) -> Ready:
        """As Desktop.wait_before_eval."""
        return _ready("wait_before_eval", _guard(self._desktop.wait_before_eval))

    def evaluate(self) -> float:
        """The verdict, a finite number in [0, 1]; EvaluatorFailed for any other and for what the evaluator raises."""
        try:
            verdict: object = self._desktop.evaluate()
        except DesktopFailure:
            raise
        except FAULTS as error:
            raise EvaluatorFailed(type(error).__name__, str(error)) from error
        return check_verdict(verdict)


def _guard(call: Callable[[], T]) -> T:
    try:
        return call()
    except DesktopFailure:
        raise
    except FAULTS as error:
        raise DesktopFailure(type(error).__name__, str(error)) from error


def _reset_way(desktop: Desktop) -> ResetWay | None:
    """What a desktop tells of its last reset, also of one that failed. It need not tell, and no try fails by it."""
    with suppress(*FAULTS):
        told = getattr(desktop, "reset_way", None)
        return next((way for way in get_args(ResetWay) if way == told), None)
    return None


def _typed(method: str, wanted: type[T], answer: object) -> T:
    if not isinstance(answer, wanted):
        raise DesktopFailure("bad_answer", f"{method} returned a {type(answer).__name__}: it must give a {wanted.__name__}")
    return answer


def _is_seconds(value: object) -> bool:
    # The upper bound keeps whole numbers out that no float holds.
    return isinstance(value, int | float) and 0 <= value < LONGEST_S


def _ready(method: str, answer: object) -> Ready:
    ready = _typed(method, Ready, answer)
    if ready.state not in get_args(ReadyState) or not _is_seconds(ready.seconds):
        raise DesktopFailure("bad_answer", f"{method} gave {ready!r:.100}: it must tell a state and seconds")
    return ready


def check_screen(png: object, size: tuple[int, int]) -> bytes:
    """`png` itself. DesktopFailure, type `screenshot`, where it is no whole PNG of `size`.

    Looks at the header and every chunk's checksum, but decodes no pixel: that would cost more than the step.
    """
    if not isinstance(png, bytes):
        raise DesktopFailure("screenshot", f"observe returned a {type(png).__name__}: it must return PNG bytes")
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            found = image.size
            image.verify()
    except Exception as error:
        raise DesktopFailure("screenshot", f"observe returned {len(png)} bytes that are no whole PNG: {error}") from None
    if found != tuple(size):
        raise DesktopFailure("screenshot", f"the screen is {found[0]}x{found[1]}: it must be {size[0]}x{size[1]}")
    return png


def check_verdict(verdict: object) -> float:
    """The evaluator's answer as a reward. EvaluatorFailed unless it is a finite number in [0, 1].

    A bool is a number, and so is whatever else can be a float without being read as text (numpy's, Decimal).
    """
    if not isinstance(verdict, SupportsFloat):
        raise EvaluatorFailed("bad_verdict", f"evaluate returned {verdict!r}: it must return a number from 0 to 1")
    try:
        reward = float(verdict)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvaluatorFailed("bad_verdict", f"evaluate returned {verdict!r:.100}, which is no number: {error}") from None
    if not math.isfinite(reward) or not 0.0 <= reward <= 1.0:
        raise EvaluatorFailed("bad_verdict", f"evaluate returned {reward}: it must be from 0 to 1")
    return reward


def is_readable(png: bytes) -> bool:
    """Whether every pixel of a screenshot can be decoded; asked only where something choked on it."""
    try:
        with Image.open(io.BytesIO(png)) as image:
            image.load()
    except Exception:
        return False
    return True
