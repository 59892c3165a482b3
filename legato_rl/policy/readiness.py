"""May a run start on this model server? Asked before any desktop starts; the first thing in the way is an error."""

from __future__ import annotations

from typing import Any

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError, PolicyError
from legato_rl.policy import survey
from legato_rl.policy.answer import Aborted, Answer, check
from legato_rl.policy.body import NEUTRAL, sampling_params
from legato_rl.policy.client import PolicyClient
from legato_rl.policy.room import IMAGE_MAX, SCREEN_SIZE, Wanted, images_remedy

_NEUTRAL: dict[str, Any] = {**NEUTRAL, "temperature": 1.0, "top_p": 1.0}
_CONSTRAINTS = ("structured_outputs", "response_format", "guided_json", "logit_bias", "allowed_token_ids", "min_tokens")
"""Further fields of a body that change what is sampled."""


def preflight(
    policy: PolicyConfig,
    clock: Clock = SYSTEM_CLOCK,
    *,
    image_max: int = IMAGE_MAX,
    screen_size: tuple[int, int] = SCREEN_SIZE,
) -> dict[str, Any]:
    """What the run should know of the server, for `run.json`. Its prompts hold up to `image_max` screens of that size.

    `engine`, `engine_version`, `max_model_len`, `weight_version` (each null where the server does not tell), `token_ids`
    and `prompt_token_ids` (whether they are on offer), `logprobs_mode` (`raw`, `processed`, `unknown`), and `notices`: the
    sentences to show to people. ConfigError, in one sentence, for whatever would fail every rollout.
    """
    try:
        with PolicyClient(policy, clock) as client:
            served = survey.models(client)
            answer = survey.text_call(client)
            engine = survey.engine(client, served.owner)
            _check(answer, policy.thinking)
            mode = survey.logprobs_mode(client)
            pictures = survey.pictures(client, image_max, times=1)
    except (PolicyError, Aborted) as error:
        raise ConfigError(f"policy-url is {policy.url!r}: {error}") from None
    token_ids = answer.token_ids is not None
    notices = []
    if not token_ids:
        notices.append("the server returns no token ids: this run has logprobs only, which cannot be trained on exactly")
    elif answer.prompt_token_ids is None:
        notices.append("the server returns no prompt ids: the prompts' tokens are not in the record")
    if answer.reasoning is not None and policy.thinking:
        notices.append(
            "a reasoning parser at the server splits content from ids: start it without --reasoning-parser, since an "
            "answer cut while thinking has no content there"
        )
    notices += room_notices(Wanted(image_max, screen_size, policy.max_tokens), served.max_model_len, pictures)
    notices += sampling_notices(policy, mode, engine.name)
    return {
        "engine": engine.name,
        "engine_version": engine.version,
        "max_model_len": served.max_model_len,
        "token_ids": token_ids,
        "prompt_token_ids": answer.prompt_token_ids is not None,
        "logprobs_mode": mode,
        "weight_version": answer.server_version,
        "notices": notices,
    }


def room_notices(wanted: Wanted, context: int | None, pictures: survey.Pictures) -> list[str]:
    """A sentence each where a prompt may not hold the run's screenshots: their number, or their tokens."""
    notices = []
    if pictures.short == "context" and context is None:
        notices.append(f"{pictures.images} small images fill the server's context: serve a longer one (vLLM: --max-model-len)")
    if pictures.short == "limit":
        number = f"{pictures.images} image" + ("" if pictures.images == 1 else "s")
        notices.append(f"the server takes {number} in a prompt: {images_remedy(pictures.images)}")
    if context is not None and context < wanted.tokens:
        notices.append(f"the server's context of {context:,} tokens is short, since {wanted.context_remedy(context)}")
    return notices


def sampling_notices(policy: PolicyConfig, mode: survey.LogprobsMode, engine: str | None) -> list[str]:
    """A sentence where logprobs are, or may be, not of the distribution that was sampled; else nothing."""
    params = sampling_params(policy, None)
    bent = [f"{name} {params[name]}" for name, neutral in _NEUTRAL.items() if params[name] != neutral]
    bent += [name for name in _CONSTRAINTS if params.get(name)]
    if not bent:
        return []
    told = ", ".join(bent)
    remedy = "sample with temperature 1, top_p 1 and no penalties, or start vLLM with --logprobs-mode processed_logprobs"
    if mode == "raw":
        return [f"logprobs are raw, so with {told} they are not of the distribution that was sampled: {remedy}"]
    if mode == "unknown":
        return [f"nobody can tell whether the server's logprobs include {told}: {remedy}"]
    if engine != "vllm" and bent != [f"temperature {policy.temperature}"]:
        return [f"of {told}, this engine's logprobs may include the temperature only: {remedy}"]
    return []


def _check(answer: Answer, thinking: bool) -> None:
    """PolicyError where answers like this one would fail or blind every rollout."""
    check(answer)
    if survey.parser_took_all(answer) and not thinking:
        raise PolicyError(
            "reasoning_parser",
            "a reasoning parser at the server takes the answer out of content; start it without --reasoning-parser",
        )
