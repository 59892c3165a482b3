"""Group arithmetic: by id, never by position, and only over what counts."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.errors import RecordError
from legato_rl.export.groups import Group, RowFacts, env_errors, fold_groups
from legato_rl.records import GRADED_OUTCOMES, USABLE, Outcome, Status
from legato_rl.status import decide


def settings(group: int = 2, oversample: float = 0.0, close: str = "first", env_retries: int = 1) -> Settings:
    """Settings that matter to groups."""
    return Settings(
        policy=PolicyConfig("fake", "m"),
        desktop=DesktopConfig(backend="fake"),
        group=group,
        oversample=oversample,
        close=close,
        env_retries=env_retries,
    )


def row(
    attempt: int,
    reward: float | None = None,
    status: Status = Status.OK,
    outcome: Outcome = Outcome.GRADED,
    try_: int = 0,
    group_id: str = "g",
) -> RowFacts:
    """Facts of one row."""
    return RowFacts(group_id=group_id, attempt=attempt, try_=try_, outcome=outcome, status=status, reward=reward)


def failed(attempt: int, status: Status = Status.ERROR, try_: int = 0) -> RowFacts:
    """A row of a broken desktop."""
    return row(attempt, None, status, Outcome.DESKTOP_FAILED, try_)


def fold_one(rows: list[RowFacts], asked: Settings) -> Group:
    """The only group of a run."""
    [group] = fold_groups(rows, asked, ["g"])
    return group


@pytest.mark.parametrize(
    ("rows", "asked", "state"),
    [
        ([], settings(), "open"),
        ([row(0, 1.0)], settings(), "open"),
        ([row(0, 1.0), row(1, 0.0)], settings(), "closed"),
        ([row(0, 1.0), row(2, 0.0)], settings(oversample=0.5), "closed"),
        ([row(0, 1.0), failed(1)], settings(), "short"),
        ([row(0, 1.0), failed(1, Status.RETRIED)], settings(), "open"),
        ([row(0, 1.0), failed(1, Status.RETRIED), failed(1, try_=1)], settings(), "short"),
        ([row(0, 1.0), row(2, 0.0)], settings(oversample=0.5, close="all"), "open"),
        ([row(0, 1.0), row(1, 0.0), failed(2)], settings(oversample=0.5, close="all"), "closed"),
        ([row(0, 1.0), failed(1), failed(2)], settings(oversample=0.5, close="all"), "short"),
    ],
)
def test_state(rows: list[RowFacts], asked: Settings, state: str) -> None:
    """A group is closed, short or open by what is stored of it."""
    assert fold_one(rows, asked).state == state


def test_result_is_the_highest_try() -> None:
    """A later try replaces an earlier one, also where it was stored first; a second row of one key changes nothing."""
    group = fold_one([row(0, 1.0, try_=1), failed(0, Status.RETRIED), row(0, 0.25, try_=1), row(1, 0.0)], settings())
    assert [(r.attempt, r.reward) for r in group.usable] == [(0, 1.0), (1, 0.0)]


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 0.0, 0.0, 0.0], [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]),
        ([1.0, 1.0, 1.0, 0.0], [*[1 / math.sqrt(3)] * 3, -math.sqrt(3)]),
        ([0.5, 0.5, 0.5, 0.5], [0.0] * 4),
    ],
)
def test_advantages(rewards: list[float], expected: list[float]) -> None:
    """The population's deviation, so that the single success keeps its signal; 0 where nothing differs."""
    group = fold_one([row(attempt, reward) for attempt, reward in enumerate(rewards)], settings(group=4))
    assert list(group.advantages.values()) == pytest.approx(expected)
    assert group.flat == (expected[0] == 0)


def test_surplus_has_no_advantage() -> None:
    """A graded row beyond G is counted as graded and is in no advantage."""
    surplus = row(2, 1.0, Status.SURPLUS)
    group = fold_one([row(0, 1.0), row(1, 0.0), surplus], settings(oversample=0.5))
    assert (group.graded, group.asked, group.ended) == (3, 2, 3)
    assert group.advantages == {0: 1.0, 1: -1.0}


def test_contradictions_are_refused() -> None:
    """A row of an unknown group or attempt, or a usable one without a reward, is a damaged file."""
    for rows, words in (
        ([row(0, 1.0, group_id="x")], "no group of this run"),
        ([row(2, 1.0)], "attempt is 2"),
        ([row(0, None)], "reward is null"),
    ):
        with pytest.raises(RecordError, match=words):
            fold_one(rows, settings())


@st.composite
def stored_runs(draw: st.DrawFn) -> tuple[Settings, list[str], list[RowFacts]]:
    """A run as the sink would store it: groups mixed, tries in order, statuses by the one table."""
    asked = settings(
        group=draw(st.integers(1, 4)),
        oversample=draw(st.sampled_from([0.0, 0.5, 1.0])),
        close=draw(st.sampled_from(["first", "all"])),
        env_retries=draw(st.integers(0, 2)),
    )
    group_ids = [f"g{index}" for index in range(draw(st.integers(1, 3)))]
    todo = [(group_id, attempt, 0) for group_id in group_ids for attempt in range(asked.attempts)]
    graded = dict.fromkeys(group_ids, 0)
    rows: list[RowFacts] = []
    while todo and draw(st.integers(0, 15)):
        group_id, attempt, try_ = todo.pop(draw(st.integers(0, len(todo) - 1)))
        outcome = draw(st.sampled_from(Outcome))
        is_graded = outcome in GRADED_OUTCOMES
        status = decide(outcome, try_, graded[group_id], asked.closing, asked.env_retries)
        reward = draw(st.sampled_from([0.0, 0.25, 1.0])) if is_graded else None
        rows.append(row(attempt, reward, status, outcome, try_, group_id))
        graded[group_id] += is_graded
        if status is Status.RETRIED:
            todo.append((group_id, attempt, try_ + 1))
    return asked, group_ids, rows


@given(stored_runs(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(run: tuple[Settings, list[str], list[RowFacts]], dice: random.Random) -> None:
    """Groups are the same whatever the order of their rows: everything is found by id."""
    asked, group_ids, rows = run
    shuffled = list(rows)
    dice.shuffle(shuffled)
    assert fold_groups(shuffled, asked, group_ids) == fold_groups(rows, asked, group_ids)


@given(stored_runs())
def test_groups_of_any_run(run: tuple[Settings, list[str], list[RowFacts]]) -> None:
    """Advantages are of exactly the usable attempts, with mean 0; a closed group has G usable or more, others fewer."""
    asked, group_ids, rows = run
    groups = fold_groups(rows, asked, group_ids)
    assert [group.group_id for group in groups] == group_ids
    for group in groups:
        own = [r for r in rows if r.group_id == group.group_id]
        assert set(group.advantages) == {r.attempt for r in own if r.status in USABLE}
        assert math.fsum(group.advantages.values()) == pytest.approx(0, abs=1e-9)
        assert (group.state == "closed") <= (len(group.usable) >= asked.group)
        assert (group.state == "short") <= (len(group.usable) < asked.group)
        assert (group.state == "open") <= (group.ended < asked.attempts)


@pytest.mark.parametrize(
    ("rows", "asked", "ids"),
    [
        ([failed(0)], settings(), ["r:g:0:0"]),
        ([failed(0, Status.RETRIED), failed(0, try_=1)], settings(), ["r:g:0:1"]),
        ([failed(0), row(0, 1.0, try_=1)], settings(), []),
        ([row(0, None, Status.ERROR, Outcome.EVALUATOR_FAILED)], settings(), ["r:g:0:0"]),
        ([row(0, None, Status.ERROR, Outcome.POLICY_FAILED)], settings(), []),
        ([failed(0), row(1, 1.0), row(2, 1.0)], settings(oversample=0.5), []),
        ([failed(0), row(1, 1.0), row(2, 1.0)], settings(oversample=1.0, close="all"), ["r:g:0:0"]),
        ([failed(0), row(1, 1.0), row(2, 1.0)], settings(oversample=0.5, close="all"), []),
    ],
)
def test_errors_that_may_be_tried_again(rows: list[RowFacts], asked: Settings, ids: list[str]) -> None:
    """Results of kind env in groups that are not closed; under `all` a group is open until it has ended."""
    named = [replace(fact, rollout_id=f"r:g:{fact.attempt}:{fact.try_}") for fact in rows]
    assert env_errors(named, asked, ["g"]) == ids
    assert env_errors(named[::-1], asked, ["g"]) == ids
    [group] = fold_groups(named, asked, ["g"], again=ids)
    [without] = fold_groups(named, asked, ["g"])
    assert without.ended - group.ended == len(ids)
