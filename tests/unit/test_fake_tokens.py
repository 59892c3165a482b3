"""Are the fake policy's texts, ids, prompts and logprobs consistent?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from fake_play import actions_of
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.fake.player import good_move, next_move
from legato_rl.fake.request import ChatRequest
from legato_rl.fake.sampling import sample
from legato_rl.fake.sight import Sight
from legato_rl.fake.strip import Signs
from legato_rl.fake.tokens import EOS, IDS, IMAGE_PAD, VOCABULARY, decode, encode, render, token_entry, token_logprobs

MARKS = ["<think>", "</think>", "<tool_call>", "<|im_end|>", "<|image_pad|>"]
texts = st.lists(st.text(max_size=6) | st.sampled_from(MARKS), max_size=6).map("".join)


@dataclass(frozen=True)
class Shape:
    """A picture's size and identity."""

    width: int
    height: int
    identity: int = 0


@given(texts)
def test_text_survives(text: str) -> None:
    """Ids to text and back; a control mark in a text is no control token."""
    ids = encode(text)
    assert decode([*ids, EOS]) == text.rstrip("\ufffd")
    assert all(0 <= token < VOCABULARY for token in ids)
    assert not {EOS, IMAGE_PAD} & set(ids)


def test_half_a_character_is_lost_and_has_no_bytes() -> None:
    """As on a real server: the text drops it, and so does its logprob entry."""
    ids = encode("aé")
    assert decode(ids[:-1]) == "a"
    assert [token_entry(token) for token in ids] == [("a", [97]), ("", []), ("", [])]
    assert token_entry(EOS)[0] == "<|im_end|>"


@given(texts, st.booleans())
def test_a_replayed_answer_has_the_same_ids(answer: str, thinking: bool) -> None:
    """The next prompt begins with this prompt and the sampled ids: a trajectory is one sequence."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
    ]
    prompt = render(messages, [], thinking)
    ids = [*encode(answer), EOS]
    replay = answer if thinking else f"<think>\n\n</think>\n\n{answer}"
    longer = render([*messages, {"role": "assistant", "content": replay}, messages[1]], [], thinking)
    assert longer.ids[: len(prompt.ids) + len(ids)] == prompt.ids + ids


@pytest.mark.parametrize(("size", "tokens"), [((1920, 1088), 2040), ((640, 416), 260), ((1, 1), 1), ((320, 256), 80)])
def test_images_expand(size: tuple[int, int], tokens: int) -> None:
    """One placeholder per 32 × 32 pixels; the cache's keys tell pictures apart, the ids do not."""
    message = {"role": "user", "content": [{"type": "image_url"}]}
    one, other = (render([message], [Shape(*size, identity)], False) for identity in (1, 2))
    assert one.ids.count(IMAGE_PAD) == one.image_tokens == tokens
    assert one.ids == other.ids
    assert one.keys != other.keys
    assert IDS["<|vision_start|>"] in one.keys


@given(st.lists(st.integers(0, VOCABULARY - 1)), st.lists(st.integers(0, VOCABULARY - 1), max_size=20))
def test_logprobs_are_a_causal_function(prompt: list[int], ids: list[int]) -> None:
    """Finite, below 0, the same again, and blind to what comes after."""
    values = token_logprobs(prompt, ids)
    assert len(values) == len(ids)
    assert all(math.isfinite(value) and -5 < value < 0 for value in values)
    assert token_logprobs(prompt, ids[:-1]) == values[: len(ids[:-1])]
    assert all(value < -10 for value in token_logprobs(prompt, ids, [True] * len(ids)))


@pytest.mark.parametrize(
    ("fields", "limit", "ids", "reason"),
    [
        ({}, 9, [65, 66, EOS], "stop"),
        ({}, 2, [65, 66], "length"),
        ({}, 3, [65, 66, EOS], "stop"),
        ({"allowed_token_ids": [70]}, 2, [70, 70], "length"),
        ({"allowed_token_ids": [66, EOS]}, 1, None, None),
        ({"logit_bias": {EOS: 100}}, 9, [EOS], "stop"),
        ({"logit_bias": {str(EOS): -100}}, 4, [65, 66, 32, 32], "length"),
        ({"logit_bias": {71: 100}}, 2, [71, 71], "length"),
        ({"ignore_eos": True}, 4, [65, 66, 32, 32], "length"),
        ({"min_tokens": 4}, 5, [65, 66, 32, 32, 32], "length"),
    ],
)
def test_requests_bend_the_answer(fields: dict[str, Any], limit: int, ids: list[int] | None, reason: str | None) -> None:
    """Allowed ids, biases, limits and bans are obeyed, and what they forced is marked."""
    request = ChatRequest(messages=[], **fields)
    drawn = sample([65, 66, EOS], request, limit, Random(0))
    if ids is None:
        assert set(drawn.ids) <= set(request.allowed_token_ids or [])
    else:
        assert (drawn.ids, drawn.finish_reason) == (ids, reason)
        assert [not forced for forced in drawn.forced[:2]] == [a == b for a, b in zip(ids[:2], [65, 66], strict=False)]


signs = st.builds(
    Signs, st.integers(0, 3), st.integers(0, 63), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 2),
    st.integers(0, 3),
)  # fmt: skip


@given(signs, st.integers())
def test_every_state_has_a_move(said: Signs, seed: int) -> None:
    """Good and bad moves are single, well-formed calls; malformed answers are none."""
    sight = Sight(said, 0.2, 0.2, 0.5, 0.5)
    for skill in (0.0, 1.0):
        assert len(actions_of(next_move(sight, Random(seed), skill, 0.0), (640, 400))) == 1
    assert len(actions_of(good_move(sight), (640, 400))) == 1
    assert actions_of(next_move(None, Random(seed), 1.0, 0.0), (640, 400)) == ["DONE"]


def test_malformed_answers_are_of_several_kinds() -> None:
    """Prose, cut-off calls, unknown functions and half coordinates all come."""
    answers = {next_move(None, Random(seed), 1.0, 1.0) for seed in range(50)}
    assert len(answers) == 5
    assert sum("<tool_call>" not in answer for answer in answers) == 1
