"""Can a server get the key into an error's text by quoting it? Over real sockets: wherever it quotes it, it is taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bad.policy_server import BadServer, Habit, answer
from captures_reader import answer_body

from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError, PolicyError
from legato_rl.policy.client import PolicyClient
from legato_rl.policy.offer import probe
from legato_rl.policy.readiness import preflight
from legato_rl.policy.upstream import Upstream, UpstreamError

KEY = "sk-very-secret"
PIECE = KEY[:5]
"""What no text may hold either: a key that is cut is half a key."""
HEALTHY = {"/health": answer(200, b"")}


def told(status: int, body: Any, key: str = KEY) -> str:
    """What is said of a call that was answered so."""
    with BadServer([answer(status, body)], HEALTHY) as server:
        calls = Upstream(PolicyConfig(server.url, "m", api_key=key))
        with pytest.raises(UpstreamError) as caught:
            calls.post_chat(b"{}", 8.0, "s")
    assert str(caught.value) == caught.value.verdict.message
    return caught.value.verdict.message


def quoting(field: str, value: Any) -> dict[str, Any]:
    """A good answer, but for one field of the wrong type."""
    body: dict[str, Any] = json.loads(answer_body("c3_token_ids_1_image"))
    inner = body if field in ("choices", "usage") else body["choices"][0]
    inner[field] = value
    return body


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500, 503])
@pytest.mark.parametrize("before", [0, 290, 293, 299])
def test_a_refusal_that_quotes_the_key(status: int, before: int) -> None:
    """Wherever it stands; also where the text is cut in the middle of it."""
    message = told(status, {"error": {"message": "x" * before + KEY + " is wrong", "type": KEY, "param": KEY}})
    assert PIECE not in message


@pytest.mark.parametrize("body", [f"<b>{KEY}</b>".encode(), {"detail": [{"input": KEY}]}, {"error": KEY}, [KEY]])
def test_a_refusal_of_any_shape_that_quotes_the_key(body: Any) -> None:
    """A page, FastAPI's list, vLLM's 401, no object at all."""
    assert PIECE not in told(401, body)


@pytest.mark.parametrize("before", [0, 90, 95, 99])
@pytest.mark.parametrize("field", ["choices", "usage", "message", "logprobs", "token_ids", "finish_reason"])
def test_an_answer_whose_field_quotes_the_key(field: str, before: int) -> None:
    """A 200 is told of with the value that is wrong, cut after 100 characters: never with the key, whole or cut."""
    value: Any = {"key": "x" * before + KEY} if field == "finish_reason" else "x" * before + KEY
    message = told(200, quoting(field, value))
    assert field in message
    assert PIECE not in message


def test_an_answer_that_is_the_key() -> None:
    """No JSON at all."""
    assert PIECE not in told(200, KEY.encode())


def test_a_client_is_told_no_key_either() -> None:
    """`from legato.rl import policy` calls the server on the same path."""
    with (
        BadServer([answer(200, quoting("choices", KEY))]) as server,
        PolicyClient(PolicyConfig(server.url, "m", api_key=KEY)) as client,
    ):
        with pytest.raises(PolicyError) as caught:
            client.complete([{"role": "user", "content": "hi"}])
    assert caught.value.type == "bad_answer"
    assert PIECE not in str(caught.value)


def test_an_answer_that_escapes_the_key_it_quotes() -> None:
    """JSON may be written with escapes that the key does not have: `/` comes as `\\/` from some gateways."""
    key = "sk-very/secret"
    body = rb'{"choices": "sk-very\/secret"}'
    assert "very" not in told(200, body, key)
    assert "very" not in told(200, body.replace(rb"\/", rb"\u002f"), key)
    assert "very" not in told(401, rb'{"error": "' + b"x" * 290 + rb'sk-very\/secret is wrong"}', key)


@pytest.mark.parametrize("habit", [answer(200, quoting("choices", KEY)), answer(401, {"error": f"no such key {KEY}"})])
def test_a_pre_flight_and_a_probe_tell_no_key(habit: Habit) -> None:
    """A gateway may quote the key in any answer, to /models too; neither error nor table passes it on."""
    with BadServer([habit], gets={"/v1/models": habit}) as server:
        policy = PolicyConfig(server.url, "m", api_key=KEY)
        with pytest.raises(ConfigError) as refused:
            preflight(policy)
        report = probe(policy)
    assert PIECE not in str(refused.value)
    assert PIECE not in report.model_dump_json()


@pytest.mark.parametrize("where", ["content", "finish_reason"])
def test_a_good_answer_that_quotes_the_key_fails(where: str) -> None:
    """A row would keep it for good: the policy's own words are stored as they are."""
    good = quoting("finish_reason", f"stop {KEY}" if where == "finish_reason" else "stop")
    if where == "content":
        good["choices"][0]["message"]["content"] = f"I was called with {KEY}."
    assert "quotes the key" in told(200, good)


def test_a_key_of_a_few_signs_may_be_said() -> None:
    """Many servers are given EMPTY, and a policy may say that word."""
    good = quoting("finish_reason", "stop")
    good["choices"][0]["message"]["content"] = "The list is EMPTY."
    with BadServer([answer(200, good)], HEALTHY) as server:
        calls = Upstream(PolicyConfig(server.url, "m", api_key="EMPTY"))
        assert calls.post_chat(b"{}", 8.0, "s").content == "The list is EMPTY."


def test_what_a_pre_flight_finds_holds_no_key() -> None:
    """It goes into run.json: the engine, as it owns its models, and its weights' version; also where the key is escaped."""
    good = quoting("finish_reason", "stop") | {"metadata": {"weight_version": f"w-{KEY}"}}
    models = json.dumps({"data": [{"id": "m", "owned_by": f"by {KEY}"}]}).replace("very", "v\\u0065ry").encode()
    gets = {"/v1/models": answer(200, models), "/version": answer(200, {"version": KEY})}
    with BadServer([answer(200, good)], gets=gets) as server:
        policy = PolicyConfig(server.url, "m", api_key=KEY)
        found = preflight(policy)
        report = probe(policy)
    assert (found["engine"], found["weight_version"]) == ("by [key]", "w-[key]")
    assert PIECE not in repr(found) + report.model_dump_json()
