"""Does the checkout's agent go through the run's policy, and through nothing else? A stand-in of QwenAgent's interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bad.guest import picture
from qwen_stand_in import make_checkout

from legato_rl.errors import ConfigError
from legato_rl.workers.agent.checkout import CheckoutAgent, load_agent

TODAY = "Monday, June 01, 2026"
CALL = (
    "Action: click\n<tool_call>\n<function=computer_use>\n<parameter=action>left_click</parameter>\n</function>\n</tool_call>"
)


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports from its checkout is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("mm_agents", "desktop_env"):
            del sys.modules[name]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckoutAgent:
    """One agent; the current folder is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    kind = load_agent(make_checkout(tmp_path / "osworld"))
    return CheckoutAgent(kind, model="m", today=TODAY, image_max=3, fold_size=2, thinking=True)


def say(agent: CheckoutAgent, *responses: str) -> list[dict[str, Any]]:
    """Have the policy answer these, one a step; what it was asked."""
    asked: list[dict[str, Any]] = []
    for response in responses:
        agent.call_llm = lambda payload, model, response=response: (asked.append(payload), response)[1]  # type: ignore[misc]
        agent.predict("do it", {"screenshot": picture()})
    return asked


def test_its_calls_are_the_runs(agent: CheckoutAgent, tmp_path: Path) -> None:
    """Its messages go out, the answer's actions come back, nothing is written to disk."""
    asked = say(agent, CALL)
    assert asked[0]["model"] == "m"
    assert asked[0]["messages"][0]["content"][0]["text"] == f"The current date is {TODAY}."
    assert agent.parse_error is None
    assert list((tmp_path / "here").iterdir()) == []


def test_it_is_built_as_the_run_says(agent: CheckoutAgent) -> None:
    """Arguments that only its base class names reach it too."""
    inner = agent._agent
    assert (inner.model, inner.image_max, inner.fold_size, inner.enable_thinking) == ("m", 3, 2, True)


def test_a_call_that_fails_leaves_it_as_it_was(agent: CheckoutAgent) -> None:
    """The agent itself would keep a screenshot without a response, and fold too early."""
    say(agent, CALL, CALL, CALL)

    def fails(payload: dict[str, Any], model: str) -> str:
        raise RuntimeError("stopped")

    before = {name: list(value) for name, value in vars(agent._agent).items() if isinstance(value, list)}
    agent.call_llm = fails
    with pytest.raises(RuntimeError, match="stopped"):
        agent.predict("do it", {"screenshot": picture()})
    assert {name: value for name, value in vars(agent._agent).items() if isinstance(value, list)} == before
    assert agent._agent.folded_prefix_k == 0
    asked = say(agent, CALL)
    assert [message["role"] for message in asked[0]["messages"]] == ["system", *["user", "assistant"] * 3, "user"]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ("", "empty response"),
        ("  \n", "empty response"),
        ("<tool_call>\n<function=computer_use>", "no complete <tool_call>"),
        (f"{CALL} boom", "the agent could not read it: TypeError: a coordinate is no number"),
    ],
)
def test_an_answer_that_gives_no_action(agent: CheckoutAgent, response: str, error: str) -> None:
    """It is a step without an action, and the next one is in step with its screenshots."""
    agent.call_llm = lambda payload, model: response
    assert agent.predict("do it", {"screenshot": picture()}) == (response, [])
    assert str(agent.parse_error).startswith(error)
    say(agent, CALL)
    inner = agent._agent
    assert len(inner.screenshots) == len(inner.responses) == len(inner.actions)
    assert agent.parse_error is None


def test_prose_ends_the_episode(agent: CheckoutAgent) -> None:
    """As the agent has it."""
    agent.call_llm = lambda payload, model: "All done."
    assert agent.predict("do it", {"screenshot": picture()}) == ("All done.", ["DONE"])
    assert agent.parse_error is None


def test_a_reset_forgets(agent: CheckoutAgent) -> None:
    """The next rollout's first prompt holds one turn."""
    say(agent, CALL, CALL)
    agent.reset()
    assert len(say(agent, CALL)[0]["messages"]) == 2


def test_no_agent_in_the_checkout(tmp_path: Path) -> None:
    """One sentence that names the folder and what is missing."""
    with pytest.raises(ConfigError) as error:
        load_agent(tmp_path)
    assert str(error.value) == (
        f"osworld is {str(tmp_path)!r}: there is no mm_agents.qwen.QwenAgent and no mm_agents.qwen3vl_agent.Qwen3VLAgent; "
        "name a checkout that has one, or use the agent own"
    )


def test_an_agent_that_cannot_be_imported(tmp_path: Path) -> None:
    """What it lacks is named."""
    make_checkout(tmp_path)
    (tmp_path / "mm_agents" / "qwen" / "main.py").write_text("import no_such_library\n")
    with pytest.raises(ConfigError, match=r"cannot be imported by .* \(No module named 'no_such_library'\)"):
        load_agent(tmp_path)


def test_an_agent_of_another_tree(tmp_path: Path) -> None:
    """Agent and desktop are made for each other."""
    make_checkout(tmp_path / "a")
    (tmp_path / "b" / "desktop_env").mkdir(parents=True)
    (tmp_path / "b" / "desktop_env" / "__init__.py").write_text("")
    sys.path.insert(0, str(tmp_path / "b"))
    (tmp_path / "a" / "desktop_env" / "__init__.py").unlink()
    (tmp_path / "a" / "desktop_env").rmdir()
    with pytest.raises(ConfigError, match="name a checkout that has both"):
        load_agent(tmp_path / "a")
