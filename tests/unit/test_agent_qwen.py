"""Does the agent lay out its prompts as OSWorld's does, and stay whole when a call fails?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from PIL import Image

from legato_rl.workers.agent import Agent, Observation
from legato_rl.workers.agent.qwen import QwenAgent

TODAY = "Monday, June 01, 2026"
CLICK = (
    "Action: press it\n<tool_call>\n<function=computer_use>\n<parameter=action>\nleft_click\n</parameter>\n"
    "<parameter=coordinate>\n{}\n</parameter>\n</function>\n</tool_call>"
)
GOOD = CLICK.format("[999, 0]")


def screen(number: int, size: tuple[int, int] = (64, 64)) -> Observation:
    """The `number`-th screenshot."""
    buffer = io.BytesIO()
    Image.new("RGB", size, (number, 0, 0)).save(buffer, format="PNG")
    return {"screenshot": buffer.getvalue()}


class Policy:
    """Answers with what it was given, in turn (the last one again and again), and keeps what it was asked."""

    def __init__(self, *answers: str | BaseException) -> None:
        self.answers = list(answers)
        self.payloads: list[dict[str, Any]] = []

    def __call__(self, payload: dict[str, Any], model: str) -> str:
        assert model == "m"
        self.payloads.append(payload)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def agent_with(policy: Policy, **settings: Any) -> QwenAgent:
    """An agent that asks `policy`."""
    agent = QwenAgent(model="m", today=TODAY, **settings)
    agent.call_llm = policy
    return agent


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def urls(payload: dict[str, Any]) -> list[str]:
    """The image URLs of a payload, in order."""
    parts = [part for message in payload["messages"] for part in message["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


INSTRUCTION = text(
    "\nChoose the next action from the screenshot, the instruction and the actions before.\n\n"
    "Instruction: do it\n\nPrevious actions:\nNone"
)


def test_the_first_two_turns() -> None:
    """Image and instruction first; then the replayed response, and the screenshot between the tool tags."""
    policy = Policy(GOOD)
    agent = agent_with(policy)
    assert agent.predict("do it", screen(0)) == (GOOD, ["pyautogui.click(64, 0)"])
    agent.predict("do it", screen(1))
    first, second = policy.payloads
    shots = agent.screenshots
    assert set(first) == {"model", "messages"}
    assert first["model"] == "m"
    system = first["messages"][0]
    assert system["role"] == "system"
    assert [part["type"] for part in system["content"]] == ["text"]
    assert first["messages"][1:] == [{"role": "user", "content": [image(shots[0]), INSTRUCTION]}]
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": [text("<think>\n\n</think>\n\n" + GOOD)]},
        {"role": "user", "content": [text("<tool_response>\n"), image(shots[1]), text("\n</tool_response>")]},
    ]


def test_turn_21_folds_ten_screenshots() -> None:
    """The first turn keeps its instruction only, the others a line of text; 11 images are left."""
    policy = Policy(GOOD)
    agent = agent_with(policy)
    for number in range(21):
        agent.predict("do it", screen(number))
    messages = policy.payloads[20]["messages"]
    collapsed = text("This screenshot has been collapsed.")
    assert messages[1] == {"role": "user", "content": [INSTRUCTION]}
    assert messages[19]["content"] == [text("<tool_response>\n"), collapsed, text("\n</tool_response>")]
    assert messages[21]["content"][1] == image(agent.screenshots[10])
    assert [len(urls(payload)) for payload in policy.payloads] == [*range(1, 21), 11]
    assert urls(policy.payloads[20]) == agent.screenshots[10:]


def test_old_turns_leave_the_prompt_and_are_listed() -> None:
    """With more than `history_n` turns before it, the first turn shown moves, and lists the summaries of the others."""
    policy = Policy(GOOD, "", GOOD)
    agent = agent_with(policy, history_n=2)
    for number in range(5):
        agent.predict("do it", screen(number))
    messages = policy.payloads[4]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"][0] == image(agent.screenshots[2])
    assert messages[1]["content"][1]["text"].endswith("Previous actions:\nStep 1: press it\nStep 2: No action")


def test_every_prompt_between_two_folds_begins_with_the_one_before() -> None:
    """Prompts are append-only there, which is what prefix caches live on."""
    policy = Policy(GOOD)
    agent = agent_with(policy, image_max=4, fold_size=2)
    for number in range(9):
        agent.predict("do it", screen(number))
    folds = []
    for turn, (before, after) in enumerate(zip(policy.payloads, policy.payloads[1:], strict=False), start=2):
        if after["messages"][: len(before["messages"])] != before["messages"]:
            folds.append(turn)
    assert folds == [5, 7, 9]


def test_a_screenshot_is_one_str_object_for_good() -> None:
    """Every later prompt holds the very object of the first, so that a dict of them hashes it once."""
    policy = Policy(GOOD)
    agent = agent_with(policy)
    for number in range(3):
        agent.predict("do it", screen(number))
    for payload in policy.payloads:
        assert all(used is kept for used, kept in zip(urls(payload), agent.screenshots, strict=False))


@pytest.mark.parametrize("failure", [TimeoutError("late"), KeyboardInterrupt()])
def test_a_failed_call_leaves_the_agent_as_it_was(failure: BaseException) -> None:
    """The exception goes through; the next predict shows the prompt as if the failed one had not been."""
    failing, steady = Policy(GOOD, failure, GOOD), Policy(GOOD)
    one, other = agent_with(failing, image_max=1, fold_size=1), agent_with(steady, image_max=1, fold_size=1)
    one.predict("do it", screen(0))
    other.predict("do it", screen(0))
    with pytest.raises(type(failure)):
        one.predict("do it", screen(1))
    assert (len(one.screenshots), len(one.responses), one.folded) == (1, 1, 0)
    one.predict("do it", screen(2))
    other.predict("do it", screen(2))
    assert failing.payloads[-1] == steady.payloads[-1]


def test_a_screenshot_that_is_no_image_leaves_the_agent_as_it_was() -> None:
    """It is a ValueError, and the policy is not asked."""
    policy = Policy(GOOD)
    agent = agent_with(policy)
    with pytest.raises(ValueError, match="no readable image"):
        agent.predict("do it", {"screenshot": b"GIF?"})
    assert (policy.payloads, agent.screenshots) == ([], [])


@pytest.mark.parametrize(
    ("response", "reason"),
    [("", "empty response"), (CLICK.format('["x", "y"]'), "coordinate"), (CLICK[:60], "no complete <tool_call>")],
)
def test_a_step_without_action_is_a_step(response: str, reason: str) -> None:
    """It has its place in the history, says why, and the next step goes on and clears the error."""
    policy = Policy(response, GOOD)
    agent: Agent = agent_with(policy)
    assert agent.predict("do it", screen(0)) == (response, [])
    assert agent.parse_error is not None
    assert reason in agent.parse_error
    assert agent.predict("do it", screen(1)) == (GOOD, ["pyautogui.click(64, 0)"])
    assert agent.parse_error is None
    assert policy.payloads[1]["messages"][2]["content"] == [text("<think>\n\n</think>\n\n" + response)]


def test_reset_forgets_everything() -> None:
    """The first prompt of the next episode equals that of a new agent."""
    policy = Policy("", GOOD)
    agent = agent_with(policy, image_max=1, fold_size=1)
    for number in (0, 1, 0):
        if number == 0:
            agent.reset()
        agent.predict("do it", screen(number))
    assert policy.payloads[0] == policy.payloads[2]


def test_the_system_prompt_offers_the_tool_and_the_given_date() -> None:
    """The function's JSON stands in tools tags; the date is the run's, in every prompt the same."""
    policy = Policy(GOOD)
    agent = agent_with(policy)
    agent.predict("do it", screen(0))
    system = policy.payloads[0]["messages"][0]["content"][0]["text"]
    tool = json.loads(system.split("<tools>\n")[1].split("\n</tools>")[0])["function"]
    assert tool["name"] == "computer_use"
    assert {"left_click", "hscroll", "call_user", "terminate"} < set(tool["parameters"]["properties"]["action"]["enum"])
    assert "1000x1000" in tool["description"]
    assert TODAY in system
    assert "This screenshot has been collapsed." in system


def test_absolute_coordinates_are_of_the_processed_image() -> None:
    """The prompt names the size of the image, and points are scaled back to the desktop's."""
    policy = Policy(CLICK.format("[80, 48]"))
    agent = agent_with(policy, coordinate="absolute")
    assert agent.predict("do it", screen(0, (150, 90)))[1] == ["pyautogui.click(75, 45)"]
    assert "160x96" in policy.payloads[0]["messages"][0]["content"][0]["text"]


@pytest.mark.parametrize("name", ["image_max", "fold_size", "history_n"])
def test_counts_below_one_are_refused(name: str) -> None:
    """The error names the setting."""
    setting: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        QwenAgent(model="m", today=TODAY, **setting)


def test_an_agent_without_policy_says_what_to_do() -> None:
    """A forgotten `call_llm` is named."""
    with pytest.raises(RuntimeError, match="call_llm"):
        QwenAgent(model="m", today=TODAY).predict("do it", screen(0))
