"""What can be set about the bundled policy server? The options of `legato-rl fake-policy`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError

from legato_rl.bad_input import one_sentence
from legato_rl.config import Frozen, Rate, Seconds, Seed
from legato_rl.errors import ConfigError
from legato_rl.fake.waits import long_tailed


class FakePolicyConfig(Frozen):
    """The bundled policy server: how well it plays, how fast it is, and which server it takes after.

    ConfigError names a wrong field.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 takes a free port."""
    model: str | None = None
    """The only model name that is known; None: every name is."""
    api_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """The key that everything under /v1 then asks for."""
    skill: Rate = 0.7
    """Share of moves that lead towards what the window asks for."""
    malformed: Rate = 0.05
    """Share of answers without a tool call that can be parsed."""
    latency: Seconds = 0.0
    """Mean seconds of one request in its slot."""
    tail: Annotated[float, Field(ge=0, le=3, allow_inf_nan=False)] = 0.0
    """Sigma of the log-normal factor (mean 1) on the latency."""
    tokens_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Adds the answer's tokens over this to the latency."""
    concurrency: Annotated[int, Field(ge=1)] = 64
    """Requests that run at once; further ones wait in order."""
    max_queued: Annotated[int, Field(ge=0)] | None = None
    """Requests that may wait; one more is answered 503."""
    cache_tokens: Annotated[int, Field(ge=0)] = 1_000_000
    """Tokens that the prefix cache holds; 0 switches it off."""
    report_cached: bool = True
    """Whether usage tells cached tokens (vLLM: --enable-prompt-tokens-details)."""
    max_model_len: Annotated[int, Field(ge=1)] = 131_072
    max_images: Annotated[int, Field(ge=0)] | None = None
    """Images that one prompt may hold."""
    token_ids: bool = True
    """False refuses `return_token_ids`, as a server does that forbids unknown fields."""
    reasoning_parser: bool = False
    """Moves `<think>` blocks out of the content."""
    logprobs_mode: Literal["raw", "processed"] = "raw"
    """Whether a forced token's logprob is the policy's own (raw) or 0 (processed)."""
    sglang: bool = False
    """Answers under SGLang's names in place of vLLM's."""
    weight_version: str | None = None
    """Told in each answer under `metadata` (SGLang)."""
    fail: Rate = 0.0
    """Share of requests answered 500."""
    keep_alive: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5.0
    """Seconds after which an idle connection is closed."""
    seed: Seed = 0
    """Of the latencies, and of which request fails."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_sentence(error)) from None

    def latency_of(self, seed: int, completion_tokens: int = 0) -> float:
        """Seconds that a request with this seed takes in its slot: a pure function, for simulators too."""
        per_token = completion_tokens / self.tokens_per_second if self.tokens_per_second else 0.0
        return long_tailed(self.latency, self.tail, self.seed, "latency", seed) + per_token
