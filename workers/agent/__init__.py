"""What is an agent? The seam at which a rollout loop and whatever builds its prompts meet.

An agent turns screenshots into prompts and responses into actions. It does not talk to a server, does not choose how
the policy is sampled, and does not touch the desktop: the run sets `call_llm`, and the loop runs the actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypedDict

CallLLM = Callable[[dict[str, Any], str], str]
"""`call_llm(payload, model)`: the response's text, reasoning merged in (see `reasoning.merge_reasoning`).

Of `payload` only `messages` counts. What it raises goes through `predict` to the loop.
"""


class Observation(TypedDict):
    """What the desktop shows: `screenshot` holds the bytes of one PNG."""

    screenshot: bytes


class Agent(Protocol):
    """One conversation with one policy, in plain blocking code; one thread at a time."""

    call_llm: CallLLM
    """Set by the run before the first `predict`."""

    parse_error: str | None
    """After `predict`: why the response gave no action although it should have; None where it gave some."""

    def reset(self) -> None:
        """Forget the conversation."""

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        """One step: the response's text, and its actions (pyautogui lines, or `WAIT`, `DONE`, `FAIL`) in order."""
