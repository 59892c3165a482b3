"""The summary's numbers are those of its rows, and its notices say what a trainer must know."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.errors import RecordError
from legato_rl.records import (
    ModelUse,
    Outcome,
    PolicyStamp,
    ResetWay,
    Rollout,
    RolloutError,
    Status,
    Step,
    StepRequest,
    StepResponse,
    Timing,
)
from legato_rl.summary import percentiles, summarize


def settings(group: int = 2, oversample: float = 0.0) -> Settings:
    """A run's settings."""
    return Settings(policy=PolicyConfig("fake", "m"), desktop=DesktopConfig(backend="fake"), group=group, oversample=oversample)


def step(
    seconds: float = 1.0,
    *,
    queued_s: float = 0.0,
    attempts: int = 1,
    resampled: int = 0,
    ids: list[int] | None = None,
    logprobs: Sequence[float] = (),
    cached: int | None = None,
    parse_error: str | None = None,
    version: str = "v1",
    finish_reason: str | None = "stop",
) -> Step:
    """A step with 100 prompt tokens."""
    return Step(
        request=StepRequest(messages=[], params={}, body_sha256="", prompt=None),
        response=StepResponse(
            content="",
            reasoning=None,
            token_ids=ids,
            logprobs=list(logprobs),
            tokens=None,
            finish_reason=finish_reason,
        ),
        model=ModelUse(
            seconds=seconds,
            queued_s=queued_s,
            attempts=attempts,
            resampled=resampled,
            prompt_tokens=100,
            completion_tokens=2,
            cached_tokens=cached,
            version=version,
            server_version=None,
        ),
        parse_error=parse_error,
        actions=[],
    )


def row(
    attempt: int,
    reward: float | None = None,
    status: Status = Status.OK,
    outcome: Outcome = Outcome.GRADED,
    *,
    group: str = "g",
    steps: Sequence[Step] = (),
    error: RolloutError | None = None,
    timing: Timing | None = None,
    at: tuple[str, str] | None = ("2026-01-01T00:00:00.000Z", "2026-01-01T00:30:00.000Z"),
) -> Rollout:
    """One row."""
    return Rollout(
        run_id="r",
        rollout_id=f"r:{group}:{attempt}:0",
        task_id="t",
        domain=None,
        group_id=group,
        attempt=attempt,
        try_=0,
        policy=PolicyStamp(model="m", version="v1", versions=list(dict.fromkeys(s.model.version for s in steps))),
        desktop="d",
        outcome=outcome,
        reward=reward,
        error=error,
        n_steps=len(steps),
        started_at=at[0] if at else None,
        ended_at=at[1] if at else None,
        timing=timing or Timing(),
        steps=list(steps),
        status=status,
        usable=status in (Status.OK, Status.TRUNCATED),
    )


def test_a_run_with_everything() -> None:
    """Counts, rates and lengths of a run with one closed, one short and one open group."""
    broken = RolloutError(kind="env", phase="act", type="timeout", message="no answer")
    cut = RolloutError(kind="policy", phase="policy", type="http_500", message="the server failed")
    late = ("2026-01-01T01:00:00.000Z", "2026-01-01T02:00:00.000Z")
    rows = [
        row(0, 1.0, steps=[step(), step(version="v2")], timing=Timing(total_s=10), at=late),
        row(1, 0.5, Status.TRUNCATED, Outcome.TIMED_OUT_GRADED, steps=[step()], timing=Timing(total_s=20)),
        row(2, None, Status.CANCELLED, Outcome.POLICY_FAILED, error=cut, steps=[step()], timing=Timing(total_s=4)),
        *(row(attempt, None, Status.ERROR, Outcome.DESKTOP_FAILED, group="h", error=broken) for attempt in range(3)),
        row(0, None, Status.SKIPPED, Outcome.NOT_STARTED, group="i", at=None),
    ]
    events = [{"event": "rebuilt", "desktop": "d-1"}, {"event": "out", "desktop": "d-1"}]
    summary = summarize(rows, settings(oversample=0.5), ["g", "h", "i"], events, ["said before"])
    assert summary["rows"] == 7
    assert summary["groups"] == {"asked": 3, "closed": 1, "short": 1, "open": 1, "flat": 0}
    assert summary["attempts"] == {"asked": 9, "ended": 7, "unfinished": 2}
    assert summary["rewards"] == {"asked": 6, "usable": 2, "mean": 0.75, "success_rate": 0.5}
    assert summary["statuses"] == {
        "ok": 1, "truncated": 1, "surplus": 0, "cancelled": 1, "skipped": 1, "retried": 0, "error": 3,
    }  # fmt: skip
    assert (summary["hours"], summary["usable_per_hour"]) == (2.0, 1.0)
    assert summary["errors"] == {"policy": {"http_500": 1}, "env": {"timeout": 3}}
    kept, cancelled = summary["lengths"]["kept"], summary["lengths"]["cancelled"]
    assert (kept["steps_mean"], kept["seconds_mean"]) == (1.5, 15.0)
    assert (cancelled["rollouts"], cancelled["steps_mean"], cancelled["seconds_mean"]) == (1, 1.0, 4.0)
    assert summary["policy_versions"] == {"v1": 3, "v2": 1}
    assert summary["mixed_version_rollouts"] == 1
    assert "usable rollouts that mix policy versions: 1" in summary["notices"]
    assert summary["desktops"] == {
        "rebuilt": 1,
        "out": ["d-1"],
        "resets": {"booted": 0, "fast": 0, "escalated": 0, "revert": 0},
    }
    assert summary["notices"][0] == "said before"
    assert "2 of 9 attempts have no final row" in summary["notices"]
    assert summary["lengths"]["note"] in summary["notices"]


def test_resets() -> None:
    """Those that became a revert after all are counted, whatever became of the row, and told."""
    ways: list[ResetWay | None] = ["booted", "fast", "escalated", "fast", None]
    rows = [row(n, 1.0).model_copy(update={"reset": way}) for n, way in enumerate(ways)]
    summary = summarize(rows, settings(group=5), ["g"])
    assert summary["desktops"]["resets"] == {"booted": 1, "fast": 2, "escalated": 1, "revert": 0}
    assert [notice for notice in summary["notices"] if "resets" in notice] == [
        "fast resets that did not prove clean and became reverts: 1; the workers' logs say why"
    ]


def test_model_calls() -> None:
    """Percentiles, retries, cache hits and shares are over all steps; the cache only over those that report it."""
    steps = [step(float(n), queued_s=n / 100, ids=[1, 2], logprobs=[-1, -1], cached=50) for n in range(1, 100)]
    steps.append(step(100.0, queued_s=1.0, attempts=3, resampled=2, parse_error="none", finish_reason=None))
    calls = summarize([row(0, 1.0, steps=steps)], settings(group=1), ["g"])["model_calls"]
    assert (calls["seconds_p50"], calls["seconds_p95"], calls["seconds_p99"]) == (50.0, 95.0, 99.0)
    assert calls["queued_p95"] == 0.95
    assert (calls["retried"], calls["extra_attempts"], calls["resampled"]) == (1, 2, 2)
    assert calls["cache_hit_rate"] == 0.5
    assert (calls["logprobs_share"], calls["token_ids_share"], calls["prompt_ids_share"]) == (0.99, 0.99, 0.0)
    assert calls["parse_errors"] == 1
    assert calls["finish_reasons"] == {"stop": 99, "none": 1}


def test_an_empty_completion_lacks_no_logprobs() -> None:
    """A completion without tokens has no logprobs to give."""
    calls = summarize([row(0, 1.0, steps=[step(ids=[])])], settings(group=1), ["g"])["model_calls"]
    assert calls["logprobs_share"] == 1.0


def test_time_is_split_without_rest() -> None:
    """Queueing is taken out of the model's time, what no phase names is `other`, and the shares add up to 1."""
    timing = Timing(reset_s=2, model_s=5, act_s=1, total_s=10)
    time = summarize([row(0, 1.0, steps=[step(queued_s=3)], timing=timing)], settings(group=1), ["g"])["time"]
    spent = {phase: seconds for phase, seconds in time["seconds"].items() if seconds}
    assert spent == {"reset": 2, "model": 2, "queue": 3, "act": 1, "other": 2}
    assert math.fsum(time["share"].values()) == pytest.approx(1)


def test_a_run_without_rows() -> None:
    """Nothing stored yet: counts are 0, and what would be 0 of 0 is null."""
    summary = summarize([], settings(), ["g"])
    assert summary["attempts"] == {"asked": 2, "ended": 0, "unfinished": 2}
    assert summary["rewards"]["success_rate"] is None
    assert summary["usable_per_hour"] is None
    assert summary["model_calls"]["seconds_p50"] is None
    json.dumps(summary, allow_nan=False)


def test_a_group_without_variance_is_told() -> None:
    """Equal rewards are counted as flat, and a notice says that they carry no signal."""
    summary = summarize([row(0, 1.0), row(1, 1.0)], settings(), ["g"])
    assert summary["groups"]["flat"] == 1
    assert any("without variance" in notice for notice in summary["notices"])


def test_a_time_that_is_none_is_refused() -> None:
    """A damaged time is named."""
    with pytest.raises(RecordError, match="'yesterday' is no ISO 8601 time"):
        summarize([row(0, 1.0, at=("yesterday", "2026-01-01T00:00:00.000Z"))], settings(), ["g"])


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_occurred(values: list[float]) -> None:
    """Every percentile is one of the values, has its share of them at or below it, and grows with its number."""
    found = percentiles(values, "x")
    assert found["x_p50"] <= found["x_p95"] <= found["x_p99"]
    for share, value in zip((0.5, 0.95, 0.99), found.values(), strict=True):
        assert value in values
        assert sum(other <= value for other in values) >= share * len(values)


@given(st.lists(st.tuples(st.sampled_from(Status), st.sampled_from([0.0, 0.5, 1.0])), max_size=12), st.data())
def test_order_does_not_matter(made: list[tuple[Status, float]], data: st.DataObject) -> None:
    """The same rows in another order give the same counts."""
    rows = [row(n, reward, status, steps=[step()]) for n, (status, reward) in enumerate(made)]
    shuffled = data.draw(st.permutations(rows))
    asked = settings(group=12)
    assert summarize(shuffled, asked, ["g"]) == summarize(rows, asked, ["g"])
