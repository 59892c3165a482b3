"""Does the index give every row the status that the rows before it call for, whatever comes in what order?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_rows import ATTEMPTS, GROUP, GROUPS, RUN, draft

from legato_rl.broker.sink.drafts import Expected, read_draft
from legato_rl.broker.sink.index import Index
from legato_rl.errors import RecordError
from legato_rl.records import GRADED_OUTCOMES, Outcome, Rollout, RolloutKey, Status, dump
from legato_rl.status import decide
from legato_rl.wire import FeedRow

EXPECTED = Expected(run_id=RUN, tasks={group: f"task-{group}" for group in GROUPS}, attempts=ATTEMPTS)

rows = st.lists(
    st.builds(
        draft,
        group=st.sampled_from(GROUPS),
        attempt=st.integers(0, ATTEMPTS - 1),
        try_=st.integers(0, 2),
        outcome=st.sampled_from(Outcome),
    ),
    max_size=40,
)
"""Rows in any order; a key may come again, with the same outcome or another."""


def append(index: Index, row: dict[str, Any]) -> tuple[Rollout | None, FeedRow]:
    """What the server does with a row: the stored row (None for a duplicate) and what is answered."""
    read = read_draft(row, EXPECTED)
    standing = index.standing(read.key)
    if standing is not None:
        return None, standing
    settled = index.settle(read)
    return settled, index.add(dump(settled))


def new_index(closing: int = GROUP, env_retries: int = 1) -> Index:
    """An index of the tests' run."""
    return Index(RUN, closing=closing, env_retries=env_retries)


@given(rows, st.integers(1, ATTEMPTS), st.integers(0, 2))
def test_exactly_k_graded_rows_of_a_group_are_usable(incoming: list[dict[str, Any]], closing: int, retries: int) -> None:
    """A group has its first K graded rows as usable rows, and no other, after every row."""
    index, stored = new_index(closing, retries), []
    for row in incoming:
        settled, _ = append(index, row)
        stored += [settled] if settled else []
        for group in GROUPS:
            graded = [row for row in stored if row.group_id == group and row.outcome in GRADED_OUTCOMES]
            assert [row.usable for row in graded] == [i < closing for i in range(len(graded))]
            assert index.graded(group) == len(graded)
        assert not any(row.usable for row in stored if row.outcome not in GRADED_OUTCOMES)


@given(rows, st.integers(1, ATTEMPTS), st.integers(0, 2))
def test_status_is_the_one_of_the_file_order(incoming: list[dict[str, Any]], closing: int, retries: int) -> None:
    """Recomputed from the stored rows alone, in file order, every status is the same, and so is a reloaded index."""
    index, lines = new_index(closing, retries), []
    for row in incoming:
        settled, _ = append(index, row)
        lines += [json.dumps(dump(settled))] if settled else []
    again, graded = new_index(closing, retries), dict.fromkeys(GROUPS, 0)
    for line in map(json.loads, lines):
        outcome = Outcome(line["outcome"])
        assert line["status"] == decide(outcome, line["try"], graded[line["group_id"]], closing, retries)
        assert line["usable"] == (line["status"] in ("ok", "truncated"))
        graded[line["group_id"]] += outcome in GRADED_OUTCOMES
        again.add(line)
    assert again.last == index.last == len(lines)
    assert again.after(0, len(lines)) == index.after(0, len(lines))


@given(rows)
def test_a_duplicate_is_answered_with_the_row_that_stands(incoming: list[dict[str, Any]]) -> None:
    """The first row of a key stands for good: numbers, statuses and rewards never change, and n counts the rows."""
    index, first = new_index(), {}
    for row in incoming:
        settled, answer = append(index, row)
        assert (settled is None) == (answer.key in first)
        assert first.setdefault(answer.key, answer) == answer
    assert [row.n for row in index.after(0, 1000)] == list(range(1, len(first) + 1))
    assert all(index.standing(key) == answer for key, answer in first.items())


@given(rows, st.integers(-2, 50), st.integers(-1, 50))
def test_feed_is_a_run_of_consecutive_rows(incoming: list[dict[str, Any]], after: int, limit: int) -> None:
    """Rows after n, as many as asked for or as there are."""
    index = new_index()
    for row in incoming:
        append(index, row)
    whole = index.after(0, 1000)
    assert index.after(after, limit) == whole[max(0, after) :][: max(0, limit)]


def test_a_closed_group_cancels_what_is_not_graded() -> None:
    """With K graded rows stored a failure is cancelled, its error kept and the group named as the reason."""
    index = new_index()
    for attempt in range(GROUP):
        append(index, draft(attempt=attempt))
    late, _ = append(index, draft(attempt=2, outcome=Outcome.DESKTOP_FAILED))
    assert late is not None
    assert (late.status, late.cancel_reason) == (Status.CANCELLED, "group_closed")
    assert late.error is not None
    assert late.error.type == "lost"
    surplus, _ = append(index, draft(attempt=3))
    assert surplus is not None
    assert (surplus.status, surplus.usable, surplus.reward, surplus.cancel_reason) == (Status.SURPLUS, False, 1.0, None)


def test_a_stopped_row_keeps_its_reason() -> None:
    """In an open group the reason is the one that the worker was given."""
    settled, _ = append(new_index(), draft(outcome=Outcome.STOPPED, cancel_reason="asked"))
    assert settled is not None
    assert (settled.status, settled.cancel_reason) == (Status.CANCELLED, "asked")


def test_a_key_of_another_run_stands_nowhere() -> None:
    """The key holds the run: the same attempt of another run is another row."""
    index = new_index()
    append(index, draft())
    assert index.standing(RolloutKey(run="other", group="g1", attempt=0, try_=0)) is None


@pytest.mark.parametrize(
    "damage",
    [{"outcome": "won"}, {"status": None}, {"attempt": "x"}, {"run_id": "other"}, {"group_id": None}, {"policy": None}],
)
def test_a_line_that_is_no_row_is_refused(damage: dict[str, Any]) -> None:
    """Loading names the row that is damaged."""
    settled = new_index().settle(read_draft(draft(), EXPECTED))
    with pytest.raises(RecordError, match=r"^rollouts\.jsonl, line 1: it is"):
        new_index().add({**dump(settled), **damage})


def test_a_line_that_repeats_a_key_is_refused() -> None:
    """Two rows of one key cannot both count."""
    index = new_index()
    line = dump(index.settle(read_draft(draft(), EXPECTED)))
    index.add(line)
    with pytest.raises(RecordError, match="line 2: it repeats the key 'r1:g1:0:0'"):
        index.add(line)
