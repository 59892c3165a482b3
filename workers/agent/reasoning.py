"""How does a model's reasoning travel with its answer? As a think block in front of it, as the model writes it."""

from __future__ import annotations

import re

EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


def merge_reasoning(reasoning: str | None, content: str | None) -> str:
    """The text that an agent parses and replays: `content`, after a think block where a server gave reasoning apart.

    White space around the reasoning and before the content is dropped then, as OSWorld's agent does it.
    """
    thought = (reasoning or "").strip()
    if not thought:
        return content or ""
    return f"<think>\n{thought}\n</think>\n\n{(content or '').lstrip()}"


def replayed(response: str) -> str:
    """An earlier response as it stands in a later prompt: an empty think block in front, unless it begins with one.

    Always, with and without `--thinking`: Qwen's chat template writes one there too, and what it finds it leaves alone.
    """
    return response if _THOUGHT.match(response) else EMPTY_THOUGHT + response.lstrip("\n")
