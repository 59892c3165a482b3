"""What does a response ask for? Its text to actions, a summary for the history, and what was wrong with it.

The grammar is OSWorld's QwenAgent's: any number of

    <tool_call>
    <function=computer_use>
    <parameter=action>
    left_click
    </parameter>
    <parameter=coordinate>
    [500, 500]
    </parameter>
    </function>
    </tool_call>

carried out in order, wherever in the response they stand, its thinking included. Where that agent falls back to `WAIT`
for a call that it cannot read, or raises, there is a parse error here and no action. Every function is linear in the
response, since a policy in training will repeat a tag thirty thousand times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from legato_rl.workers.agent.actions import Screen, actions_of

FUNCTION = "computer_use"
"""The one function that the prompt offers; calls of others are passed over."""

_CALL_TAG = re.compile(r"<tool_call>|</(?:tool_call|function_call\s*)>", re.IGNORECASE)
_FUNCTION = re.compile(r"<function=([^<>]+)>")
_PARAMETER_TAG = re.compile(r"<parameter=([^<>]+)>|</parameter>")

INFEASIBLE_PHRASES = (
    "infeasible",
    "not feasible",
    "impossible",
    "not possible",
    "cannot be done",
    "can't be done",
    "cannot be completed",
    "can't be completed",
    "cannot complete",
    "can't complete",
    "unable to complete",
    "not available",
    "unavailable",
    "not supported",
    "does not support",
    "doesn't support",
    "no built-in way",
    "there is no ",
    "requires an account",
    "requires an extension",
    "requires a plugin",
    "requires extra hardware",
    "requires signing in",
    "no credentials",
)
"""Words by which a response says that its task cannot be done. Broad, as OSWorld's agent is: "there is no save button"
in a thought is enough, so a FAIL is the policy's word, not a finding."""


@dataclass(frozen=True)
class ParsedResponse:
    """What a response asks for. Where `parse_error` is set, `actions` is empty.

    `summary` is the line that stands for the step once it is too old to be shown.
    """

    actions: list[str]
    summary: str
    parse_error: str | None = None


def parse_response(response: str, screen: Screen) -> ParsedResponse:
    """Read `response`; whatever it holds, this does not raise.

    Prose without a call ends the episode: `FAIL` where it says that the task is infeasible, else `DONE`. Nothing at
    all, calls of which none gives an action, and a call with a value that cannot be carried out are parse errors.
    """
    if not response.strip():
        return ParsedResponse([], "No action", "empty response")
    infeasible = looks_infeasible(response)
    summary = _action_line(response)
    try:
        actions = [action for call in tool_calls(response) for action in actions_of(call, screen, infeasible=infeasible)]
    except (ValueError, OverflowError, RecursionError) as error:
        # UnreadableCall, a number beyond any screen, a list nested a thousand deep.
        return ParsedResponse([], summary or "No action", f"a tool call cannot be carried out: {error}")
    if not actions and "<tool_call" in response.lower():
        reason = f"no complete <tool_call> of {FUNCTION} that names a known action and what it needs"
        return ParsedResponse([], summary or "No action", reason)
    if not actions:
        actions = ["FAIL" if infeasible else "DONE"]
    return ParsedResponse(actions, summary or _summary_of(actions[0]))


def tool_calls(response: str) -> Iterator[dict[str, Any]]:
    """The parameters of every complete call of the function, in order. A cut-off last call is no call."""
    start: int | None = None
    for tag in _CALL_TAG.finditer(response):
        opens = not tag.group().startswith("</")
        if opens and start is None:
            start = tag.end()
        elif not opens and start is not None:
            block = response[start : tag.start()]
            function = _FUNCTION.search(block)
            if function and function.group(1) == FUNCTION:
                yield _parameters(block)
            start = None


def looks_infeasible(response: str) -> bool:
    """Whether the response, its thinking included, says that the task cannot be done."""
    lowered = response.lower()
    return any(phrase in lowered for phrase in INFEASIBLE_PHRASES)


def _parameters(block: str) -> dict[str, Any]:
    """The parameters of one call: stripped text, or the decoded value where it looks like a JSON list or object."""
    parameters: dict[str, Any] = {}
    name, start = None, 0
    for tag in _PARAMETER_TAG.finditer(block):
        if name is None and tag.group(1) is not None:
            name, start = tag.group(1), tag.end()
        elif name is not None and tag.group(1) is None:
            parameters[name] = _value(block[start : tag.start()].strip())
            name = None
    return parameters


def _value(text: str) -> Any:
    # Typed text too, as in OSWorld: '{"a": 1}' is typed as "{'a': 1}". A policy is judged there, so it is so here.
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _action_line(response: str) -> str:
    """What follows "Action:" on the first line that begins with it; empty where none does."""
    for line in response.split("\n"):
        stripped = line.strip()
        if stripped.lower().startswith("action:"):
            return stripped[len("action:") :].strip()
    return ""


def _summary_of(action: str) -> str:
    """A line for a response that has no "Action:" line of its own."""
    known = {"DONE": "Ended the task", "FAIL": "Gave the task up", "WAIT": "Waited"}
    return known.get(action) or f"Did {action.removeprefix('pyautogui.').split('(', 1)[0]}"
