"""What did the model server answer? One completion out of a 200 body, whichever engine wrote it. PURE.

Names differ by engine: vLLM has `token_ids` and a top-level `prompt_token_ids`; SGLang `response_token_ids`, and the
prompt's ids inside the choice; LMDeploy `output_ids`; llama.cpp an `id` in each logprob entry. Reasoning is `reasoning`
(vLLM) or `reasoning_content` (the others). Ids and logprobs are taken as they come and never made again from text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from legato_rl.errors import PolicyError

NO_LOGPROB = -9999.0
"""What vLLM and TensorRT-LLM write for minus infinity; SGLang's floor lies below it. No sampled token has it."""

_ID_MARK = "token_id:"


class Aborted(Exception):
    """A 200 that was cut from outside (`finish_reason: "abort"`): no completion, so the call is asked again."""


@dataclass(frozen=True)
class Answer:
    """What a 200 body holds, unchecked: None is whatever the server did not say. `logprobs` may hold None and NaN."""

    content: str | None
    reasoning: str | None
    tool_calls: bool
    token_ids: list[int] | None
    prompt_token_ids: list[int] | None
    logprobs: list[float | None] | None
    tokens: list[str] | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    server_version: str | None
    fingerprint: str | None


@dataclass(frozen=True)
class Completion:
    """A checked answer: `logprobs` are finite, one for each of `token_ids` (or of `tokens`, where there are no ids).

    `content` is None where the server moved the whole text into `reasoning`. `tokens` is None where there are ids.
    `server_version` is the server's own name of its weights.
    """

    content: str | None
    reasoning: str | None
    token_ids: list[int] | None
    prompt_token_ids: list[int] | None
    logprobs: list[float]
    tokens: list[str] | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    server_version: str | None


def parse_completion(body: bytes) -> Completion:
    """The completion in the 200 body `body`.

    Aborted where it was cut from outside. PolicyError, never to be asked again, by type: `bad_answer` (a field of the
    wrong type), `tool_parser`, `no_logprobs`, `bad_logprobs` (null, not finite, or the floor that stands for none),
    `length_mismatch` (ids, logprobs and the server's own count differ).

    A null content is kept: with reasoning it is a text that a reasoning parser moved whole (an answer cut while still
    thinking is the policy's doing); without, it is the empty text, which SGLang writes as null. Whether the server is
    set up so that this happens to every answer is for probe and pre-flight to say.
    """
    return check(read_answer(body))


def check(answer: Answer) -> Completion:
    """`answer` as a completion to train on. PolicyError as `parse_completion`."""
    if answer.tool_calls:
        raise PolicyError(
            "tool_parser",
            "the server took tool calls out of content, so text and ids differ: start it without --tool-call-parser",
        )
    if answer.logprobs is None and not (answer.token_ids == [] and not answer.completion_tokens):
        raise PolicyError("no_logprobs", "the answer has no logprobs: serve the model with an engine that returns them")
    logprobs: list[float] = []
    for n, value in enumerate(answer.logprobs or []):
        if value is None or not math.isfinite(value) or value <= NO_LOGPROB:
            raise PolicyError("bad_logprobs", f"logprob {n} of the answer is {value}: check the weights for NaN")
        logprobs.append(value)
    counts = {"logprobs": len(logprobs)}
    if answer.token_ids is not None:
        counts["token ids"] = len(answer.token_ids)
    if answer.completion_tokens is not None:
        counts["completion_tokens"] = answer.completion_tokens
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise PolicyError("length_mismatch", f"the answer has {told}: use an engine that keeps them equal")
    content = answer.content
    if content is None and answer.reasoning is None:
        content = ""
    return Completion(
        content=content,
        reasoning=answer.reasoning,
        token_ids=answer.token_ids,
        prompt_token_ids=answer.prompt_token_ids,
        logprobs=logprobs,
        tokens=None if answer.token_ids is not None else answer.tokens,
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        server_version=answer.server_version,
    )


def read_answer(body: bytes) -> Answer:
    """The fields of the 200 body `body`, under any engine's names.

    Aborted, whatever else it holds, where it was cut from outside; PolicyError `bad_answer` for a wrong type.
    """
    try:
        top = _object("the answer", json.loads(body))
    except (ValueError, RecursionError):
        raise _bad("the answer", "no JSON") from None
    choices = _list("choices", top.get("choices"))
    if len(choices) != 1:
        raise _bad("choices", f"a list of {len(choices)}")
    choice = _object("choices.0", choices[0])
    if choice.get("finish_reason") == "abort":
        raise Aborted("the server aborted the call")
    message = _object("choices.0.message", choice.get("message"))
    usage = _object("usage", top.get("usage") or {})
    meta = _object("choices.0.meta_info", choice.get("meta_info") or {})
    details = _object("usage.prompt_tokens_details", usage.get("prompt_tokens_details") or {})
    entries = _entries(choice, meta)
    reasoning = _text("choices.0.message.reasoning", message.get("reasoning"))
    if reasoning is None:
        reasoning = _text("choices.0.message.reasoning_content", message.get("reasoning_content"))
    prompt_ids = _ids("prompt_token_ids", top.get("prompt_token_ids"))
    if prompt_ids is None:
        prompt_ids = _ids("choices.0.prompt_token_ids", choice.get("prompt_token_ids"))
    metadata = _object("metadata", top.get("metadata") or {})
    version = metadata.get("weight_version", meta.get("weight_version"))
    timings = _object("timings", top.get("timings") or {})
    cached = _first(details.get("cached_tokens"), meta.get("cached_tokens"), timings.get("cache_n"))
    return Answer(
        content=_text("choices.0.message.content", message.get("content")),
        reasoning=reasoning,
        tool_calls=bool(message.get("tool_calls")),
        token_ids=_answer_ids(choice, entries),
        prompt_token_ids=prompt_ids,
        logprobs=_logprobs(entries),
        tokens=_tokens(entries),
        finish_reason=_text("choices.0.finish_reason", choice.get("finish_reason")),
        prompt_tokens=_count("usage.prompt_tokens", usage.get("prompt_tokens")),
        completion_tokens=_count("usage.completion_tokens", usage.get("completion_tokens")),
        cached_tokens=_count("cached_tokens", cached),
        server_version=None if version is None else str(version),
        fingerprint=_text("system_fingerprint", top.get("system_fingerprint")),
    )


def _entries(choice: dict[str, Any], meta: dict[str, Any]) -> list[dict[str, Any]] | None:
    """One entry a sampled token, in the shape of OpenAI's `logprobs.content`; None where there are none."""
    block = _object("choices.0.logprobs", choice.get("logprobs") or {})
    if block.get("content") is not None:
        content = _list("choices.0.logprobs.content", block["content"])
        return [_object(f"choices.0.logprobs.content.{n}", entry) for n, entry in enumerate(content)]
    # SGLang's meta_info and LMDeploy's choice: [logprob, id, …] a token.
    rows = _first(meta.get("output_token_logprobs"), choice.get("output_token_logprobs"))
    if rows is None:
        return None
    entries = []
    for n, row in enumerate(_list("output_token_logprobs", rows)):
        row = _list(f"output_token_logprobs.{n}", row)
        if len(row) < 2:
            raise _bad(f"output_token_logprobs.{n}", f"a list of {len(row)}")
        entries.append({"logprob": row[0], "id": row[1]})
    return entries


def _answer_ids(choice: dict[str, Any], entries: list[dict[str, Any]] | None) -> list[int] | None:
    ids: list[int] | None
    for name in ("token_ids", "response_token_ids", "output_ids"):
        ids = _ids(f"choices.0.{name}", choice.get(name))
        if ids is not None:
            return ids
    if not entries:
        return None
    found = [_first(entry.get("token_id"), entry.get("id"), _marked(entry.get("token"))) for entry in entries]
    ids = None if None in found else _ids("choices.0.logprobs.content", found)
    return ids


def _marked(token: Any) -> int | None:
    """The id in vLLM's `token_id:123`; None for any other text."""
    if isinstance(token, str) and token.startswith(_ID_MARK) and token[len(_ID_MARK) :].isdecimal():
        return int(token[len(_ID_MARK) :])
    return None


def _logprobs(entries: list[dict[str, Any]] | None) -> list[float | None] | None:
    if entries is None:
        return None
    values: list[float | None] = []
    for n, entry in enumerate(entries):
        value = entry.get("logprob")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _bad(f"choices.0.logprobs.content.{n}.logprob", value)
        values.append(None if value is None else _float(value))
    return values


def _float(value: int | float) -> float:
    """`value` as a float; an integer beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _tokens(entries: list[dict[str, Any]] | None) -> list[str] | None:
    if entries is None or not all(isinstance(entry.get("token"), str) for entry in entries):
        return None
    return [entry["token"] for entry in entries]


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _typed(kind: Callable[[Any], bool]) -> Callable[[str, Any], Any]:
    """A reader that returns its value as it is, or raises `bad_answer` naming the field."""

    def read(field: str, value: Any) -> Any:
        if not kind(value):
            raise _bad(field, value)
        return value

    return read


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_counts(values: list[Any]) -> bool:
    """Whether all are counts; by type and minimum in C, since a prompt has 41,000 ids."""
    return not values or (set(map(type, values)) == {int} and min(values) >= 0)


_object = _typed(lambda value: isinstance(value, dict))
_list = _typed(lambda value: isinstance(value, list))
_text = _typed(lambda value: value is None or isinstance(value, str))
_count = _typed(lambda value: value is None or _is_count(value))
_ids = _typed(lambda value: value is None or (isinstance(value, list) and _are_counts(value)))


def _bad(field: str, value: Any) -> PolicyError:
    told = value if isinstance(value, str) else json.dumps(value)
    return PolicyError(
        "bad_answer", f"{field} is {told[:100]}: no chat completion has that, so check what the policy URL serves"
    )
