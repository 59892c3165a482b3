"""What is the answer to a chat request? From the checked request to the JSON that the server sends, in two steps.

`plan` reads the pictures, renders the prompt, and decides the move; the server then lets the latency pass; `answer`
words it in vLLM's or SGLang's names.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Any

from legato_rl.fake.pictures import BadPicture, Pictures
from legato_rl.fake.player import next_move, thought
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.prefix_cache import PrefixCache
from legato_rl.fake.request import ChatRequest, Refusal, parse_request
from legato_rl.fake.sampling import Sample, sample
from legato_rl.fake.tokens import EOS, Prompt, decode, encode, render, token_entry, token_logprobs

DEFAULT_MODEL = "fake"
"""The model's name where every name is accepted."""
FORBIDDEN_FIELD = (
    "[{'type': 'extra_forbidden', 'loc': ('body', 'return_token_ids'), 'msg': 'Extra inputs are not permitted', 'input': True}]"
)


@dataclass(frozen=True)
class Plan:
    """A decided answer: what was asked, the prompt, the sampled tokens, and the seconds it is to take."""

    request: ChatRequest
    prompt: Prompt
    sample: Sample
    latency: float


class Chat:
    """The policy behind the server. Thread-safe."""

    def __init__(self, config: FakePolicyConfig) -> None:
        self._config = config
        self._pictures = Pictures()
        self._lock = Lock()
        self.cache = PrefixCache(config.cache_tokens)

    @property
    def model(self) -> str:
        """The model's name as /v1/models tells it."""
        return self._config.model or DEFAULT_MODEL

    def plan(self, body: Any) -> Plan:
        """Decide the answer. Refusal where the request is wrong."""
        config = self._config
        request = parse_request(body, config.max_model_len, config.max_images)
        if config.model is not None and request.model not in (None, config.model):
            text = f"The model `{request.model}` does not exist. Valid aliases: {config.model}."
            raise Refusal(404, text, "NotFoundError", "model")
        if request.return_token_ids is not None and not config.token_ids:
            raise Refusal(400, FORBIDDEN_FIELD)
        try:
            pictures = [self._pictures.of(url) for url in request.image_urls()]
        except BadPicture as error:
            raise Refusal(400, str(error)) from None
        prompt = render(request.messages, pictures, request.thinking)
        room = config.max_model_len - len(prompt.ids)
        if room < 1:
            raise Refusal(
                400,
                f"This model's maximum context length is {config.max_model_len} tokens. However, your prompt contains "
                f"at least {len(prompt.ids)} input tokens, which exceeds this limit even without any output tokens. "
                "Please reduce the length of the input prompt.",
                param="input_tokens",
            )
        seed, random = _randomness(request, prompt)
        sight = pictures[-1].sight if pictures else None
        text = next_move(sight, random, config.skill, config.malformed)
        if request.thinking:
            text = f"<think>\n{thought(sight)}\n</think>\n\n{text}"
        drawn = sample([*encode(text), EOS], request, min(request.limit or room, room), random)
        return Plan(request, prompt, drawn, config.latency_of(seed, len(drawn.ids)))

    def enter_cache(self, plan: Plan) -> int:
        """The request starts: tokens of its prompt that are cached. The prompt is cached from now on."""
        with self._lock:
            cached = self.cache.lookup(plan.prompt.keys)
            self.cache.insert(plan.prompt.keys)
        return cached

    def answer(self, plan: Plan, cached: int, created: int) -> dict[str, Any]:
        """The JSON body of the answer; `created` in seconds since the epoch."""
        request, ids = plan.request, plan.sample.ids
        with self._lock:
            self.cache.insert([*plan.prompt.keys, *ids])
        choice: dict[str, Any] = {
            "index": 0,
            "message": self._message(decode(ids)),
            "logprobs": {"content": self._entries(plan)} if request.logprobs else None,
            "finish_reason": plan.sample.finish_reason,
        }
        body: dict[str, Any] = {
            "id": f"chatcmpl-{secrets.token_hex(8)}",
            "object": "chat.completion",
            "created": created,
            "model": request.model or self.model,
            "choices": [choice],
            "usage": self._usage(plan, cached),
        }
        return self._as_sglang(body, plan) if self._config.sglang else self._as_vllm(body, plan)

    def _as_vllm(self, body: dict[str, Any], plan: Plan) -> dict[str, Any]:
        told = bool(plan.request.return_token_ids)
        body["choices"][0] |= {"stop_reason": None, "token_ids": plan.sample.ids if told else None}
        return body | {"system_fingerprint": "fake-policy", "prompt_token_ids": plan.prompt.ids if told else None}

    def _as_sglang(self, body: dict[str, Any], plan: Plan) -> dict[str, Any]:
        request, choice = plan.request, body["choices"][0]
        choice["matched_stop"] = EOS if plan.sample.finish_reason == "stop" else None
        if request.return_token_ids:
            choice["response_token_ids"] = plan.sample.ids
        if request.return_token_ids or request.return_prompt_token_ids:
            choice["prompt_token_ids"] = plan.prompt.ids
        return body | {"metadata": {"weight_version": self._config.weight_version or "default"}}

    def _message(self, text: str) -> dict[str, Any]:
        content: str | None = text
        reasoning: str | None = None
        if self._config.reasoning_parser:
            thoughts, mark, rest = text.removeprefix("<think>").partition("</think>")
            if mark or text.startswith("<think>"):
                reasoning, content = thoughts.strip("\n"), rest.lstrip("\n") if mark else None
        field = "reasoning_content" if self._config.sglang else "reasoning"
        return {"role": "assistant", "content": content, field: reasoning}

    def _entries(self, plan: Plan) -> list[dict[str, Any]]:
        drawn = plan.sample
        values = token_logprobs(plan.prompt.ids, drawn.ids, drawn.forced)
        entries = []
        for token, forced, value in zip(drawn.ids, drawn.forced, values, strict=True):
            name, data = token_entry(token)
            logprob = 0.0 if forced and self._config.logprobs_mode == "processed" else value
            entry = {"token": name, "logprob": logprob, "bytes": data}
            entries.append(entry | {"top_logprobs": [entry] if plan.request.top_logprobs else []})
        return entries

    def _usage(self, plan: Plan, cached: int) -> dict[str, Any]:
        prompt, completion = len(plan.prompt.ids), len(plan.sample.ids)
        images = {"image": plan.prompt.image_tokens} if plan.prompt.image_tokens else None
        details = {"cached_tokens": cached, "multimodal_tokens": images} if self._config.report_cached else None
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": details,
        }


def _randomness(request: ChatRequest, prompt: Prompt) -> tuple[int, Random]:
    """The request's seed and random numbers: the same for the same request and seed; without a seed always others."""
    seed = request.seed
    if request.temperature == 0:
        seed = seed or 0
    if seed is None:
        seed = secrets.randbits(63)
    digest = hashlib.sha256(array("q", prompt.keys).tobytes()).digest()
    return seed, Random(f"{seed}/{digest.hex()}")
