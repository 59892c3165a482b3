"""Are the bundled policy server's answers consistent, reproducible, and good enough to solve the fake desktop's tasks?"""

from __future__ import annotations

from typing import Any

import requests
from fake_play import actions_of, image_part, resized
from fake_server import ask, gauge, post, serving
from PIL import Image

from legato_rl.config import DesktopConfig, FakeConfig
from legato_rl.fake.desktop import FakeDesktop
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.tokens import EOS, decode, token_logprobs

QUICK = FakeConfig(reset_s=0, act_s=0, settle_s=0, eval_s=0)


def test_the_policy_plays_the_desktop() -> None:
    """With skill 1 it reads the screens and ends with reward 1, appending to its prompt and hitting the cache."""
    size = (640, 400)
    guest = FakeDesktop(DesktopConfig(backend="fake", screen_size=size, fake=QUICK), "d0")
    guest.reset({"id": "t"})
    messages: list[Any] = [{"role": "system", "content": "You use a computer."}]
    before: list[int] = []
    with serving(skill=1, malformed=0) as (_, url):
        while "DONE" not in guest.actions:
            assert len(guest.actions) < 6
            messages.append({"role": "user", "content": [image_part(resized(guest.observe()))]})
            answer = ask(url, messages, logprobs=True, return_token_ids=True)
            choice, prompt = answer["choices"][0], answer["prompt_token_ids"]
            assert prompt[: len(before)] == before
            assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == len(before) // 16 * 16
            before = prompt + choice["token_ids"]
            text = choice["message"]["content"]
            for action in actions_of(text, size):
                assert guest.act(action).rc == 0
            messages.append({"role": "assistant", "content": f"<think>\n\n</think>\n\n{text}"})
    assert guest.evaluate() == 1.0


def test_an_infeasible_task_is_given_up() -> None:
    """The window that lacks its option makes the policy say so."""
    guest = FakeDesktop(DesktopConfig(backend="fake", screen_size=(320, 240), fake=QUICK), "d0")
    guest.reset({"id": "t", "evaluator": {"func": "infeasible"}})
    with serving(skill=1, malformed=0) as (_, url):
        answer = ask(url, [{"role": "user", "content": [image_part(resized(guest.observe()))]}])
    assert actions_of(answer["choices"][0]["message"]["content"], (320, 240)) == ["FAIL"]


def test_text_ids_logprobs_and_usage_agree() -> None:
    """One logprob per id, EOS included; the text is the ids'; usage counts them; all follow from the prompt."""
    with serving() as (_, url):
        answer = ask(url, logprobs=True, return_token_ids=True, top_logprobs=1)
    choice, usage = answer["choices"][0], answer["usage"]
    ids, entries = choice["token_ids"], choice["logprobs"]["content"]
    assert (ids[-1], choice["finish_reason"]) == (EOS, "stop")
    assert choice["message"]["content"] == decode(ids)
    assert [entry["logprob"] for entry in entries] == token_logprobs(answer["prompt_token_ids"], ids)
    assert entries[0]["top_logprobs"][0]["token"] == entries[0]["token"] == chr(ids[0])
    assert (usage["completion_tokens"], usage["prompt_tokens"]) == (len(ids), len(answer["prompt_token_ids"]))


def test_nothing_is_told_unasked() -> None:
    """Ids and logprobs are null unless they were asked for."""
    with serving() as (_, url):
        answer = ask(url)
    assert answer["prompt_token_ids"] is answer["choices"][0]["token_ids"] is answer["choices"][0]["logprobs"] is None


def test_a_seed_repeats_an_answer() -> None:
    """The same request and seed, the same answer, on any server; without a seed they differ."""
    with serving(skill=0) as (_, one), serving(skill=0) as (_, other):
        picture = [{"role": "user", "content": [image_part(Image.new("RGB", (64, 64)))]}]
        texts = [ask(url, picture, seed=5)["choices"] for url in (one, one, other)]
        assert texts[0] == texts[1] == texts[2]
        guest = FakeDesktop(DesktopConfig(backend="fake", screen_size=(320, 240), fake=QUICK), "d0")
        guest.reset({"id": "t"})
        window = [{"role": "user", "content": [image_part(resized(guest.observe()))]}]
        assert len({ask(one, window)["choices"][0]["message"]["content"] for _ in range(40)}) > 1


def test_limits_and_forced_tokens_show() -> None:
    """max_tokens cuts; a forced token has a large negative raw logprob and a processed one of 0."""
    with serving() as (_, raw), serving(logprobs_mode="processed") as (_, processed):
        cut = ask(raw, max_tokens=3, return_token_ids=True)["choices"][0]
        assert (cut["finish_reason"], len(cut["token_ids"])) == ("length", 3)
        fields: dict[str, Any] = {"allowed_token_ids": [255], "max_tokens": 1, "logprobs": True, "seed": 1}
        values = [ask(url, **fields)["choices"][0]["logprobs"]["content"][0]["logprob"] for url in (raw, processed)]
        assert values[0] < -10
        assert values[1] == 0.0
        ended = ask(raw, logit_bias={str(EOS): 100}, return_token_ids=True)["choices"][0]
        assert (ended["message"]["content"], ended["token_ids"], ended["finish_reason"]) == ("", [EOS], "stop")


def test_the_context_is_bounded() -> None:
    """A prompt beyond it is refused; an answer beyond it is cut without a word."""
    with serving(max_model_len=100, skill=1.0, malformed=0.0) as (_, url):
        assert requests.get(f"{url}/models", timeout=20).json()["data"][0]["max_model_len"] == 100
        answer = ask(url, max_tokens=100)
        assert (answer["usage"]["total_tokens"], answer["choices"][0]["finish_reason"]) == (100, "length")
        error = post(url, [{"role": "user", "content": "x" * 100}]).json()["error"]
        assert error["param"] == "input_tokens"
        assert "maximum context length is 100 tokens" in error["message"]


def test_refused_token_ids() -> None:
    """A server that forbids unknown fields says which; without the field it answers."""
    with serving(token_ids=False) as (_, url):
        answer = post(url, return_token_ids=True)
        assert answer.status_code == 400
        assert "return_token_ids" in answer.json()["error"]["message"]
        assert ask(url, logprobs=True)["choices"][0]["logprobs"]["content"]


def test_sglang_has_its_own_names() -> None:
    """Ids inside the choice, the weight version in metadata, thoughts in reasoning_content."""
    with serving(sglang=True, weight_version="step-7", reasoning_parser=True) as (_, url):
        thinking = {"enable_thinking": True}
        answer = ask(url, return_token_ids=True, logprobs=True, chat_template_kwargs=thinking)
        choice = answer["choices"][0]
        assert len(choice["response_token_ids"]) == len(choice["logprobs"]["content"])
        assert len(choice["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
        assert answer["metadata"]["weight_version"] == "step-7"
        assert "window" in choice["message"]["reasoning_content"]
        assert "prompt_token_ids" not in answer
        assert "token_ids" not in choice
        assert "reasoning" not in choice["message"]


def test_thoughts_are_in_the_content_or_parsed_out() -> None:
    """Without a parser the content holds the think block; with one it is apart, and a cut thought is all there is."""
    thinking = {"chat_template_kwargs": {"enable_thinking": True}, "seed": 3}
    with serving() as (_, plain), serving(reasoning_parser=True) as (_, parsed):
        whole = ask(plain, **thinking)["choices"][0]["message"]
        assert whole["content"].startswith("<think>\n")
        assert whole["reasoning"] is None
        parts = ask(parsed, **thinking)["choices"][0]["message"]
        assert whole["content"] == f"<think>\n{parts['reasoning']}\n</think>\n\n{parts['content']}"
        cut = ask(parsed, **thinking, max_tokens=5)["choices"][0]["message"]
        assert cut["content"] is None
        assert cut["reasoning"]


def test_the_cache_can_be_silent_or_off() -> None:
    """No report leaves the details null; no cache reports 0."""
    with serving(report_cached=False) as (_, silent), serving(cache_tokens=0) as (_, off):
        for url in (silent, off):
            ask(url)
        assert ask(silent)["usage"]["prompt_tokens_details"] is None
        assert gauge(silent, "prefix_cache_hits_total") > 0
        assert ask(off)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_latency_is_a_function_of_the_requests_seed() -> None:
    """Simulators can compute it; tokens per second come on top; sigma 0 is the mean."""
    config = FakePolicyConfig(latency=2, tail=1, seed=4)
    assert config.latency_of(9) == config.latency_of(9) != config.latency_of(10)
    assert FakePolicyConfig(latency=2, tokens_per_second=50).latency_of(9, 100) == 4.0
