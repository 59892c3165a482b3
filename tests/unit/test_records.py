"""Are records exactly what the format says, there and back, and is everything else refused?"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sink_rows import draft, step

from legato_rl.records import (
    DESKTOP_OUTCOMES,
    GRADED_OUTCOMES,
    ID_PATTERN,
    SCHEMA,
    USABLE,
    ActionRecord,
    Draft,
    Outcome,
    PromptRecord,
    Rollout,
    RolloutError,
    RolloutKey,
    Status,
    Timing,
    dump,
    is_id,
)

ids = st.from_regex(ID_PATTERN, fullmatch=True)
TEXT = "naïve \ud800 \x00 \U0001f600"


def full_row() -> dict[str, Any]:
    """A stored row with every part of the format in it."""
    action = ActionRecord(
        action="pyautogui.click(1, 2)",
        rc=1,
        stderr=TEXT,
        act_s=0.1,
        wait_s=0.2,
        ready_s=None,
        ready="capped",
        obs_s=0.3,
    )
    prompt = PromptRecord(keep=1, add=[5], images=[(0, 70, "a" * 64)], sha256="b" * 64)
    one = step(b"m", content=TEXT)
    one = one.model_copy(
        update={"actions": [action], "request": one.request.model_copy(update={"prompt": prompt}), "parse_error": TEXT}
    )
    error = RolloutError(kind="env", phase="act", type="lost_answer", message=TEXT)
    row = draft(outcome=Outcome.DESKTOP_FAILED, steps=(one,), error=dump(error), final_image="c" * 64)
    extra = {"meta": {"k": [1, None, TEXT]}, "timing": dump(Timing(model_s=1.5)), "started_at": "2030-01-01T00:00:00Z"}
    return {**row, **extra, "schema": SCHEMA, "status": "retried", "usable": False}


def test_a_stored_row_has_the_fields_of_the_format() -> None:
    """Design, section 6, word for word, and `reset`: no field more, none less, `try` and `schema` by their own names."""
    row = dump(Rollout.model_validate(full_row()))
    assert set(row) == {
        *("schema", "run_id", "rollout_id", "task_id", "domain", "group_id", "attempt", "try", "policy", "desktop", "meta"),
        "reset",
        *("outcome", "status", "reward", "usable", "cancel_reason", "error", "n_steps", "started_at", "ended_at"),
        *("timing", "steps", "final_image"),
    }
    assert set(row["policy"]) == {"model", "version", "versions"}
    assert set(row["error"]) == {"kind", "phase", "type", "message"}
    assert set(row["timing"]) == {
        *("reset_s", "wait_after_reset_s", "model_s", "act_s", "wait_s", "obs_s", "wait_before_eval_s", "eval_s"),
        "total_s",
    }
    (one,) = row["steps"]
    assert set(one) == {"request", "response", "model", "parse_error", "actions"}
    assert set(one["request"]) == {"messages", "params", "body_sha256", "prompt"}
    assert set(one["request"]["prompt"]) == {"keep", "add", "images", "sha256"}
    assert set(one["response"]) == {"content", "reasoning", "token_ids", "logprobs", "tokens", "finish_reason"}
    assert set(one["model"]) == {
        *("seconds", "queued_s", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens"),
        *("version", "server_version", "resampled"),
    }
    assert set(one["actions"][0]) == {"action", "rc", "stderr", "act_s", "wait_s", "ready_s", "ready", "obs_s"}


def test_a_row_comes_back_from_json_as_it_was() -> None:
    """Written and read again every value is the same; a model's odd text, lone surrogates too, survives."""
    row = full_row()
    again = Rollout.model_validate(json.loads(json.dumps(row)))
    assert dump(again) == row
    assert again.steps[0].response.content == TEXT


def test_words_are_the_designs() -> None:
    """Outcomes and statuses are in every file that was ever written: none may change its spelling."""
    assert {outcome.value for outcome in Outcome} == {
        *("graded", "timed_out_graded", "desktop_failed", "evaluator_failed", "policy_failed", "stopped"),
        *("not_started", "worker_lost"),
    }
    assert {status.value for status in Status} == {
        *("ok", "truncated", "surplus", "cancelled", "skipped", "retried", "error"),
    }
    assert {status.value for status in USABLE} == {"ok", "truncated"}
    assert not GRADED_OUTCOMES & DESKTOP_OUTCOMES


@pytest.mark.parametrize("change", [{"surprise": 1}, {"reward": math.nan}, {"reward": -0.1}, {"attempt": -1}, {"try": -1}])
def test_a_draft_that_is_none_is_refused(change: dict[str, Any]) -> None:
    """Unknown fields, rewards out of [0, 1] and negative numbers."""
    with pytest.raises(ValidationError):
        Draft.model_validate({**draft(), **change})


@pytest.mark.parametrize("place", ["meta", "logprobs"])
def test_a_nan_is_never_stored_as_something_else(place: str) -> None:
    """It stays a NaN, in open fields too, so that writing it as JSON fails instead of making it null."""
    row = full_row()
    if place == "meta":
        row["meta"] = {"deep": [math.nan]}
    else:
        row["steps"][0]["response"]["logprobs"] = [math.nan, -1.0]
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.dumps(dump(Rollout.model_validate(row)), allow_nan=False)


@given(ids, ids, st.integers(0, 99), st.integers(0, 9))
def test_a_rollout_id_names_one_key(run: str, group: str, attempt: int, try_: int) -> None:
    """No two keys share an id, since a colon is in no id; keys are equal, and hash, by value."""
    key = RolloutKey(run=run, group=group, attempt=attempt, try_=try_)
    assert key.rollout_id.split(":") == [run, group, str(attempt), str(try_)]
    assert {key: 1}[RolloutKey.model_validate(dump(key))] == 1
    assert dump(key.next_try()) == {**dump(key), "try": try_ + 1}


@given(ids)
def test_ids_are_safe_in_paths(text: str) -> None:
    """An id is one path component and no hidden or parent folder."""
    assert is_id(text)
    assert "/" not in text
    assert not text.startswith(".")


@pytest.mark.parametrize("text", ["", ".", "..", "../../x", "a/b", "-a", "a b", "a\n", "ä", "a:b", "x" * 129, None, 1, b"a"])
def test_what_is_no_id_is_refused(text: object) -> None:
    """Anything that could leave its folder, break a header or a rollout id."""
    assert not is_id(text)
