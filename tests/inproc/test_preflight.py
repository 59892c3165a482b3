"""What is found out about a server before a run starts: facts, notices, and what stands in the way?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato_rl.canonical import canonical_json
from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.policy import preflight

THINKING = {"thinking": True}


def fly(server: dict[str, Any], **policy: Any) -> dict[str, Any]:
    """What the pre-flight finds at a bundled server with these settings."""
    with FakePolicyServer(FakePolicyConfig(**server)) as url:
        return preflight(PolicyConfig(url, "m", **policy))


def test_preflight_facts() -> None:
    """A good server at neutral sampling: facts for the record, no notices."""
    facts = fly({"model": "m"})
    assert facts == {
        "engine": "legato",
        "engine_version": facts["engine_version"],
        "max_model_len": 131072,
        "token_ids": True,
        "prompt_token_ids": True,
        "logprobs_mode": "raw",
        "weight_version": None,
        "notices": [],
    }
    assert json.loads(canonical_json(facts)) == facts


def test_the_weights_that_the_server_names() -> None:
    """SGLang's own version of them, which a resume compares."""
    assert fly({"model": "m", "sglang": True, "weight_version": "step-7"})["weight_version"] == "step-7"


NOTICED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"token_ids": False}, {}, "no token ids"),
    ({"reasoning_parser": True}, THINKING, "--reasoning-parser"),
    ({}, {"temperature": 0.7}, "temperature 0.7"),
    ({}, {"extra_body": {"top_k": 20}}, "top_k 20"),
    ({}, {"extra_body": {"structured_outputs": {"regex": "a"}}}, "structured_outputs"),
    ({"logprobs_mode": "processed"}, {"top_p": 0.9}, "top_p 0.9"),
    ({"max_images": 7}, {}, "the server takes 7 images in a prompt: raise --limit-mm-per-prompt or run with --image-max 7"),
    (
        {"max_model_len": 46_847},
        {},
        "the server's context of 46,847 tokens is short, since 20 screenshots of 1920x1080, their text and",
    ),
    ({"max_model_len": 46_848}, {"max_tokens": 2049}, "an answer of 2,049 tokens are about 46,849 tokens: serve a longer"),
    ({"max_model_len": 2000}, {}, "or lower --screen or --max-tokens"),
]


@pytest.mark.parametrize(("server", "policy", "words"), NOTICED)
def test_preflight_notices(server: dict[str, Any], policy: dict[str, Any], words: str) -> None:
    """What a run may go on with, but must say loudly, is one sentence."""
    (notice,) = fly(server, **policy)["notices"]
    assert words in notice


def test_processed_logprobs_include_the_temperature() -> None:
    """Then they are of the distribution that was sampled, and there is nothing to say."""
    assert fly({"logprobs_mode": "processed"}, temperature=0.7)["notices"] == []


def test_a_run_of_few_and_small_screens_has_room() -> None:
    """The notices are about the run's own prompts."""
    with FakePolicyServer(FakePolicyConfig(max_images=3, max_model_len=6400)) as url:
        policy = PolicyConfig(url, "m")
        assert preflight(policy, image_max=3, screen_size=(320, 240))["notices"] == []
        assert len(preflight(policy, image_max=4, screen_size=(640, 480))["notices"]) == 2


def test_a_run_may_want_any_number_of_screenshots() -> None:
    """No more images are made than it takes to see that many fit."""
    with FakePolicyServer(FakePolicyConfig(max_model_len=10**12)) as url:
        assert preflight(PolicyConfig(url, "m"), image_max=10**6)["notices"] == []


REFUSALS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"api_key": "right"}, {"api_key": "wrong"}, "LEGATO_POLICY_KEY"),
    ({"model": "other"}, {}, "--model"),
    ({"max_model_len": 20}, {}, "context"),
    ({"max_images": 0}, {}, "--limit-mm-per-prompt"),
    ({"fail": 1.0}, {"retries": 0}, "500"),
]


@pytest.mark.parametrize(("server", "policy", "words"), REFUSALS)
def test_preflight_errors(server: dict[str, Any], policy: dict[str, Any], words: str) -> None:
    """One sentence with the URL and what to do, before anything is started; the key is not in it."""
    with pytest.raises(ConfigError) as caught:
        fly(server, **policy)
    message = str(caught.value)
    assert message.startswith("policy-url is 'http://127.0.0.1:")
    assert words in message
    assert "\n" not in message
    assert "wrong" not in message
