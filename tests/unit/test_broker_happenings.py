"""Are a run's events the same whatever way the sink tells its lines, and do they say what a trainer needs?"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato_rl.broker.run import Run
from legato_rl.config import PolicyConfig, Settings
from legato_rl.records import FeedRow, Outcome, RolloutKey, Status
from legato_rl.rundir import TaskSpec
from legato_rl.status import decide
from legato_rl.wire import DesktopEvent, Event, Feed

GROUPS = ("a", "b")


def a_run(**changes: object) -> Run:
    """A run of two groups of two attempts and one extra."""
    made = {"group": 2, "oversample": 0.5, "env_retries": 1, **changes}
    asked = Settings(policy=PolicyConfig("fake", "m"), **made)
    tasks = [TaskSpec(task_id=f"t-{g}", group_id=g, domain=None, config={}, max_steps=3, meta={"g": g}) for g in GROUPS]
    return Run("r", asked, tasks)


def lines(rng: Random) -> tuple[list[FeedRow], list[DesktopEvent]]:
    """A whole file of rows in some order, as a sink would store them, and desktop events among them."""
    run = a_run()
    rows: list[FeedRow] = []
    waiting = [RolloutKey(run="r", group=g, attempt=n, try_=0) for g in GROUPS for n in range(3)]
    graded = dict.fromkeys(GROUPS, 0)
    while waiting:
        key = waiting.pop(rng.randrange(len(waiting)))
        outcome = rng.choice([Outcome.GRADED, Outcome.DESKTOP_FAILED, Outcome.POLICY_FAILED])
        status = decide(outcome, key.try_, graded[key.group], run.settings.closing, run.settings.env_retries)
        reward = rng.choice([0.0, 1.0]) if outcome is Outcome.GRADED else None
        graded[key.group] += reward is not None
        rows.append(FeedRow(n=len(rows) + 1, key=key, outcome=outcome, status=status, reward=reward, versions=["v1"]))
        if status is Status.RETRIED:
            waiting.append(key.next_try())
    after = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 4)))
    events = [
        DesktopEvent(n=n, after=place, desktop="w0", event="rebuilt", at="now", reason="r") for n, place in enumerate(after, 1)
    ]
    return rows, events


def tell(run: Run, rows: list[FeedRow], events: list[DesktopEvent], last: int, events_last: int) -> None:
    """One feed."""
    run.feed(Feed(run="r", rows=rows, last=last, events=events, events_last=events_last), 0.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_events_in_whatever_pieces_the_feed_comes(seed: int) -> None:
    """Once whole, or in pieces with gaps, repeats and events that come late: numbers and words are the same."""
    rng = Random(seed)
    rows, events = lines(rng)
    whole, pieces = a_run(), a_run()
    tell(whole, rows, events, len(rows), len(events))
    stored, noted = 0, 0
    while (pieces.feed_last, pieces.events_last) != (len(rows), len(events)):
        stored = rng.randint(max(stored, pieces.feed_last), len(rows))
        noted = max(noted, sum(event.after < stored for event in events), pieces.events_last)
        start = rng.randint(0, pieces.feed_last + 1)
        late = rng.random() < 0.5
        tell(pieces, rows[start:stored], [] if late else events[:noted], stored, noted)
        if stored == len(rows):
            tell(pieces, rows[pieces.feed_last :], events[pieces.events_last :], len(rows), len(events))
    assert pieces.happenings.events == whole.happenings.events
    assert [event.n for event in whole.happenings.events] == list(range(1, len(whole.happenings.events) + 1))
    kinds = [event.kind for event in whole.happenings.events]
    assert kinds.count("rollout") == len(rows)
    assert kinds.count("group_ended") == len(GROUPS)
    assert kinds[len(kinds) - sum(event.after == len(rows) for event in events) - 1] == "run_finished"
    assert sum(whole.ignored.values()) == 0, "the tables know every row"


def test_a_closed_group_says_what_to_train_on() -> None:
    """Usable rollouts in stored order, their rewards and advantages, the versions; once, with the row that closes it."""
    run = a_run()
    keys = [RolloutKey(run="r", group="a", attempt=n, try_=0) for n in range(3)]
    told = [
        (Outcome.GRADED, Status.OK, 1.0),
        (Outcome.TIMED_OUT_GRADED, Status.TRUNCATED, 0.0),
        (Outcome.GRADED, Status.SURPLUS, 1.0),
    ]
    rows = [
        FeedRow(n=n, key=key, outcome=outcome, status=status, reward=reward, versions=[f"v{n}"])
        for n, (key, (outcome, status, reward)) in enumerate(zip(keys, told, strict=True), 1)
    ]
    tell(run, rows, [], 3, 0)
    kinds = [event.kind for event in run.happenings.events]
    assert kinds == ["rollout", "rollout", "group_closed", "rollout", "group_ended"]
    closed: Event = run.happenings.events[2]
    assert closed.data == {
        **{"group": "a", "task": "t-a", "meta": {"g": "a"}, "asked": 2, "graded": 2, "usable": 2},
        **{"rollouts": ["r:a:0:0", "r:a:1:0"], "rewards": [1.0, 0.0], "advantages": [1.0, -1.0], "versions": ["v1", "v2"]},
    }
    assert run.happenings.after(2, 1) == [closed]


@pytest.mark.parametrize(("free_mb", "says"), [(-1, ""), (2048, ""), (1023, "--min-free")])
def test_a_disk_that_is_nearly_full_pauses_the_run(free_mb: int, says: str) -> None:
    """Below --min-free nothing new is handed out, and the status says why; an unknown amount is no reason."""
    run = a_run(min_free_gb=1.0)
    run.feed(Feed(run="r", rows=[], last=0, free_mb=free_mb), 0.0)
    assert says in run.trouble
    assert run.may_hand_out(0.0) is (says == "")


def test_a_run_that_goes_on_forgets_the_failures_that_stopped_it() -> None:
    """Rows that are read at the start do not count as the last tries."""
    run = a_run(env_retries=30, group=1)
    key = RolloutKey(run="r", group="a", attempt=0, try_=0)
    rows = []
    for n in range(1, 26):
        rows.append(FeedRow(n=n, key=key, outcome=Outcome.DESKTOP_FAILED, status=Status.RETRIED, reward=None))
        key = key.next_try()
    tell(run, rows, [], 25, 0)
    assert run.state == "running"


def test_numbers_stay_when_an_error_is_tried_again() -> None:
    """What was told keeps its number, and what comes of the new try is told behind it."""
    first, second = a_run(oversample=0.0), a_run(oversample=0.0)
    keys = [RolloutKey(run="r", group=g, attempt=n, try_=0) for g in GROUPS for n in range(2)]
    graded = [Outcome.GRADED, Status.OK, 1.0]
    failed = [Outcome.EVALUATOR_FAILED, Status.ERROR, None]
    told = [(keys[0], *graded), (keys[1], *failed), (keys[2], *graded), (keys[3], *graded), (keys[1].next_try(), *graded)]
    rows = [
        FeedRow(n=n, key=key, outcome=outcome, status=status, reward=reward)
        for n, (key, outcome, status, reward) in enumerate(told, 1)
    ]
    tell(first, rows[:4], [], 4, 0)
    second.again = frozenset({keys[1].rollout_id})
    tell(second, rows, [], 5, 0)
    before, after = first.happenings.events, second.happenings.events
    assert [event.kind for event in before][-1] == "run_finished"
    assert after[: len(before)] == before
    assert [event.kind for event in after[len(before) :]] == ["rollout", "group_closed", "group_ended", "run_finished"]
