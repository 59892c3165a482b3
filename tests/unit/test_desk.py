"""May a desktop's answers be trusted? Every wrong one becomes a failure with a type."""

from __future__ import annotations

import io
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scripted_desktop import READY, SIZE, ScriptedDesktop, screen

from legato_rl.desktop import ActResult, DesktopFailure, Ready
from legato_rl.workers.desk import Desk, EvaluatorFailed, check_screen, check_verdict

METHODS = {"reset": ({},), "wait_after_reset": (), "observe": (), "act": ("WAIT",), "wait_before_eval": ()}


def call(method: str, answer: Any) -> Any:
    """What the desk makes of a backend that runs `answer` as its method."""
    desk = Desk(ScriptedDesktop(does={method: answer}), SIZE)
    return getattr(desk, method)(*METHODS.get(method, ()))


def test_good_answers_pass() -> None:
    """Each as the backend gave it."""
    desk = Desk(ScriptedDesktop(), SIZE)
    desk.reset({"id": "t"})
    assert desk.wait_after_reset() == desk.wait_before_eval() == READY
    assert desk.observe() == screen(4)
    assert desk.act("WAIT") == ActResult(0, "", 0.0, READY)
    assert desk.evaluate() == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_a_failure_of_the_desktop_keeps_its_type(method: str) -> None:
    """The backend knows best what broke."""

    def broken(*_: object) -> None:
        raise DesktopFailure("guest_unreachable", "no answer")

    with pytest.raises(DesktopFailure, match="no answer") as failure:
        call(method, broken)
    assert failure.value.type == "guest_unreachable"


@pytest.mark.parametrize("method", METHODS)
def test_a_bug_of_the_backend_is_a_failure_of_the_desktop(method: str) -> None:
    """Any other exception is a desktop that cannot be trusted, counted by the exception's name."""
    with pytest.raises(DesktopFailure) as failure:
        call(method, lambda *_: {}["x"])
    assert failure.value.type == "KeyError"
    assert isinstance(failure.value.__cause__, KeyError)


@pytest.mark.parametrize("answer", [None, 1.0, True, "ready", ("ready", 0.0)])
@pytest.mark.parametrize("method", ["wait_after_reset", "act", "wait_before_eval"])
def test_an_answer_of_the_wrong_type(method: str, answer: object) -> None:
    """Says which method gave what, and what it must give."""
    with pytest.raises(DesktopFailure, match=f"{method} returned a {type(answer).__name__}") as failure:
        call(method, lambda *_: answer)
    assert failure.value.type == "bad_answer"


def test_an_action_without_its_wait() -> None:
    """The wait for the screen is part of an action's result."""
    with pytest.raises(DesktopFailure) as failure:
        call("act", lambda _: ActResult(0, "", 0.0, None))  # type: ignore[arg-type]
    assert failure.value.type == "bad_answer"


@pytest.mark.parametrize(
    "result",
    [
        ActResult(None, "", 0.0, READY),  # type: ignore[arg-type]
        ActResult(1.5, "", 0.0, READY),  # type: ignore[arg-type]
        ActResult(2**70, "", 0.0, READY),
        ActResult(0, None, 0.0, READY),  # type: ignore[arg-type]
        ActResult(0, b"no", 0.0, READY),  # type: ignore[arg-type]
        ActResult(0, "", float("nan"), READY),
        ActResult(0, "", -0.1, READY),
        ActResult(0, "", None, READY),  # type: ignore[arg-type]
        ActResult(0, "", 10**400, READY),
        ActResult(0, "", 0.0, Ready("ready", float("inf"))),
        ActResult(0, "", 0.0, Ready("ready", None)),  # type: ignore[arg-type]
        ActResult(0, "", 0.0, Ready("done", 0.0)),  # type: ignore[arg-type]
    ],
)
def test_an_action_whose_result_is_none(result: ActResult) -> None:
    """No exit code, no text, no seconds, no such state: what cannot be stored is no answer."""
    with pytest.raises(DesktopFailure) as failure:
        call("act", lambda _: result)
    assert failure.value.type == "bad_answer"


@pytest.mark.parametrize("method", ["wait_after_reset", "wait_before_eval"])
@pytest.mark.parametrize("ready", [Ready("ready", float("nan")), Ready("soon", 0.0), Ready("capped", -1.0)])  # type: ignore[arg-type]
def test_a_wait_that_is_none(method: str, ready: Ready) -> None:
    """Its state is one of three, its seconds a number."""
    with pytest.raises(DesktopFailure, match=f"{method} gave") as failure:
        call(method, lambda: ready)
    assert failure.value.type == "bad_answer"


@pytest.mark.parametrize(("told", "kept"), [("escalated", "escalated"), ("soon", None), (1.0, None), (["fast"], None)])
def test_how_a_reset_went(told: object, kept: str | None) -> None:
    """What the backend tells of it, also where it failed; a word that is none, or none at all, fails no try."""
    desktop = ScriptedDesktop(does={"reset": lambda _: {}["x"]})
    desk = Desk(desktop, SIZE)
    for way in (None, kept):
        with pytest.raises(DesktopFailure, match="x"):
            desk.reset({"id": "t"})
        assert desk.reset_way == way
        desktop.reset_way = told  # type: ignore[attr-defined]


def jpeg() -> bytes:
    """The right picture in the wrong format."""
    file = io.BytesIO()
    Image.new("RGB", SIZE).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned a NoneType"),
        ("png", "returned a str"),
        (bytearray(screen(1)), "returned a bytearray"),
        (b"", "0 bytes that are no whole PNG"),
        (b"<html>502</html>", "no whole PNG"),
        (screen(1)[:-30], "no whole PNG"),
        (screen(1)[:200] + b"\0" + screen(1)[201:], "no whole PNG"),
        (jpeg(), "no whole PNG"),
        (screen(1, (SIZE[0], SIZE[1] + 1)), "the screen is 320x241: it must be 320x240"),
    ],
)
def test_a_screenshot_that_is_none(answer: object, said: str) -> None:
    """No bytes, no PNG, cut off, damaged, another format, another size."""
    with pytest.raises(DesktopFailure, match=said) as failure:
        check_screen(answer, SIZE)
    assert failure.value.type == "screenshot"


@pytest.mark.parametrize(
    "verdict", [None, "1", "", [], (1.0,), {}, 2, -1, 1.0000001, -1e-9, float("nan"), float("inf"), -float("inf"), 1 + 0j]
)
def test_a_verdict_that_is_no_reward(verdict: object) -> None:
    """It is the evaluator's fault, and never becomes a 0."""
    with pytest.raises(EvaluatorFailed, match="evaluate returned") as failure:
        call("evaluate", lambda: verdict)
    assert failure.value.type == "bad_verdict"


@given(st.floats(min_value=0, max_value=1) | st.integers(min_value=0, max_value=1) | st.booleans())
def test_a_number_from_0_to_1_is_a_reward(verdict: float) -> None:
    """Whole numbers and bools are numbers: OSWorld's metrics return all three."""
    assert check_verdict(verdict) == float(verdict)
    assert type(check_verdict(verdict)) is float


def repr_of(verdict: object) -> str:
    """A test's name, short for a number of 400 digits."""
    return f"{verdict!r:.20}"


class Scalar:
    """A number as numpy has them: it is no float, and can be one."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Array:
    """What numpy has for several numbers: it says that it can be a float, and cannot."""

    def __float__(self) -> float:
        raise TypeError("only length-1 arrays can be converted to Python scalars")


@pytest.mark.parametrize("verdict", [Scalar(0.25), Decimal("0.25"), Fraction(1, 4)])
def test_whatever_is_a_number_is_a_reward(verdict: object) -> None:
    """Evaluators compute with what they like."""
    assert check_verdict(verdict) == 0.25


@pytest.mark.parametrize(
    "verdict",
    [Scalar(1.5), Scalar(float("nan")), Decimal("NaN"), Decimal("2"), "0.25", b"0.25", Array(), Decimal("sNaN"), 10**400],
    ids=repr_of,
)
def test_what_is_like_a_number_and_none_is_no_reward(verdict: object) -> None:
    """Out of range, not finite, text, or several at once: the evaluator's fault, and the worker's life goes on."""
    with pytest.raises(EvaluatorFailed) as failure:
        call("evaluate", lambda: verdict)
    assert failure.value.type == "bad_verdict"


def test_what_an_evaluator_raises_is_its_own() -> None:
    """Counted by its name, apart from what breaks the desktop under it."""
    with pytest.raises(EvaluatorFailed) as failure:
        call("evaluate", lambda: 1 / 0)
    assert failure.value.type == "ZeroDivisionError"

    def unreachable() -> float:
        raise DesktopFailure("guest_unreachable", "no answer")

    with pytest.raises(DesktopFailure):
        call("evaluate", unreachable)
