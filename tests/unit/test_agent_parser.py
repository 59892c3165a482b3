"""Does the agent read responses as OSWorld's does, and never choke on one?"""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.workers.agent.actions import ACTIONS, Screen
from legato_rl.workers.agent.parser import parse_response
from legato_rl.workers.agent.reasoning import merge_reasoning, replayed

SCREEN = Screen(original=(1920, 1080), processed=(1920, 1088))


def call(action: str, **parameters: str) -> str:
    """One tool call as a policy writes it."""
    written = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in {"action": action, **parameters}.items())
    return f"<tool_call>\n<function=computer_use>\n{written}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("response", "actions"),
    [
        (call("left_click", coordinate="[500, 500]"), ["pyautogui.click(960, 540)"]),
        (call("left_click"), ["pyautogui.click()"]),
        (call("right_click", coordinate="[1, 2]"), ["pyautogui.rightClick(1, 2)"]),
        (call("right_click"), ["pyautogui.rightClick()"]),
        (call("middle_click", coordinate="[100, 100]"), ["pyautogui.middleClick(192, 108)"]),
        (call("double_click", coordinate="[100, 100]"), ["pyautogui.doubleClick(192, 108)"]),
        (call("triple_click", coordinate="[100, 100]"), ["pyautogui.tripleClick(192, 108)"]),
        (call("triple_click"), ["pyautogui.tripleClick()"]),
        (call("type", text='say "hi"'), ['pyautogui.typewrite("say \\"hi\\"")']),
        (call("type", text="ünï 😀"), ['pyautogui.typewrite("ünï 😀")']),
        (call("type"), ['pyautogui.typewrite("")']),
        (
            call("type", text="a\r\nb\n\nc"),
            [
                'pyautogui.typewrite("a")',
                'pyautogui.press("enter")',
                'pyautogui.typewrite("b")',
                'pyautogui.press("enter")',
                'pyautogui.press("enter")',
                'pyautogui.typewrite("c")',
            ],
        ),
        (call("type", text='{"a": 1}'), ["pyautogui.typewrite(\"{'a': 1}\")"]),
        (call("key", keys='["Enter"]'), ['pyautogui.press("enter")']),
        (call("key", keys='["ctrl", "S"]'), ['pyautogui.hotkey("ctrl", "s")']),
        (call("key", keys="Ctrl+Shift+T"), ['pyautogui.hotkey("ctrl", "shift", "t")']),
        (call("key", keys="['ctrl', 'c']"), ['pyautogui.hotkey("ctrl", "c")']),
        (call("key_down", keys='["shift", "a"]'), ['pyautogui.keyDown("shift")', 'pyautogui.keyDown("a")']),
        (call("key_up", keys="shift"), ['pyautogui.keyUp("shift")']),
        (call("scroll", pixels="-5"), ["pyautogui.scroll(-5)"]),
        (call("scroll", pixels="2.9"), ["pyautogui.scroll(2)"]),
        (call("scroll"), ["pyautogui.scroll(0)"]),
        (call("hscroll", pixels="7"), ["pyautogui.hscroll(7)"]),
        (call("mouse_move", coordinate="[999, 1000]"), ["pyautogui.moveTo(1920, 1081)"]),
        (call("mouse_move"), ["pyautogui.moveTo(0, 0)"]),
        (call("left_click_drag", coordinate="[100, 100]"), ["pyautogui.dragTo(192, 108, duration=0.5)"]),
        (call("left_click_drag", coordinate="[100, 100]", duration="2"), ["pyautogui.dragTo(192, 108, duration=2.0)"]),
        (call("left_click_drag"), ["pyautogui.dragTo(0, 0)"]),
        (call("left_mouse_down"), ["pyautogui.mouseDown(button='left')"]),
        (
            call("left_mouse_up", coordinate="[100, 100]"),
            ["pyautogui.moveTo(192, 108)", "pyautogui.mouseUp(button='left')"],
        ),
        (call("wait", time="30"), ["WAIT"]),
        (call("screenshot"), ["WAIT"]),
        (call("terminate"), ["DONE"]),
        (call("terminate", status="success", answer="42"), ["DONE"]),
        (call("terminate", status="Failure"), ["FAIL"]),
        (call("terminate", status="infeasible"), ["FAIL"]),
        (call("call_user", text="which one?"), ["DONE"]),
        ("That cannot be done. " + call("call_user"), ["FAIL"]),
    ],
)
def test_every_action_becomes_what_osworld_makes_of_it(response: str, actions: list[str]) -> None:
    """Each row of the action table, with its variants."""
    parsed = parse_response(response, SCREEN)
    assert (parsed.actions, parsed.parse_error) == (actions, None)


@pytest.mark.parametrize("coordinate", ["500, 500", "[500]", "{}", "[500, 500", "here"])
def test_a_coordinate_that_is_no_pair_means_the_cursor(coordinate: str) -> None:
    """As in OSWorld's agent, such a click happens where the pointer is."""
    assert parse_response(call("left_click", coordinate=coordinate), SCREEN).actions == ["pyautogui.click()"]


def test_coordinates_are_scaled_and_truncated_not_clamped() -> None:
    """Relative ones from 0…999, absolute ones from the processed size; both may leave the screen."""
    absolute = Screen(original=(1920, 1080), processed=(1920, 1088), coordinates="absolute")
    assert absolute.place(10.9, 1088) == (10, 1080)
    assert SCREEN.place(999, 999) == (1920, 1080)
    assert SCREEN.place(2000, -0.6) == (3843, 0)


def test_all_calls_of_a_response_are_carried_out_in_order() -> None:
    """Also with odd case, the other closing tag, text around them, and calls of other functions between."""
    response = (
        "<think>"
        + call("wait")
        + "</think>\n\nAction: do it\n"
        + call("key", keys="a").replace("tool_call", "TOOL_CALL")
        + call("wait").replace("computer_use", "search")
        + call("answer", text="x")
        + call("key", keys="b").replace("</tool_call>", "</function_call >")
        + "<tool_call><function=computer_use><parameter=action>wait"
    )
    parsed = parse_response(response, SCREEN)
    assert parsed.actions == ["WAIT", 'pyautogui.press("a")', 'pyautogui.press("b")']
    assert (parsed.summary, parsed.parse_error) == ("do it", None)


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("The file is saved.", "DONE"),
        ("<think>\nthere is no save button\n</think>\n\nAll done.", "FAIL"),
        ("This task is infeasible.", "FAIL"),
        ("This is Impossible", "FAIL"),
    ],
)
def test_prose_ends_the_episode(response: str, action: str) -> None:
    """Without a call the response is final, and its own words, thinking included, say how it ended."""
    parsed = parse_response(response, SCREEN)
    assert (parsed.actions, parsed.parse_error) == ([action], None)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "empty response"),
        (" \n\t", "empty response"),
        ("<tool_call>", "no complete <tool_call>"),
        ("Action: click\n<tool_call>\n<function=computer_use>\n<parameter=action>\nleft_cl", "no complete <tool_call>"),
        (call("wait").replace("computer_use", "computer"), "no complete <tool_call>"),
        (call("fly"), "no complete <tool_call>"),
        (call("key"), "no complete <tool_call>"),
        (call("left_click", coordinate='["a", 1]'), "coordinate is ['a', 1]"),
        (call("left_click", coordinate="[null, 1]"), "coordinate is 'None'"),
        (call("left_click", coordinate="[1e999, 1]"), "coordinate is inf"),
        (call("left_click", coordinate="[1, NaN]"), "coordinate is nan"),
        (call("left_click", coordinate="[1.7e308, 1]"), "infinity"),
        (call("wait") + call("left_click", coordinate="[[], 1]"), "coordinate is '[]'"),
        (call("scroll", pixels="down"), "pixels is 'down'"),
        (call("scroll", pixels="inf"), "pixels is inf"),
        (call("left_click_drag", coordinate="[1, 1]", duration="slow"), "duration is 'slow'"),
    ],
)
def test_a_call_that_cannot_be_read_is_a_parse_error_without_action(response: str, reason: str) -> None:
    """The reason names what is wrong; no exception, and no action of such a response is carried out."""
    parsed = parse_response(response, SCREEN)
    assert parsed.actions == []
    assert parsed.parse_error is not None
    assert reason in parsed.parse_error


def test_the_summary_is_the_action_line_or_made_from_the_first_action() -> None:
    """It stands for the step in prompts that no longer show it."""
    assert parse_response("x\n  ACTION: Click: the button \n" + call("left_click"), SCREEN).summary == "Click: the button"
    assert parse_response(call("left_click"), SCREEN).summary == "Did click"
    assert parse_response(call("terminate"), SCREEN).summary == "Ended the task"


FRAGMENTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "</function_call>",
        "<function=computer_use>",
        "</function>",
        *(f"<parameter={name}>" for name in ("action", "coordinate", "keys", "text", "pixels", "duration", "status")),
        "</parameter>",
        *ACTIONS,
        "[1, 2]",
        "[",
        "{",
        "\ud800",
        "NaN",
        "1e999",
        "ctrl+",
        "\n",
        '"',
        "\\",
    ]
)
VALUES = st.one_of(
    st.text(max_size=20),
    st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5), st.lists, max_leaves=6).map(
        json.dumps
    ),
)
RESPONSES = st.one_of(
    st.text(st.characters(), max_size=60),
    st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=30).map("".join),
    st.lists(
        st.builds(
            lambda action, parameters: call(action, **parameters),
            st.sampled_from(ACTIONS),
            st.dictionaries(st.sampled_from(["coordinate", "keys", "text", "pixels", "duration", "status"]), VALUES),
        ),
        max_size=3,
    ).map("".join),
)


@given(RESPONSES)
def test_whatever_the_response_there_is_a_reading_and_its_actions_are_python(response: str) -> None:
    """Never an exception; actions or a reason, never both, never neither; and a guest can compile every action."""
    parsed = parse_response(response, SCREEN)
    assert bool(parsed.actions) != bool(parsed.parse_error)
    for action in parsed.actions:
        if action not in {"WAIT", "DONE", "FAIL"}:
            action.encode("utf-8")
            (statement,) = ast.parse(action).body
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_typed_text_reaches_the_guest_unchanged(text: str) -> None:
    """The literals of the typewrite calls, joined by the enters, are the text that was written, stripped."""
    text = text.strip()
    if text.startswith(("[", "{")) or "</parameter>" in text or "</tool_call>" in text:
        return
    typed = ""
    for action in parse_response(call("type", text=text), SCREEN).actions:
        argument = ast.literal_eval(action.split("(", 1)[1][:-1])
        typed += "\n" if action.startswith("pyautogui.press") else argument
    assert typed == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    "piece", ["<tool_call>", "<parameter=a>", "<parameter=", "<function=x", "</function_call ", "[", " ", "Action:"]
)
def test_a_tag_repeated_to_the_token_limit_is_read(piece: str) -> None:
    """A degenerate policy does that; a scan that is quadratic in the response would take minutes here."""
    response = "<tool_call><function=computer_use><parameter=keys>" + piece * 200_000 + "</parameter></tool_call>"
    assert parse_response(response, SCREEN).parse_error


def test_a_deeply_nested_value_is_no_crash() -> None:
    """JSON nested beyond the interpreter's recursion limit is read as text, or is a parse error."""
    parsed = parse_response(call("key", keys="[" * 100_000 + "]" * 100_000), SCREEN)
    assert parsed.actions == []
    assert parsed.parse_error


def test_reasoning_is_merged_as_a_think_block() -> None:
    """Where the server gave none, or blank, the content stands alone."""
    assert merge_reasoning("\n why \n", "\n\nAction: x") == "<think>\nwhy\n</think>\n\nAction: x"
    assert merge_reasoning("why", None) == "<think>\nwhy\n</think>\n\n"
    assert merge_reasoning(" ", "  x") == "  x"
    assert merge_reasoning(None, None) == ""


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ("Action: x", "<think>\n\n</think>\n\nAction: x"),
        ("", "<think>\n\n</think>\n\n"),
        ("\n\nAction: x", "<think>\n\n</think>\n\nAction: x"),
        ("<think>\nwhy\n</think>\n\nx", "<think>\nwhy\n</think>\n\nx"),
        ("\n<think></think>x", "\n<think></think>x"),
        ("<think>cut off", "<think>\n\n</think>\n\n<think>cut off"),
        ("x <think>y</think>", "<think>\n\n</think>\n\nx <think>y</think>"),
    ],
)
def test_a_replayed_response_begins_with_a_complete_think_block(response: str, shown: str) -> None:
    """An empty one is put in front where there is none."""
    assert replayed(response) == shown
