"""Are action strings read as data, with a guest's own errors for what cannot run?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato_rl.fake.commands import MAX_ACTION, Broken, Call, GuestError, statements


def test_statements_in_order() -> None:
    """Newlines and semicolons part them; imports and settings are no calls; literals of every kind are taken."""
    action = (
        "import pyautogui, time; pyautogui.FAILSAFE = False; pyautogui.moveTo(10, -2.5, duration=0.5)\n"
        "pyautogui.typewrite('a\\n\"é')\ntime.sleep(1); pyautogui.press(['a', 'b'], presses=2)"
    )
    assert statements(action) == [
        Call("pyautogui", "moveTo", (10, -2.5), {"duration": 0.5}),
        Call("pyautogui", "typewrite", ('a\n"é',)),
        Call("time", "sleep", (1,)),
        Call("pyautogui", "press", (["a", "b"],), {"presses": 2}),
    ]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("click(1, 2)", "NameError: name 'click' is not defined"),
        ("os.system('ls')", "NameError: name 'os' is not defined"),
        ("import os", "ModuleNotFoundError: No module named 'os'"),
        ("import pyautogui as p", "ModuleNotFoundError"),
        ("pyautogui.click(x, y)", "NameError"),
        ("pyautogui.click(*[1, 2])", "NameError"),
        ("pyautogui.click(**{'x': 1})", "TypeError"),
        ("pyautogui.click(f'{1}')", "NameError"),
        ("x = 1", "RuntimeError"),
        ("while True: pass", "RuntimeError"),
        ("lambda: 0", "RuntimeError"),
        ("(lambda: 0)()", "TypeError"),
    ],
)
def test_what_is_no_call_breaks_at_its_turn(action: str, error: str) -> None:
    """Such a statement is an error in its place, and those beside it stand."""
    first, second, third = statements(f"pyautogui.click()\n{action}\npyautogui.click()")
    assert first == third == Call("pyautogui", "click")
    assert isinstance(second, Broken)
    assert second.stderr.startswith(error)


@pytest.mark.parametrize("action", ["pyautogui.click(", "\0", "\ud800", "1" * 5000, "-" * 100_000, "a" + ".a" * 60_000])
def test_what_is_no_python_runs_not_at_all(action: str) -> None:
    """Broken syntax, also the kind that exhausts a parser, is one error before anything is done."""
    with pytest.raises(GuestError, match=r"\ASyntaxError: "):
        statements(f"pyautogui.click()\n{action}")


def test_an_action_has_a_length() -> None:
    """What no guest takes as an argument is refused before it is read."""
    with pytest.raises(GuestError, match="Argument list too long"):
        statements("#" * MAX_ACTION)


def test_nothing_is_executed(tmp_path: Path) -> None:
    """Code in an argument, a decorator, a default or a comprehension leaves no trace."""
    trap = tmp_path / "trap"
    code = f"open({str(trap)!r}, 'w').close()"
    for action in (
        code,
        f"pyautogui.click({code})",
        f"def f(x={code}): pass",
        f"[{code} for _ in [0]]",
        f"@{code[:-8]}\ndef f(): pass",
    ):
        assert all(isinstance(statement, Broken) for statement in statements(action))
    assert not trap.exists()


@given(st.text() | st.text(alphabet="pyautogui.click()[]{}*+-;\n 0123'\"\\,=x"))
@example("pyautogui.click(1e999)")
def test_every_text_has_an_answer(action: str) -> None:
    """Whatever a model says is statements or a guest's error, never another exception."""
    try:
        found = statements(action)
    except GuestError:
        found = []
    assert all(isinstance(statement, Call | Broken) for statement in found)
