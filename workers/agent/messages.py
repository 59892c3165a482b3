"""Which messages make up a prompt? The system prompt, then the turns that are shown, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato_rl.workers.agent.prompt import COLLAPSED, instruction_prompt
from legato_rl.workers.agent.reasoning import replayed

Part = dict[str, Any]
Message = dict[str, Any]


def first_shown(turns: int, history_n: int) -> int:
    """The number (from 1) of the first turn in the prompt of turn `turns`: at most `history_n` turns come before it."""
    return max(1, turns - history_n)


def build_messages(
    system: str,
    instruction: str,
    urls: Sequence[str],
    responses: Sequence[str],
    summaries: Sequence[str],
    *,
    folded: int,
    history_n: int,
) -> list[Message]:
    """The chat messages for a turn. `urls` has a data URL for every turn, this one included; the others one fewer.

    The first `folded` turns show no screenshot. Turns after the first shown stand between `<tool_response>` tags, to
    the character: Qwen's chat template looks for them to find the last real question, and treats thoughts accordingly.
    """
    turns = len(urls)
    start = first_shown(turns, history_n)
    messages = [_message("system", _text(system))]
    for turn in range(start, turns + 1):
        hidden = turn <= folded
        screenshot = _text(COLLAPSED) if hidden else _image(urls[turn - 1])
        if turn == start:
            text = _text(instruction_prompt(instruction, summaries[: start - 1]))
            messages.append(_message("user", text) if hidden else _message("user", screenshot, text))
        else:
            messages.append(_message("user", _text("<tool_response>\n"), screenshot, _text("\n</tool_response>")))
        if turn < turns:
            messages.append(_message("assistant", _text(replayed(responses[turn - 1]))))
    return messages


def _message(role: str, *parts: Part) -> Message:
    return {"role": role, "content": list(parts)}


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _image(url: str) -> Part:
    return {"type": "image_url", "image_url": {"url": url}}
