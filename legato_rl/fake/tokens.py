"""What are the fake policy's tokens? Bytes and a few specials, a chat template of Qwen's shape, and their logprobs.

Ids 0 to 255 are the bytes of UTF-8, so every text has exactly one spelling and every test can compute it. PURE.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<think>", "</think>", "<tool_call>", "</tool_call>",
)  # fmt: skip
IDS = {name: 256 + nth for nth, name in enumerate(SPECIALS)}
VOCABULARY = 256 + len(SPECIALS)
EOS = IDS["<|im_end|>"]
IMAGE_PAD = IDS["<|image_pad|>"]
PATCH = 32
"""Pixels along one side of the square that is one image token."""

_VISIBLE = {IDS[name]: name for name in SPECIALS[6:]}
"""Specials that are part of a text; the others vanish from it."""
_MARKS = {name: token for token, name in _VISIBLE.items()}
_SPLIT = re.compile("(" + "|".join(re.escape(name) for name in _MARKS) + ")")
_FORCED = 14.0


class HasSize(Protocol):
    """A picture: its size in pixels and the hash that tells it from others."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def identity(self) -> int: ...


@dataclass
class Prompt:
    """A rendered prompt. `ids` has every image expanded; `keys` tells images apart where `ids` cannot."""

    ids: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    """As `ids`, but an image's placeholders carry its identity (negative): what a prefix cache compares."""
    image_tokens: int = 0

    def add(self, ids: Iterable[int]) -> None:
        """Append ordinary tokens."""
        ids = list(ids)
        self.ids += ids
        self.keys += ids

    def add_image(self, picture: HasSize) -> None:
        """Append one picture between its vision marks."""
        count = max(1, round(picture.width / PATCH)) * max(1, round(picture.height / PATCH))
        self.add([IDS["<|vision_start|>"]])
        self.ids += [IMAGE_PAD] * count
        self.keys += [-1 - picture.identity] * count
        self.add([IDS["<|vision_end|>"]])
        self.image_tokens += count


def encode(text: str) -> list[int]:
    """Text to ids. Only `<think>` and `<tool_call>` marks are read as specials; the others stay bytes."""
    ids: list[int] = []
    for piece in _SPLIT.split(text):
        ids += [_MARKS[piece]] if piece in _MARKS else piece.encode("utf-8", "surrogatepass")
    return ids


def decode(ids: Iterable[int]) -> str:
    """Ids to text; invisible specials vanish, and so does half a character at the end."""
    data = b"".join(_bytes(token) for token in ids)
    return data.decode("utf-8", "replace").rstrip("\ufffd")


def token_entry(token: int) -> tuple[str, list[int]]:
    """A token as logprobs name it: its text and bytes, both empty for a part of a character."""
    if token >= 256:
        name = SPECIALS[token - 256]
        return name, list(name.encode())
    return (chr(token), [token]) if token < 128 else ("", [])


def _bytes(token: int) -> bytes:
    return bytes([token]) if token < 256 else _VISIBLE.get(token, "").encode()


def render(messages: Sequence[dict[str, Any]], pictures: Iterable[HasSize], thinking: bool) -> Prompt:
    """The prompt of a chat: one block per message and the opening of the answer.

    `content` is a string or a list of text and image parts; `pictures` are those of the image parts, in order. Without
    `thinking` the answer opens with an empty think block, so that its replay by the agent has the same ids.
    """
    prompt, found = Prompt(), iter(pictures)
    for message in messages:
        prompt.add([IDS["<|im_start|>"], *encode(f"{message['role']}\n")])
        content = message.get("content")
        for part in [{"type": "text", "text": content or ""}] if not isinstance(content, list) else content:
            if part["type"] == "text":
                prompt.add(encode(part["text"]))
            else:
                prompt.add_image(next(found))
        prompt.add([EOS, *encode("\n")])
    prompt.add([IDS["<|im_start|>"], *encode("assistant\n" if thinking else "assistant\n<think>\n\n</think>\n\n")])
    return prompt


def token_logprobs(prompt_ids: Sequence[int], ids: Sequence[int], forced: Sequence[bool] = ()) -> list[float]:
    """The logprob of each of `ids` after the prompt and the ids before it: a pure function, finite, below 0.

    `forced` marks tokens that a bias or a list of allowed tokens put in place of the policy's own: theirs are large and
    negative, as the policy's own distribution has them.
    """
    state = hashlib.blake2b(array("I", prompt_ids).tobytes(), digest_size=8)
    values = []
    for nth, token in enumerate(ids):
        state.update(struct.pack("<I", token))
        u = (int.from_bytes(state.copy().digest(), "big") >> 11) / 2**53
        value = 0.3 * math.log(1.0 - 0.98 * u) - 1e-4
        values.append(value - _FORCED if nth < len(forced) and forced[nth] else value)
    return values
