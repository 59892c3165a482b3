"""What is sent to the model server? The body of a chat completion, built by joining ready-made pieces. PURE.

The same join makes the body that leaves (images as data URLs) and the one that is hashed (images by name), so the two
cannot differ in anything but the images.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from legato_rl.canonical import canonical_json, image_hash, sha256_hex
from legato_rl.config import PolicyConfig

NEUTRAL: dict[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Knobs that a server may take from the model's own generation config unless they are sent, each doing nothing."""

_TEMPLATE = "chat_template_kwargs"
_MESSAGES = "messages"


@dataclass(frozen=True)
class Pieces:
    """A body that is sent piece by piece and never joined: 20 screenshots are 27 MB, and every call in flight has them."""

    pieces: list[bytes]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


def sampling_params(policy: PolicyConfig, seed: int | None) -> dict[str, Any]:
    """The whole body less `model` and `messages`. `seed` is the call's own (call_seed); None sends none.

    `policy.extra_body` is laid over it, so a sampling key that the user names there wins; `chat_template_kwargs` are
    merged key by key.
    """
    params: dict[str, Any] = {
        **NEUTRAL,
        "temperature": policy.temperature,
        "top_p": policy.top_p,
        "max_tokens": policy.max_tokens,
        "stream": False,
        "n": 1,
        "logprobs": True,
        "return_token_ids": True,
        _TEMPLATE: {"enable_thinking": policy.thinking},
    }
    if seed is not None:
        params["seed"] = seed
    for name, value in policy.extra_body.items():
        if name == _TEMPLATE and isinstance(value, dict):
            params[name] = {**params[name], **value}
        else:
            params[name] = value
    return params


def call_seed(seed: int, group: str, attempt: int, try_: int, step: int) -> int:
    """The seed of one model call, 0 … 2³¹ − 1. One seed for all calls would make the attempts of a group copies."""
    digest = sha256_hex(canonical_json([seed, group, attempt, try_, step]))
    return int(digest[:8], 16) >> 1


def canonical_body(params: Mapping[str, Any], messages_json: list[bytes]) -> bytes:
    """Canonical JSON of `{**params, "messages": […]}` from messages that are canonical JSON, images by name.

    `body_sha256` of a step is the hash of these bytes. `params` includes `model`.
    """
    return b"".join(_pieces(params, messages_json))


def wire_body(params: Mapping[str, Any], fragments: list[bytes]) -> Pieces:
    """The body that leaves: as `canonical_body`, from the messages' fragments (message_fragment)."""
    return Pieces(_pieces(params, fragments))


def message_fragment(message_json: bytes, images: Mapping[str, bytes]) -> bytes:
    """A stored message (canonical JSON) with each image's name replaced by its data URL.

    `images` holds PNG bytes by hash; KeyError for one that is not there. Only the URLs of image parts are replaced: a
    text that quotes an image's name stays as it is.
    """
    message = json.loads(message_json)
    content = message.get("content")
    # A text cannot hold its own SHA-256, so this marks the places and nothing else, and no image is JSON-encoded.
    mark = sha256_hex(message_json)
    urls: list[bytes] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and part.get("type") == "image_url" and isinstance(part.get("image_url"), dict):
            sha256 = image_hash(part["image_url"].get("url"))
            if sha256 is not None:
                part["image_url"]["url"] = mark
                urls.append(b"data:image/png;base64," + b64encode(images[sha256]))
    if not urls:
        return message_json
    pieces = canonical_json(message).split(mark.encode())
    woven = [pieces[0]]
    for url, piece in zip(urls, pieces[1:], strict=True):
        woven += (url, piece)
    return b"".join(woven)


def _pieces(params: Mapping[str, Any], messages: list[bytes]) -> list[bytes]:
    """The pieces of the canonical JSON object of `params` with the list of ready-made `messages` in its sorted place."""
    if _MESSAGES in params:
        raise ValueError("params hold messages: they are joined in from their fragments")
    before = canonical_json({name: value for name, value in params.items() if name < _MESSAGES})[1:-1]
    after = canonical_json({name: value for name, value in params.items() if name > _MESSAGES})[1:-1]
    pieces = [b"{", before, b"," if before else b"", b'"messages":[']
    for n, message in enumerate(messages):
        pieces += (b"," if n else b"", message)
    pieces += (b"]", b"," if after else b"", after, b"}")
    return [piece for piece in pieces if piece]
