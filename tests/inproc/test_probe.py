"""Do probe, pre-flight and the Python client say what a server gives, and what to switch on?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from bad.policy_server import BadServer, Habit, answer, hang_up, reflect
from captures_reader import answer_body
from click.testing import CliRunner

from legato_rl.cli.main import legato_rl
from legato_rl.cli.probe import probe_command
from legato_rl.clock import SystemClock
from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError, PolicyError
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.policy import PolicyClient, ProbeReport, preflight, probe
from legato_rl.policy.body import sampling_params
from legato_rl.policy.survey import Engine, LogprobsMode, engine, logprobs_mode, models

HELLO = [{"role": "user", "content": "Hello"}]
THINKING = {"thinking": True}


class Awake(SystemClock):
    """The machine's clock, to whom a pause is nothing."""

    def sleep(self, seconds: float) -> None:
        assert seconds > 0


def look(server: dict[str, Any], **policy: Any) -> ProbeReport:
    """What the probe reports of a bundled server with these settings."""
    with FakePolicyServer(FakePolicyConfig(**server)) as url:
        return probe(PolicyConfig(url, "m", **policy))


def states(report: ProbeReport) -> dict[str, tuple[str, str]]:
    return {row.name: (row.state, row.value) for row in report.rows}


def test_a_server_that_gives_everything() -> None:
    """All rows are ok and nothing is to be done."""
    report = look({"model": "m"})
    assert report.trainable
    assert {row.name: row.remedy for row in report.rows if row.state != "ok"} == {}
    assert [row.remedy for row in report.rows] == [""] * len(report.rows)
    found = states(report)
    assert found["images"] == ("ok", "20 or more a prompt")
    assert found["logprobs mode"] == ("ok", "raw")
    assert found["context length"] == ("ok", "131,072 tokens, about 46,848 wanted")
    assert found["reasoning"] == ("ok", "left in content")


LACKS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str, bool]] = {
    "no ids": ({"token_ids": False}, {}, "token ids", "missing", False),
    "no prompt ids either": ({"token_ids": False}, {}, "prompt ids", "missing", False),
    "cache not told": ({"report_cached": False}, {}, "cached tokens", "missing", True),
    "cache off": ({"cache_tokens": 0}, {}, "cached tokens", "off", True),
    "few images": ({"max_images": 3}, {}, "images", "missing", False),
    "no images": ({"max_images": 0}, {}, "images", "missing", False),
    "no room for small images": ({"max_model_len": 2000}, {}, "images", "off", False),
    "no room for a screenshot": ({"max_model_len": 8087}, {}, "context length", "missing", False),
    "room for one screenshot": ({"max_model_len": 8088}, {}, "context length", "off", True),
    "almost room for all": ({"max_model_len": 46847}, {}, "context length", "off", True),
    "parser, no thoughts": ({"reasoning_parser": True}, {}, "reasoning", "off", True),
    "parser, thoughts": ({"reasoning_parser": True}, THINKING, "reasoning", "off", True),
    "every request fails": ({"fail": 1.0}, {"retries": 0}, "answers", "missing", False),
    "unknown model": ({"model": "other"}, {}, "model", "missing", False),
    "wrong key": ({"api_key": "right"}, {"api_key": "wrong"}, "key", "missing", False),
}


@pytest.mark.parametrize("case", LACKS)
def test_what_a_server_lacks_is_named_with_a_remedy(case: str) -> None:
    """The row says so in one sentence, and the report whether training needs it."""
    server, policy, name, state, trainable = LACKS[case]
    report = look(server, **policy)
    row = next(row for row in report.rows if row.name == name)
    assert (row.state, report.trainable) == (state, trainable)
    assert row.remedy
    assert "\n" not in row.remedy


def test_how_many_images_a_prompt_may_hold() -> None:
    """The number that the server names is tried, and reported; a run that keeps no more is served well."""
    report = look({"max_images": 7})
    (row,) = (row for row in report.rows if row.name == "images")
    assert (row.value, row.remedy) == ("7 a prompt, 20 wanted", "raise --limit-mm-per-prompt or run with --image-max 7")
    with FakePolicyServer(FakePolicyConfig(max_images=7)) as url:
        assert probe(PolicyConfig(url, "m"), image_max=7).trainable


def test_how_long_a_context_should_be() -> None:
    """The remedy has the number of tokens, and how many screenshots there is room for."""
    report = look({"max_model_len": 16_384})
    (row,) = (row for row in report.rows if row.name == "context length")
    assert (row.value, row.remedy) == (
        "16,384 tokens, about 46,848 wanted",
        "20 screenshots of 1920x1080, their text and an answer of 2,048 tokens are about 46,848 tokens: serve a longer context "
        "(vLLM: --max-model-len), or run with --image-max 5",
    )


def test_a_server_that_fails_says_nothing_of_the_key() -> None:
    """An error of the server is told as that; what it hides stays unknown."""
    found = states(look({"fail": 1.0, "model": "m"}, retries=0))
    assert found["answers"] == ("missing", "server_error")
    assert {found[name][0] for name in ("key", "logprobs", "images")} == {"unknown"}
    assert {found[name][0] for name in ("reachable", "model")} == {"ok"}


def test_an_unknown_model_is_told_by_its_name() -> None:
    """And with the names that are served."""
    (row,) = (row for row in look({"model": "other"}).rows if row.name == "model")
    assert (row.value, row.remedy) == ("m", "give --model one of: other")


@pytest.mark.parametrize(("parser", "thinking"), [(True, False), (True, True), (False, False), (False, True)])
def test_a_reasoning_parser_is_found(parser: bool, thinking: bool) -> None:
    """Whether the run thinks or not: only without a parser are thoughts left in content."""
    state, value = states(look({"reasoning_parser": parser}, thinking=thinking))["reasoning"]
    assert (state, value == "left in content") == (("off", False) if parser else ("ok", True))


def test_nobody_there() -> None:
    """Every row is open but the one that says why."""
    with BadServer([hang_up]) as server:
        pass
    report = probe(PolicyConfig(server.url, "m"))
    assert not report.trainable
    assert {row.name for row in report.rows if row.state != "unknown"} == {"reachable"}


def test_a_broken_server_is_reported() -> None:
    """A call that is cut, aborted or answered with a web page ends in a row, not in an exception."""
    for habit in (hang_up, answer(200, {"choices": [{"finish_reason": "abort"}]}), answer(200, b"<html>")):
        with BadServer([habit], {"/v1/models": answer(200, {"data": [{"id": "m"}]})}) as server:
            report = probe(PolicyConfig(server.url, "m"))
        assert not report.trainable
        assert "missing" in {row.state for row in report.rows}


def whole_answer_in_reasoning(request: dict[str, Any]) -> Habit:
    return answer(200, answer_body("i1_thinking_none"))


def test_a_parser_that_takes_every_answer() -> None:
    """A null content with ids is a configuration error that probe and pre-flight name."""
    with BadServer([reflect(whole_answer_in_reasoning)], {"/v1/models": answer(200, {"data": []})}) as server:
        row = next(row for row in probe(PolicyConfig(server.url, "m")).rows if row.name == "reasoning")
        assert (row.state, "--reasoning-parser" in row.remedy) == ("missing", True)
        with pytest.raises(ConfigError, match="--reasoning-parser"):
            preflight(PolicyConfig(server.url, "m"))


def scaled(processed: bool) -> Habit:
    """A server that cannot be held to a token; its top logprobs have the temperature in them, or not."""

    def make(request: dict[str, Any]) -> Habit:
        scale = 1 / request["temperature"] if processed else 1.0
        top = [{"token": token, "logprob": scale * value - 1.0} for token, value in (("a", -0.5), ("b", -2.0))]
        content = [{"token": "a", "logprob": top[0]["logprob"], "top_logprobs": top}]
        choice = {"message": {"content": "a"}, "finish_reason": "length", "logprobs": {"content": content}}
        return answer(200, {"choices": [{**choice, "response_token_ids": [7]}]})

    return reflect(make)


@pytest.mark.parametrize(("processed", "mode"), [(True, "processed"), (False, "raw")])
def test_the_mode_of_logprobs(processed: bool, mode: LogprobsMode) -> None:
    """It is told by a forced token, or else by what the temperature does to the distance of two."""
    with FakePolicyServer(FakePolicyConfig(logprobs_mode=mode)) as url, PolicyClient(PolicyConfig(url, "m")) as client:
        assert logprobs_mode(client) == mode
    with BadServer([scaled(processed)]) as server, PolicyClient(PolicyConfig(server.url, "m")) as client:
        assert logprobs_mode(client) == mode


def test_a_mode_that_nobody_can_tell() -> None:
    """A server that refuses both ways is unknown, not an error."""
    with BadServer([answer(400, {"error": {"message": "no"}})]) as server:
        assert logprobs_mode(PolicyClient(PolicyConfig(server.url, "m"))) == "unknown"


@pytest.mark.parametrize(
    ("gets", "expected"),
    [
        ({"/version": answer(200, {"version": "0.32.0"})}, Engine("vllm", "0.32.0")),
        ({"/get_server_info": answer(200, {"version": "0.5.23"})}, Engine("sglang", "0.5.23")),
        ({"/props": answer(200, {"build_info": "b1"})}, Engine("llamacpp", "b1")),
        ({}, Engine(None, None)),
        ({"/version": answer(200, b"1"), "/props": hang_up}, Engine(None, None)),
    ],
)
def test_engines_are_told_apart(gets: dict[str, Habit], expected: Engine) -> None:
    """By the endpoint that only they have."""
    with BadServer([hang_up], gets) as server:
        assert engine(PolicyClient(PolicyConfig(server.url, "m")), None) == expected


def test_models_as_recorded() -> None:
    """The list of a real vLLM names its model, owner and context length."""
    with BadServer([hang_up], {"/v1/models": answer(200, answer_body("k1_models"))}) as server:
        found = models(PolicyClient(PolicyConfig(server.url, "tiny-qwen-vl")))
    assert (found.names, found.owner, found.max_model_len) == (["tiny-qwen-vl"], "vllm", 65536)


def test_the_client_answers_and_goes_on_without_ids() -> None:
    """A refused field is remembered, so that it is refused once."""
    with FakePolicyServer(FakePolicyConfig(token_ids=False)) as url, PolicyClient(PolicyConfig(url, "m")) as client:
        assert client.complete(HELLO).token_ids is None
        assert client.complete(HELLO).tokens
        assert not client.token_ids


def test_the_clients_body_has_every_key() -> None:
    """It sends what a run sends."""
    policy = PolicyConfig("http://127.0.0.1:9/v1", "m", temperature=0.5)
    with BadServer([answer(200, answer_body("s1_eos"))]) as server:
        with PolicyClient(policy.model_copy(update={"url": server.url})) as client:
            client.complete(HELLO, seed=4)
    assert json.loads(server.posts()[0].body) == {**sampling_params(policy, 4), "model": "m", "messages": HELLO}


def test_the_client_retries_as_the_verdicts_say() -> None:
    """A closed idle connection is free, a 500 of a healthy server spends a retry, an abort is an error."""
    good, bad = answer(200, answer_body("s1_eos")), answer(500, b"")
    with BadServer([good, hang_up, good, bad, good, bad], {"/health": answer(200, b"")}) as server:
        with PolicyClient(PolicyConfig(server.url, "m", retries=1), Awake()) as client:
            assert [client.complete(HELLO).content for _ in range(3)] == [""] * 3
            with pytest.raises(PolicyError) as caught:
                client.complete(HELLO)
    assert caught.value.type == "server_error"


def test_a_mode_that_nobody_can_tell_has_a_remedy() -> None:
    """The row says between which modes nobody can tell, and where it does not matter."""
    plain = answer(200, answer_body("s1_eos"))
    with BadServer([plain, plain, answer(400, {"error": {"message": "no"}})]) as server:
        (row,) = (row for row in probe(PolicyConfig(server.url, "m")).rows if row.name == "logprobs mode")
    assert (row.state, row.value) == ("unknown", "raw or processed")
    assert row.remedy.startswith("sample with temperature 1")


def test_probe_command() -> None:
    """A table or JSON; exit code 1 where training needs something."""
    runner = CliRunner()
    shown = runner.invoke(probe_command, ["--policy-url", "fake", "--model", "m", "--thinking", "--image-max", "3"])
    assert (shown.exit_code, "ready to train" in shown.output) == (0, True)
    with FakePolicyServer(FakePolicyConfig(api_key="k")) as url:
        told = runner.invoke(probe_command, ["--policy-url", url, "--model", "m", "--json"], env={"LEGATO_POLICY_KEY": "k"})
        refused = runner.invoke(probe_command, ["--policy-url", url, "--model", "m"], env={"LEGATO_POLICY_KEY": ""})
    assert (told.exit_code, json.loads(told.stdout)["model"]) == (0, "m")
    assert (refused.exit_code, "LEGATO_POLICY_KEY" in refused.output.replace("\n", "")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy-url", "http://127.0.0.1:9"], "policy-url is 'http://127.0.0.1:9': it must end in /v1, as in"),
        (["--policy-url", "fake", "--image-max", "0"], "image-max is 0: it must be at least 1"),
    ],
)
def test_probe_refuses_wrong_options(arguments: list[str], said: str) -> None:
    """In one line, as collect does, with exit code 2."""
    wrong = CliRunner().invoke(legato_rl, ["probe", "--model", "m", *arguments])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)
    assert wrong.stderr.startswith(f"error: {said}")
