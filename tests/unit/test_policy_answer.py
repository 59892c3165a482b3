"""Is each engine's answer read as what was sampled, and refused where it cannot be?"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from captures_reader import answer_body, capture, exchanges, status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato_rl.errors import PolicyError
from legato_rl.policy.answer import Aborted, parse_completion


def reply(choice: dict[str, Any], usage: dict[str, Any] | None = None, **top: Any) -> bytes:
    """A 200 body around `choice`."""
    message = {"role": "assistant", "content": "ab"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}], "usage": usage, **top}
    return json.dumps(whole).encode()


def entries(*logprobs: Any, **fields: list[Any]) -> dict[str, Any]:
    """OpenAI's logprobs block, with further fields of each entry."""
    rows = [{"token": f"t{n}", "logprob": value} for n, value in enumerate(logprobs)]
    for name, column in fields.items():
        rows = [{**row, name: value} for row, value in zip(rows, column, strict=True)]
    return {"content": rows}


ENGINES = {
    "vllm": reply(
        {"token_ids": [5, 6], "logprobs": entries(-1.0, -2.0)},
        {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        prompt_token_ids=[1, 2, 3],
    ),
    "sglang": reply(
        {"response_token_ids": [5, 6], "prompt_token_ids": [1, 2, 3], "logprobs": entries(-1.0, -2.0)},
        {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        metadata={"weight_version": "step-7"},
    ),
    "sglang meta": reply(
        {
            "prompt_token_ids": [1, 2, 3],
            "logprobs": None,
            "meta_info": {"output_token_logprobs": [[-1.0, 5, "a"], [-2.0, 6, "b"]], "cached_tokens": 1},
        },
        {"prompt_tokens": 3, "completion_tokens": 2},
    ),
    "lmdeploy": reply({"output_ids": [5, 6], "output_token_logprobs": [[-1.0, 5], [-2.0, 6]]}, {"completion_tokens": 2}),
    "llama.cpp": reply({"logprobs": entries(-1.0, -2.0, id=[5, 6])}, {"completion_tokens": 2}, timings={"cache_n": 1}),
    "vllm generate": reply({"logprobs": entries(-1.0, -2.0, token_id=[5, 6])}),
    "ids as strings": reply({"logprobs": entries(-1.0, -2.0, token=["token_id:5", "token_id:6"])}),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_and_logprobs_under_every_engines_names(engine: str) -> None:
    """The same two tokens come out, whoever wrote them down."""
    completion = parse_completion(ENGINES[engine])
    assert completion.token_ids == [5, 6]
    assert completion.logprobs == [-1.0, -2.0]
    assert completion.tokens is None


def test_prompt_ids_cached_tokens_and_weight_version() -> None:
    """They are found at the top or in the choice; None where the server is silent."""
    found = {name: parse_completion(body) for name, body in ENGINES.items()}
    assert [found[name].prompt_token_ids for name in ("vllm", "sglang", "lmdeploy")] == [[1, 2, 3], [1, 2, 3], None]
    names = ("vllm", "sglang", "sglang meta", "llama.cpp", "lmdeploy")
    assert [found[name].cached_tokens for name in names] == [1, 1, 1, 1, None]
    assert [found[name].server_version for name in ("sglang", "vllm")] == ["step-7", None]


def test_tokens_stand_in_for_ids() -> None:
    """Without ids the texts of the tokens are kept."""
    completion = parse_completion(reply({"logprobs": entries(-1.0, -2.0)}))
    assert (completion.token_ids, completion.tokens) == (None, ["t0", "t1"])


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_under_both_names(field: str) -> None:
    """A null content beside reasoning is an answer cut while thinking: a step, its content null."""
    message = {"content": None, field: "hm"}
    completion = parse_completion(reply({"message": message, "token_ids": [5], "logprobs": entries(-1.0)}))
    assert (completion.content, completion.reasoning) == (None, "hm")


def test_null_content_alone_is_the_empty_text() -> None:
    """SGLang writes an immediate end of text as null: what the policy did is data."""
    body = reply({"message": {"content": None}, "token_ids": [5], "logprobs": entries(-1.0)})
    assert parse_completion(body).content == ""


def test_no_token_at_all_is_a_step() -> None:
    """An engine that trims the end of text and counts it nowhere has an answer of nothing."""
    completion = parse_completion(reply({"token_ids": [], "logprobs": None}, {"completion_tokens": 0}))
    assert (completion.token_ids, completion.logprobs) == ([], [])


IDS = {"token_ids": [5, 6]}
REFUSED = {
    "no logprobs": (reply(IDS), "no_logprobs"),
    "null logprob": (reply({**IDS, "logprobs": entries(-1.0, None)}), "bad_logprobs"),
    "NaN": (reply({**IDS, "logprobs": entries(-1.0, math.nan)}), "bad_logprobs"),
    "infinite": (reply({**IDS, "logprobs": entries(-1.0, -math.inf)}), "bad_logprobs"),
    "floor": (reply({**IDS, "logprobs": entries(-1.0, -9999.0)}), "bad_logprobs"),
    "SGLang's floor": (reply({**IDS, "logprobs": entries(-1.0, -3.4e38)}), "bad_logprobs"),
    "one logprob short": (reply({**IDS, "logprobs": entries(-1.0)}), "length_mismatch"),
    "one more counted": (reply({**IDS, "logprobs": entries(-1.0, -2.0)}, {"completion_tokens": 3}), "length_mismatch"),
    "tool parser": (
        reply({**IDS, "logprobs": entries(-1.0, -2.0), "message": {"content": "a", "tool_calls": [{}]}}),
        "tool_parser",
    ),
    "no JSON": (b"<html>", "bad_answer"),
    "no UTF-8": (b"\xff", "bad_answer"),
    "deep": (b"[" * 100_000, "bad_answer"),
    "a list": (b"[]", "bad_answer"),
    "no choice": (b'{"choices": []}', "bad_answer"),
    "two choices": (b'{"choices": [{}, {}]}', "bad_answer"),
    "content a number": (reply({"message": {"content": 1}}), "bad_answer"),
    "ids of text": (reply({"token_ids": ["5", "6"]}), "bad_answer"),
    "ids that are true": (reply({"token_ids": [True]}), "bad_answer"),
    "negative id": (reply({"token_ids": [-1]}), "bad_answer"),
    "logprob a text": (reply({**IDS, "logprobs": entries(-1.0, "low")}), "bad_answer"),
    "usage a list": (reply(IDS, [1]), "bad_answer"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_type(case: str) -> None:
    """What cannot be trained on is an error with a type to count by, in one sentence."""
    body, type = REFUSED[case]
    with pytest.raises(PolicyError) as caught:
        parse_completion(body)
    assert caught.value.type == type
    assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("message", "logprobs", "token_ids", "finish_reason", "meta_info", "output_token_logprobs", "usage", "metadata")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FIELDS), json_values), st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_no_answer_raises_anything_else(choice: dict[str, Any], top: dict[str, Any]) -> None:
    """Whatever types a server puts where, it is a completion or a PolicyError."""
    message = {"message": {"content": "a"}}
    body = json.dumps({"choices": [{**message, **choice}], **top}).encode()
    try:
        completion = parse_completion(body)
    except (PolicyError, Aborted):
        return
    assert all(math.isfinite(value) for value in completion.logprobs)


def lack(name: str) -> str | None:
    """What a recorded 200 lacks, told from its raw fields: the type of error that it must be."""
    body = capture(name)["response"]["body"]
    if len(body["choices"]) > 1:
        return "bad_answer"
    choice = body["choices"][0]
    if choice["message"].get("tool_calls"):
        return "tool_parser"
    return None if choice["logprobs"] else "no_logprobs"


ANSWERED = [name for name in exchanges() if status(name) == 200]


def test_the_recorded_answers_show_every_lack() -> None:
    """The two tests below have something to look at."""
    lacks = {name: lack(name) for name in ANSWERED}
    assert set(lacks.values()) == {None, "bad_answer", "no_logprobs", "tool_parser"}
    assert lacks["t1_tool_call"] == lacks["t2_tool_call_required"] == "tool_parser"
    assert lacks["i3_include_reasoning_false"] == lacks["x6_nan_no_logprobs"] == "no_logprobs"


@pytest.mark.parametrize("name", [name for name in ANSWERED if lack(name)])
def test_recorded_answers_that_lack_something(name: str) -> None:
    """Parsers and switches at the server that hide tokens are named by type."""
    with pytest.raises(PolicyError) as caught:
        parse_completion(answer_body(name))
    assert caught.value.type == lack(name)


@pytest.mark.parametrize("name", [name for name in ANSWERED if not lack(name)])
def test_recorded_completions(name: str) -> None:
    """Every other recorded 200 is a completion with the server's own ids, logprobs and text."""
    completion = parse_completion(answer_body(name))
    body = capture(name)["response"]["body"]
    choice = body["choices"][0]
    rows = choice["logprobs"]["content"]
    assert completion.logprobs == [row["logprob"] for row in rows]
    assert completion.content == choice["message"]["content"]
    assert completion.prompt_token_ids == body["prompt_token_ids"]
    if name.startswith("j1"):
        assert completion.token_ids == [int(row["token"].removeprefix("token_id:")) for row in rows]
    else:
        assert completion.token_ids == choice["token_ids"]


@pytest.mark.parametrize("name", ["f5_abort_by_id_dev", "f6_abort_by_id_inference", "m40_pause_abort"])
def test_an_abort_is_no_answer(name: str) -> None:
    """A 200 that was cut from outside is never a step, though ids and logprobs are there."""
    recorded = capture(name)
    body = json.dumps(recorded.get("answer") or recorded["running_request_answer"]).encode()
    with pytest.raises(Aborted):
        parse_completion(body)


def test_recorded_ends_of_a_turn() -> None:
    """The end of text is in ids and logprobs and not in content; an answer cut while thinking has no content."""
    ended = parse_completion(answer_body("s1_eos"))
    assert (ended.content, ended.token_ids, ended.finish_reason) == ("", [151645], "stop")
    half = parse_completion(answer_body("s11_partial_utf8"))
    assert len(half.token_ids or []) == 4
    thinking = parse_completion(answer_body("i1_thinking_true"))
    assert thinking.content is None
    assert thinking.reasoning
