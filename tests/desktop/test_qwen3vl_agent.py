"""Does the wheel's real Qwen3VLAgent run through our seam? It lacks a module of its own, for which a stand-in is made here."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from bad.guest import picture

from legato_rl.workers.agent.checkout import CheckoutAgent, load_agent
from legato_rl.workers.agent.images import smart_resize

pytestmark = pytest.mark.desktop


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckoutAgent:
    """One agent that shows four pictures; the current folder is empty."""
    module = types.ModuleType("mm_agents.utils.qwen_vl_utils")
    module.smart_resize = lambda height, width, **bounds: smart_resize(height, width)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mm_agents.utils", types.ModuleType("mm_agents.utils"))
    monkeypatch.setitem(sys.modules, "mm_agents.utils.qwen_vl_utils", module)
    monkeypatch.chdir(tmp_path)
    kind = load_agent(None)
    assert kind.__name__ == "Qwen3VLAgent"
    return CheckoutAgent(kind, model="m", today="Monday, June 01, 2026", image_max=4, fold_size=2, thinking=False)


def call(**arguments: Any) -> str:
    """A response with one tool call, in this agent's grammar."""
    tool = json.dumps({"name": "computer_use", "arguments": arguments})
    return f"Action: go on\n<tool_call>\n{tool}\n</tool_call>"


def images(payload: dict[str, Any]) -> int:
    """Pictures in a prompt."""
    return json.dumps(payload["messages"]).count('"image_url": {"url"')


def test_an_episode(agent: CheckoutAgent, tmp_path: Path) -> None:
    """Its prompts reach us whole, its actions are pyautogui's, its history shows as many pictures as the run allows."""
    asked: list[dict[str, Any]] = []
    answers = [call(action="left_click", coordinate=[500, 500])] * 5 + [call(action="terminate", status="success")]
    actions = []
    for answer in answers:
        agent.call_llm = lambda payload, model, answer=answer: (asked.append(payload), answer)[1]  # type: ignore[misc]
        actions.append(agent.predict("do it", {"screenshot": picture((320, 240))})[1])
    assert actions == [["pyautogui.click(160, 120)"]] * 5 + [["DONE"]]
    assert [images(payload) for payload in asked] == [1, 2, 3, 4, 4, 4]
    assert agent.parse_error is None
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_fails(agent: CheckoutAgent) -> None:
    """It is not tried again by the agent's own rules, and leaves no picture behind."""
    calls = []

    def fails(payload: dict[str, Any], model: str) -> str:
        calls.append(model)
        raise ConnectionError("lost")

    agent.call_llm = fails
    with pytest.raises(ConnectionError):
        agent.predict("do it", {"screenshot": picture()})
    assert calls == ["m"]
    assert agent._agent.screenshots == []


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ("", "empty response"),
        ("<tool_call>\n{nonsense\n</tool_call>", "the agent found no action in it"),
        (call(action="left_click", coordinate=7), "the agent could not read it: TypeError"),
        ("No call at all.", "the agent found no action in it"),
    ],
)
def test_an_answer_that_gives_no_action(agent: CheckoutAgent, response: str, error: str) -> None:
    """A step without an action; screenshots and responses stay in step."""
    agent.call_llm = lambda payload, model: response
    assert agent.predict("do it", {"screenshot": picture()}) == (response, [])
    assert str(agent.parse_error).startswith(error)
    inner = agent._agent
    assert len(inner.screenshots) == len(inner.responses) == len(inner.actions)
