"""What does our client make of every error that a real server gave? And of those of the other engines?"""

from __future__ import annotations

import json

import pytest
from captures_reader import answer_body, capture, exchanges, raw_answer, status
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.policy.verdicts import Action, Break, error_words, judge, judge_break

FAIL = Action.FAIL
RECORDED = {
    "b4_top_logprobs_alone": "logprobs_refused",
    "b5_top_logprobs_21": "logprobs_refused",
    "e10_http_image_unreachable": "bad_image",
    "e11_file_image": "bad_image",
    "e12_bad_json": "bad_request",
    "e13_no_messages": "bad_request",
    "e14_empty_messages": "bad_request",
    "e15_bad_temperature": "bad_request",
    "e16_max_tokens_zero": "bad_request",
    "e17_wrong_type": "bad_request",
    "e18_get": "no_such_path",
    "e19_no_such_path": "no_such_path",
    "e20_wrong_content_type": "bad_request",
    "e21_unknown_part_type": "bad_request",
    "e24_extreme_aspect": "bad_image",
    "e26_logit_bias_bad_id": "bad_request",
    "e27_tool_choice_auto": "bad_request",
    "e2_wrong_model": "unknown_model",
    "e30_auth_missing": "key_refused",
    "e31_auth_wrong": "key_refused",
    "e33_auth_models": "key_refused",
    "e34_context_overflow_small": "context_length",
    "e37_image_over_context": "context_length",
    "e4_prompt_too_long": "context_length",
    "e5_max_tokens_too_big": "max_tokens",
    "e6_too_many_images": "too_many_images",
    "e7_bad_base64": "bad_image",
    "e8_not_an_image": "bad_image",
    "e9_truncated_png": "bad_image",
    "h11_uuid_after_reset_mm_cache": "bad_request",
    "h14_no_cache_uuid_only": "bad_image",
    "h4_uuid_miss": "bad_request",
    "h5_null_without_uuid": "bad_request",
    "h7_uuid_two_one_miss": "bad_request",
    "h8_uuid_missing_field": "bad_request",
    "l13_min_pixels": "bad_request",
    "l14_mm_processor_kwargs_size": "bad_request",
    "x5_nan_logprobs": "nan_logits",
}
"""The type that each recorded error gets; none of them is ever asked again."""


def test_every_recorded_error_is_in_the_table() -> None:
    """A new recording has to be judged here."""
    assert sorted(RECORDED) == [name for name in exchanges() if status(name) != 200]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_errors(name: str) -> None:
    """A request that is wrong fails once, by type, with the server's words in one sentence."""
    verdict = judge(status(name), answer_body(name))
    assert (verdict.action, verdict.type) == (FAIL, RECORDED[name])
    assert error_words(answer_body(name))[0][:40] in verdict.message
    assert "\n" not in verdict.message


DEAD = [("x1_engine_dead", "the_request_that_crashes"), ("x1_engine_dead", "in_flight_full"), ("x3c_sigterm_error", "full")]


@pytest.mark.parametrize(("name", "request_name"), DEAD)
def test_a_dead_engine_is_down_when_its_health_fails(name: str, request_name: str) -> None:
    """The 500 of a dying engine spends no retry; the same words of a healthy server do."""
    code, body = raw_answer(capture(name)["results"][request_name]["last"])
    assert code == 500
    assert judge(code, body, healthy=False).action is Action.DOWN
    assert judge(code, body, healthy=True).action is Action.RETRY


@pytest.mark.parametrize("request_name", ["request_2", "request_3", "request_4"])
def test_a_full_queue_backs_off(request_name: str) -> None:
    """A 503 beside a healthy /health: this call waits, no retry is spent, the server is not down."""
    code, body = raw_answer(capture("x4_queue_full")["requests"][request_name]["last"])
    verdict = judge(code, body, healthy=True)
    assert (code, verdict.action, verdict.type) == (503, Action.BACK_OFF, "queue_full")
    assert judge(code, body, healthy=False).action is Action.DOWN


def test_an_image_cache_that_is_too_small() -> None:
    """Its 500 is a healthy server's failure; its 400 is not asked again."""
    rows = [row for row in capture("h12_uuid_eviction")["rows"] if row["status"] != 200]
    actions = {row["status"]: judge(row["status"], json.dumps(row["body"]).encode()).action for row in rows}
    assert actions == {400: FAIL, 500: Action.RETRY}
    known = b'{"error": {"message": "Expected a cached item for mm_hash=ab"}}'
    assert judge(500, known).type == "image_cache"


FLAT = '{"object": "error", "message": "%s", "type": "BadRequestError", "param": null, "code": 400}'
OTHERS = [
    (400, FLAT % "Input is longer than the model's context length (4096 tokens)", FAIL, "context_length"),
    (400, '{"error": {"message": "x", "type": "exceed_context_size_error", "code": 400}}', FAIL, "context_length"),
    (400, FLAT % "return_token_ids: Extra inputs are not permitted", Action.WITHOUT_IDS, "ids_refused"),
    (422, '{"detail": [{"loc": ["body", "return_token_ids"], "msg": "unexpected"}]}', Action.WITHOUT_IDS, "ids_refused"),
    (400, FLAT % "logprobs needs --logprobs-mode", FAIL, "logprobs_refused"),
    (404, '{"error": "model \'x\' not found"}', FAIL, "unknown_model"),
    (
        400,
        FLAT % "The model's maximum context length is 4096 tokens; the image was not found in the cache",
        FAIL,
        "context_length",
    ),
    (403, "", FAIL, "key_refused"),
    (307, "", FAIL, "redirected"),
    (413, "<html><h1>413 Request Entity Too Large</h1></html>", FAIL, "body_too_large"),
    (418, "short and stout", FAIL, "bad_request"),
    (204, "", FAIL, "bad_answer"),
    (408, "", Action.RETRY, "server_error"),
    (429, '{"error": {"message": "slow down"}}', Action.BACK_OFF, "rate_limited"),
    (502, "<html>Bad Gateway</html>", Action.RETRY, "server_error"),
]


@pytest.mark.parametrize(("code", "body", "action", "type"), OTHERS)
def test_errors_of_other_servers(code: int, body: str, action: Action, type: str) -> None:
    """Flat bodies, FastAPI's details, strings and a gateway's HTML are understood as well."""
    verdict = judge(code, body.encode())
    assert (verdict.action, verdict.type) == (action, type)


def test_a_body_that_quotes_the_request_refuses_no_ids() -> None:
    """Only words about the field itself mean that ids are refused: a whole run would lose them."""
    body = {"error": {"message": "temperature must be a number", "input": {"return_token_ids": True}}}
    assert judge(400, json.dumps(body).encode()).type == "bad_request"


NO_MODEL = [
    "The model `x` does not exist. Valid aliases: m.",
    "The model 'x' does not exist",
    "the model `x` does not exist or you do not have access to it.",
    "model 'org/x:1.5' not found",
    'model "x" not found, try pulling it first',
    "model not found",
    "Model not found: x",
    "model is not loaded",
    "Invalid model name passed in model=x. Call `/v1/models` to view available models for your key.",
    "{'error': '/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view'}",
    "The following requested LoRA adapters are not loaded: {'x'}",
    "The following requested LoRA adapters are not loaded: x\nLoaded adapters: dict_keys([]).",
    "Got LoRA adapter that has never been loaded: x\nAll loaded adapters: dict_keys([]).",
]
"""The sentences of vLLM, LMDeploy, Ollama, llama.cpp, LiteLLM and SGLang, some of which send them with a 400."""


@pytest.mark.parametrize("code", [400, 422])
@pytest.mark.parametrize("message", NO_MODEL)
def test_a_bad_request_whose_sentence_is_of_the_model_is_an_unknown_one(message: str, code: int) -> None:
    """In every form of an error body, and as plain text."""
    for body in (
        {"error": {"message": message}},
        {"error": message},
        {"object": "error", "message": message},
        {"detail": message},
    ):
        assert judge(code, json.dumps(body).encode()).type == "unknown_model"
    assert judge(code, message.encode()).type == "unknown_model"


def test_a_refused_model_may_be_named_in_a_detail() -> None:
    """LiteLLM's own exception, as FastAPI tells it."""
    body = {"detail": {"error": "/chat/completions: Invalid model name passed in model=x"}}
    assert judge(400, json.dumps(body).encode()).type == "unknown_model"


OF_ONE_REQUEST = [
    "Invalid model inputs: image token mismatch",
    "Invalid model output requested",
    "Model loader: tokenizer file not found",
    "The model 'x' does not exist in the image cache",
    "The model's chat template: block 'tools' not found",
    "The model's prompt cache is not loaded",
    "model is not loaded with vision",
    "tool call argument 'model' not found in schema",
    "unknown model field 'min_q'",
    "adapter for the vision tower not found",
    "Cannot parse the tool call: The model `x` does not exist.",
    "messages.3.content: \"model 'x' not found\" is no valid part",
    "Unexpected text after JSON: Invalid model name passed in model=x",
    "assistant said: The following requested LoRA adapters are not loaded: x",
]
"""Sentences about one request, or of a policy whose text an error quotes."""


@pytest.mark.parametrize("code", [400, 422])
@pytest.mark.parametrize("message", OF_ONE_REQUEST)
def test_a_bad_request_that_only_mentions_a_model_is_one_calls_own(message: str, code: int) -> None:
    """Taken for an unknown model it would be asked again, and in the end stop its run."""
    for body in ({"error": {"message": message}}, {"detail": message}, {"detail": [{"loc": ["body"], "msg": message}]}):
        assert judge(code, json.dumps(body).encode()).type == "bad_request"
    assert judge(code, message.encode()).type == "bad_request"


@given(st.integers(201, 599), st.binary(max_size=200), st.booleans())
def test_every_answer_has_a_verdict(code: int, body: bytes, healthy: bool) -> None:
    """Whatever a server says is judged, in one short line."""
    verdict = judge(code, body, healthy)
    assert verdict.type
    assert "\n" not in verdict.message
    assert len(verdict.message) < 700


@pytest.mark.parametrize(
    ("broken", "healthy", "action"),
    [
        (Break.REFUSED, False, Action.DOWN),
        (Break.STALE, False, Action.RETRY_FRESH),
        (Break.CUT, False, Action.DOWN),
        (Break.TIMEOUT, True, Action.RETRY),
        (Break.TIMEOUT, False, Action.DOWN),
        (Break.CANCELLED, False, Action.CANCELLED),
    ],
)
def test_calls_without_an_answer(broken: Break, healthy: bool, action: Action) -> None:
    """Silence counts against the call only where the server is otherwise healthy."""
    assert judge_break(broken, "for a reason", healthy).action is action
