"""How does a policy solve the task set, or just fail? A model server that speaks the scripts as tool calls.

Even attempts of a task get the script of its solution, odd ones that of its failure (task_scripts.json).
"""

from __future__ import annotations

import ast
import json
import socket
from pathlib import Path
from typing import Any

from model_server import Answer, Body, ModelServer, completion

SCRIPTS = json.loads((Path(__file__).resolve().parent / "task_scripts.json").read_text())
"""By task: the actions of a solution, and those of a policy that nearly gets there."""
SCREEN = (1280, 720)
"""What the scripts' few coordinates are for."""
GRID = 999
"""The policy points on a grid of 0 to this."""


def response(action: str) -> str:
    """What a policy says that wants `action`: one tool call, or several where one cannot do it."""
    plain = {"WAIT": _call("wait"), "DONE": _call("terminate", status="success"), "FAIL": _call("terminate", status="failure")}
    calls = [plain[action]] if action in plain else [call for line in ast.parse(action).body for call in _calls(line)]
    return "\n".join(["Action: the next step", *calls])


def _calls(line: ast.stmt) -> list[str]:
    """The tool calls of one line of pyautogui code."""
    assert isinstance(line, ast.Expr)
    assert isinstance(line.value, ast.Call)
    assert isinstance(line.value.func, ast.Attribute)
    does = line.value.func.attr
    args = [ast.literal_eval(argument) for argument in line.value.args]
    named = {word.arg: ast.literal_eval(word.value) for word in line.value.keywords}
    if does == "hotkey":
        return [_call("key", keys=json.dumps(args))]
    if does == "press":
        return [_call("key", keys=json.dumps(args))] * named.get("presses", 1)
    if does == "typewrite":
        # A parameter's text is stripped, so the last enter is a call of its own.
        (text,) = args
        ended = str(text).endswith("\n")
        return [_call("type", text=str(text).removesuffix("\n")), *([_call("key", keys='["enter"]')] if ended else [])]
    assert does == "click", does
    # In the middle of the pixel, since it is cut to whole ones.
    return [_call("left_click", coordinate=str([(at + 0.5) * GRID / side for at, side in zip(args, SCREEN, strict=True)]))]


def _call(action: str, **parameters: str) -> str:
    """One tool call."""
    lines = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in {"action": action, **parameters}.items())
    return f"<tool_call>\n<function=computer_use>\n{lines}</function>\n</tool_call>"


class ScriptedPolicy(ModelServer):
    """Plays every rollout by its script; tells rollouts apart by the name that each request carries."""

    def complete(self, body: Body, headers: dict[str, str], connection: socket.socket) -> Answer | None:
        """The next action of the rollout's script; pre-flight requests belong to none and get a word."""
        _, task, attempt, _ = headers.get("X-Session-ID", "").split(":") if "computer_use" in str(body) else ("", "", "0", "")
        if task not in SCRIPTS:
            return 200, completion()
        script: list[str] = SCRIPTS[task]["failure" if int(attempt) % 2 else "solution"]
        said = sum(message["role"] == "assistant" for message in body["messages"])
        return 200, completion(response(script[said]))


def wanted(row: dict[str, Any]) -> float:
    """The reward of a row whose rollout was played to its end."""
    return 0.0 if row["attempt"] % 2 else 1.0
