"""What does a model server give? One function for each question, asked of the server itself.

Every function raises PolicyError, in one sentence, where the server gives no answer to judge by.
"""

from __future__ import annotations

import io
import json
import re
import secrets
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from legato_rl.errors import PolicyError
from legato_rl.policy.answer import Answer
from legato_rl.policy.body import sampling_params
from legato_rl.policy.client import PolicyClient
from legato_rl.policy.verdicts import judge

LogprobsMode = Literal["raw", "processed", "unknown"]
"""Of which distribution logprobs are: the model's own, the one that was sampled from, or nobody can tell."""

PICTURE = 64
"""Pixels of a test image's side."""
MOST_IMAGES = 64
"""Images that are sent at most to see whether as many fit: a run may want any number."""
LONG_WORDS = 600
"""Words of the long prompt: over 300 tokens, so that caches which hold whole blocks have some to hold."""
SHORTER = ((10, 300), (5, 100), (2, 20), (1, 0))
"""(images, words) of the prompts that are asked next where the context is short."""
RARE_ID = 100
"""A token id that every vocabulary has and no answer to the question starts with."""
SURE = -0.01
"""Logprobs above this are of something certain."""
LEAST_GAP = 0.05
"""Difference of two logprobs under which rounding hides the temperature."""

_ENGINES = {
    "vllm": ("//version", "version"),
    "sglang": ("//get_server_info", "version"),
    "llamacpp": ("//props", "build_info"),
}
"""Where an engine, named as it owns its models in /v1/models, tells its version."""


@dataclass(frozen=True)
class Models:
    """What /v1/models says; `names` is None where the server has no such list."""

    names: list[str] | None
    max_model_len: int | None
    owner: str | None


@dataclass(frozen=True)
class Engine:
    """The program that serves the model. None: it does not tell."""

    name: str | None
    version: str | None


def models(client: PolicyClient) -> Models:
    """The served models, and the context length of the policy's own."""
    status, body = client.get("/models")
    if status == 404:
        return Models(None, None, None)
    if status != 200:
        verdict = judge(status, body)
        raise PolicyError(verdict.type, verdict.message)
    entries = _dict(_json(body)).get("data")
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    none: dict[str, Any] = {}
    sole = entries[0] if len(entries) == 1 else none
    own = next((entry for entry in entries if entry.get("id") == client.policy.model), sole)
    length = own.get("max_model_len")
    owner = next((entry["owned_by"] for entry in (own, *entries) if isinstance(entry.get("owned_by"), str)), None)
    return Models(
        names=[str(entry.get("id")) for entry in entries],
        max_model_len=length if isinstance(length, int) else None,
        owner=owner,
    )


def engine(client: PolicyClient, owner: str | None) -> Engine:
    """The engine and its version, as far as it tells them. `owner` is the model's in /v1/models."""
    for name, (path, field) in _ENGINES.items():
        if owner in _ENGINES and name != owner:
            continue
        try:
            status, body = client.get(path)
        except PolicyError:
            continue
        version = _dict(_json(body)).get(field) if status == 200 else None
        if isinstance(version, str):
            return Engine(owner or name, version)
    return Engine(owner, None)


def text_call(client: PolicyClient, thinking: bool | None = None) -> Answer:
    """The answer to a short text; asked with `enable_thinking` as `thinking` says, else as the policy does."""
    question = f"{secrets.token_hex(4)} Describe a computer screen in one sentence."
    fields: dict[str, Any] = {}
    if thinking is not None:
        template = _dict(sampling_params(client.policy, None)["chat_template_kwargs"])
        fields["chat_template_kwargs"] = {**template, "enable_thinking": thinking}
    return client.answer([{"role": "user", "content": question}], max_tokens=16, **fields)


@dataclass(frozen=True)
class Pictures:
    """How a prompt of images fared: how many it held, why not those that were wanted, and the answers to it."""

    images: int
    short: Literal["", "limit", "context"]
    """What kept it short: nothing, the server's limit of images in a prompt, or its context."""
    answers: list[Answer]


def pictures(client: PolicyClient, wanted: int, times: int) -> Pictures:
    """Ask `times` times the same with `wanted` small images, MOST_IMAGES at most, or with as many as the server takes."""
    word = secrets.token_hex(4)
    limit = wanted = min(wanted, MOST_IMAGES)
    refusal = PolicyError("too_many_images", "the server takes no image: serve a vision model")
    for images, words in ((wanted, LONG_WORDS), *SHORTER):
        count = min(images, limit)
        while count:
            messages = [_picture_message(word, count, words)]
            try:
                answers = [client.answer(messages, max_tokens=4) for _ in range(times)]
                return Pictures(count, "" if count == wanted else "limit" if count == limit else "context", answers)
            except PolicyError as error:
                refusal = error
                if error.type == "context_length":
                    break
                if error.type != "too_many_images":
                    raise
                told = re.search(r"(\d+) image", str(error))
                limit = count = int(told[1]) if told and int(told[1]) < count else count // 2
    raise refusal


def logprobs_mode(client: PolicyClient) -> LogprobsMode:
    """Whether logprobs are raw or processed.

    A server that can be held to one token tells at once: processed, that token is certain. Of another, the distance of
    two tokens' logprobs is compared at temperature 1 and 0.5: processed, it doubles.
    """
    messages = [{"role": "user", "content": "Describe a computer screen in one sentence."}]
    try:
        answer = client.answer(messages, max_tokens=1, temperature=1.0, allowed_token_ids=[RARE_ID])
        if answer.token_ids == [RARE_ID] and answer.logprobs and answer.logprobs[0] is not None:
            return "processed" if answer.logprobs[0] > SURE else "raw"
    except PolicyError:
        pass  # it refuses the field, so the other way is tried
    try:
        warm, cool = (
            _top_logprobs(client.ask(messages, max_tokens=1, temperature=temperature, top_logprobs=5))
            for temperature in (1.0, 0.5)
        )
    except PolicyError:
        return "unknown"
    both = sorted(warm.keys() & cool.keys(), key=lambda token: warm[token])
    if len(both) < 2 or warm[both[-1]] - warm[both[0]] < LEAST_GAP:
        return "unknown"
    stretch = (cool[both[-1]] - cool[both[0]]) / (warm[both[-1]] - warm[both[0]])
    return "processed" if stretch > 1.5 else "raw"


def parser_took_all(answer: Answer) -> bool:
    """Whether a reasoning parser at the server moved the whole text out of `content`."""
    return answer.content is None and bool(answer.reasoning or len(answer.token_ids or ()) > 1)


def _picture_message(word: str, images: int, words: int) -> dict[str, Any]:
    text = f"{word} " + " ".join(f"word {n % 10}" for n in range(words // 2)) + " How many pictures are these?"
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for n in range(images):
        buffer = io.BytesIO()
        Image.new("RGB", (PICTURE, PICTURE), (n % 256, 255 - n % 256, n // 256 % 256)).save(buffer, "PNG")
        url = "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": "user", "content": parts}


def _top_logprobs(body: bytes) -> dict[str, float]:
    """The logprobs of the likeliest first tokens, by token; empty where the server tells none."""
    try:
        entries = _json(body)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {str(entry["token"]): float(entry["logprob"]) for entry in entries if float(entry["logprob"]) > -1000}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
