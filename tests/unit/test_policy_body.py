"""Is the body that leaves the one that the record can rebuild? Sampling keys, seeds, joined JSON, images by name."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.config import PolicyConfig
from legato_rl.policy.body import call_seed, canonical_body, message_fragment, sampling_params, wire_body

URL = "http://127.0.0.1:8000/v1"
texts = st.text() | st.sampled_from(['"', "\\", "\ud800", "legato-image://", '"url":"legato-image://'])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
messages = st.fixed_dictionaries({"role": texts, "content": values})
pngs = st.binary(min_size=1, max_size=40)


def image_part(sha256: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image_name(sha256)}}


def test_every_knob_is_sent() -> None:
    """Nothing that changes what is sampled is left to the model's own generation config."""
    params = sampling_params(PolicyConfig(URL, "m", temperature=0.7, top_p=0.9, max_tokens=5, thinking=True), seed=3)
    assert params == {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 5,
        "stream": False,
        "n": 1,
        "logprobs": True,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": True},
        "seed": 3,
    }


def test_no_seed_is_sent_without_one() -> None:
    """A server draws its own random numbers unless the run has a seed."""
    assert "seed" not in sampling_params(PolicyConfig(URL, "m"), None)


def test_extra_body_wins_and_template_arguments_are_merged() -> None:
    """What the user names stands; the thinking switch stays beside the template's other arguments."""
    extra = {"top_k": 20, "chat_template_kwargs": {"preserve_thinking": True}, "priority": 1}
    params = sampling_params(PolicyConfig(URL, "m", extra_body=extra), None)
    assert (params["top_k"], params["priority"]) == (20, 1)
    assert params["chat_template_kwargs"] == {"enable_thinking": False, "preserve_thinking": True}


def test_seeds_differ_for_every_call() -> None:
    """Attempts of a group, tries and steps sample differently, and the same call always the same."""
    keys = [(s, g, a, t, n) for s in (0, 1) for g in ("a", "b") for a in range(4) for t in (0, 1) for n in range(4)]
    seeds = [call_seed(*key) for key in keys]
    assert len(set(seeds)) == len(keys)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [call_seed(*key) for key in keys]


@given(st.dictionaries(texts.filter(lambda name: name != "messages"), values, max_size=5), st.lists(messages, max_size=4))
def test_joined_body_is_the_canonical_json_of_the_whole(params: dict[str, Any], history: list[dict[str, Any]]) -> None:
    """Joining ready-made messages gives the very bytes of encoding everything anew."""
    ready = [canonical_json(message) for message in history]
    whole = canonical_json({**params, "messages": history})
    assert canonical_body(params, ready) == whole
    assert b"".join(wire_body(params, ready)) == whole


def test_messages_among_the_parameters_are_refused() -> None:
    """A body has its messages once."""
    with pytest.raises(ValueError, match="messages"):
        canonical_body({"messages": []}, [])


@given(messages, st.lists(pngs, max_size=3), texts)
def test_fragment_is_the_message_with_data_urls(message: dict[str, Any], images: list[bytes], text: str) -> None:
    """Image parts carry their bytes; everything else, texts that look like an image's name too, stays as it is."""
    blobs = {sha256_hex(png): png for png in images}
    quoted = [{"type": "text", "text": f'"url":"{image_name(sha)}" {text}'} for sha in blobs]
    other = [{"type": "picture", "url": image_name(sha), '"url': image_name(sha)} for sha in blobs]
    stored = {**message, "content": [*quoted, *other, *map(image_part, blobs), "tail"]}
    expected = json.loads(canonical_json(stored))
    for part in expected["content"]:
        if isinstance(part, dict) and part["type"] == "image_url":
            png = blobs[part["image_url"]["url"].removeprefix("legato-image://")]
            part["image_url"]["url"] = "data:image/png;base64," + b64encode(png).decode()
    assert message_fragment(canonical_json(stored), blobs) == canonical_json(expected)


@given(messages)
def test_fragment_of_a_message_without_images_is_the_message(message: dict[str, Any]) -> None:
    """Text costs nothing."""
    stored = canonical_json(message)
    assert message_fragment(stored, {}) == stored


def test_fragment_names_a_missing_image() -> None:
    """A hash whose bytes are not there is never sent as a name."""
    stored = canonical_json({"role": "user", "content": [image_part("0" * 64)]})
    with pytest.raises(KeyError, match="0" * 64):
        message_fragment(stored, {})
