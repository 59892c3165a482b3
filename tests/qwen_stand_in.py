"""What does OSWorld's QwenAgent look like from outside? A stand-in of its interface: constructor, lists, folding, traps.

Makes the module `mm_agents.qwen` in a folder that plays the checkout.
"""

from __future__ import annotations

from pathlib import Path

AGENT = """\
import base64, json, os, logging
from datetime import datetime
logger = None

def dump_debug_messages(messages, name, logger):
    with open(name, "w") as file:
        json.dump(messages, file)

class _QwenBaseAgent:
    def __init__(self, platform="ubuntu", model="qwen-vl", max_tokens=32768, top_p=0.9, temperature=0.0,
                 action_space="pyautogui", observation_type="screenshot", history_n=100, add_thought_prefix=False,
                 coordinate_type="relative", api_backend="openai", image_max=20, fold_size=10, collapse_text=None,
                 base_url=None, api_key=None, transport=None):
        if action_space != "pyautogui" or api_backend != "openai" or image_max < 1:
            raise ValueError("not supported")
        self.model, self.image_max, self.fold_size = model, image_max, fold_size
        self.thoughts, self.actions, self.observations, self.responses, self.screenshots = [], [], [], [], []
        self.folded_prefix_k = 0

    def reset(self, _logger=None, *args, **kwargs):
        global logger
        logger = _logger
        self.thoughts, self.actions, self.observations, self.responses, self.screenshots = [], [], [], [], []
        self.folded_prefix_k = 0

    def predict(self, instruction, obs):
        self.screenshots.append(base64.b64encode(obs["screenshot"]).decode())
        while len(self.screenshots) - self.folded_prefix_k > self.image_max:
            self.folded_prefix_k += self.fold_size
        text = datetime.now().strftime("The current date is %A, %B %d, %Y.")
        messages = [{"role": "system", "content": [{"type": "text", "text": text}]}]
        for i, shot in enumerate(self.screenshots):
            part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + shot}}
            if i < self.folded_prefix_k:
                part = {"type": "text", "text": "This screenshot has been collapsed."}
            messages.append({"role": "user", "content": [part, {"type": "text", "text": instruction}]})
            if i < len(self.responses):
                messages.append({"role": "assistant", "content": [{"type": "text", "text": self.responses[i]}]})
        dump_debug_messages(messages, "qwen_messages_step_%d.json" % len(self.actions), logger)
        response = self.call_llm({"model": self.model, "messages": messages, "temperature": 0.0}, self.model)
        if not response or not response.strip():
            self.screenshots.pop()
            return "", []
        self.responses.append(response)
        line, actions = self.parse_response(response, 10, 10, 10, 10)
        self.actions.append(line)
        return response, actions

    def parse_response(self, response, *sizes):
        if "boom" in response:
            raise TypeError("a coordinate is no number")
        if "<function=computer_use>" in response and "</tool_call>" in response:
            return "click", ["pyautogui.click(1, 2)"]
        return "", ["WAIT"] if "<tool_call" in response else ["DONE"]

    def call_llm(self, payload, model):
        raise AssertionError("the agent's own client was called")

class QwenAgent(_QwenBaseAgent):
    def __init__(self, *args, enable_thinking=False, reasoning_effort="xhigh", observation_type="screenshot", **kwargs):
        super().__init__(*args, observation_type=observation_type, **kwargs)
        self.enable_thinking = enable_thinking
"""


def make_checkout(folder: Path) -> Path:
    """A folder with such an agent, and with a `desktop_env` beside it."""
    for package in ("mm_agents/qwen", "desktop_env"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
    (folder / "mm_agents" / "__init__.py").write_text("")
    (folder / "mm_agents" / "qwen" / "main.py").write_text(AGENT)
    (folder / "mm_agents" / "qwen" / "__init__.py").write_text("from mm_agents.qwen.main import QwenAgent\n")
    return folder
