"""Which tokens does an answer have? The policy's own, bent as the request's biases, limits and bans ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from legato_rl.fake.request import ChatRequest
from legato_rl.fake.tokens import EOS

CERTAIN = 20.0
"""A bias of this much decides, whatever the policy's own logits are."""
FILLER = ord(" ")
"""Stands where the policy has nothing more to say but may not end."""


@dataclass(frozen=True)
class Sample:
    """Sampled ids, which of them the request forced, and `stop` or `length`."""

    ids: list[int]
    forced: list[bool]
    finish_reason: str


def sample(own: Sequence[int], request: ChatRequest, limit: int, random: Random) -> Sample:
    """Emit `own` (which ends in EOS) one by one as far as the request allows; at most `limit` tokens."""
    allowed = request.allowed_token_ids
    pushed = {token: bias for token, bias in request.logit_bias.items() if bias >= CERTAIN}
    always = max(pushed, key=lambda token: pushed[token]) if pushed else None
    banned = {token for token, bias in request.logit_bias.items() if bias <= -CERTAIN}
    ids: list[int] = []
    forced: list[bool] = []
    for nth in range(limit):
        wanted = own[nth] if nth < len(own) else FILLER
        token = wanted
        if always is not None:
            token = always
        elif token in banned:
            token = FILLER
        if allowed is not None and token not in allowed:
            token = random.choice(allowed)
        if token == EOS and (request.ignore_eos or nth < request.min_tokens):
            token = FILLER
        ids.append(token)
        forced.append(token != wanted)
        if token == EOS:
            return Sample(ids, forced, "stop")
    return Sample(ids, forced, "length")
