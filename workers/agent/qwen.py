"""How is a desktop operated by a Qwen-VL policy? The project's own agent, of the same form as OSWorld's QwenAgent."""

from __future__ import annotations

from typing import Any

from legato_rl.workers.agent import CallLLM, Observation
from legato_rl.workers.agent.actions import Coordinates, Screen
from legato_rl.workers.agent.folding import folded_turns
from legato_rl.workers.agent.images import process_screenshot
from legato_rl.workers.agent.messages import build_messages
from legato_rl.workers.agent.parser import parse_response
from legato_rl.workers.agent.prompt import system_prompt


class QwenAgent:
    """An Agent (the protocol). Set `call_llm` before the first `predict`.

    `model` is the model's name that `call_llm` is given. `today` is the date in the prompt, as "Monday, June 01, 2026",
    fixed for a run. At most `image_max` screenshots are shown, older ones fold `fold_size` at a time; at most
    `history_n` turns come before the current one. `coordinate`: whether the policy points on a grid of 0 to 999
    ("relative") or in pixels of the image that it is shown ("absolute"). ValueError for a count below 1.
    """

    def __init__(
        self,
        *,
        model: str,
        today: str,
        image_max: int = 20,
        fold_size: int = 10,
        history_n: int = 100,
        coordinate: Coordinates = "relative",
    ) -> None:
        for name, value in (("image_max", image_max), ("fold_size", fold_size), ("history_n", history_n)):
            if value < 1:
                raise ValueError(f"{name} is {value}, and must be at least 1")
        self.model = model
        self.today = today
        self.image_max = image_max
        self.fold_size = fold_size
        self.history_n = history_n
        self.coordinate: Coordinates = coordinate
        self.call_llm: CallLLM = _no_policy
        self.reset()

    def reset(self) -> None:
        """Forget the conversation."""
        self.screenshots: list[str] = []
        """A data URL for every step, the same str object as in every prompt that shows it."""
        self.responses: list[str] = []
        self.summaries: list[str] = []
        self.folded = 0
        self.parse_error: str | None = None

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        """One step: show the policy the screen, return its response and the actions that it asks for.

        A blank response is a step like any other. Whatever is raised (by `call_llm`; ValueError for a screenshot that
        is no image) leaves the agent as it was, so that no screenshot is ever without its response.
        """
        shot = process_screenshot(obs["screenshot"])
        screenshots = [*self.screenshots, shot.url]
        folded = folded_turns(len(screenshots), self.folded, self.image_max, self.fold_size)
        messages = build_messages(
            system_prompt(self.today, self.coordinate, shot.processed_size),
            instruction,
            screenshots,
            self.responses,
            self.summaries,
            folded=folded,
            history_n=self.history_n,
        )
        response = self.call_llm({"model": self.model, "messages": messages}, self.model)
        parsed = parse_response(response, Screen(shot.original_size, shot.processed_size, self.coordinate))
        # Nothing above has changed the agent. From here on nothing raises.
        self.screenshots = screenshots
        self.responses.append(response)
        self.summaries.append(parsed.summary)
        self.folded = folded
        self.parse_error = parsed.parse_error
        return response, parsed.actions


def _no_policy(payload: dict[str, Any], model: str) -> str:
    raise RuntimeError(f"no policy is attached for {model!r}: set call_llm before predict")
