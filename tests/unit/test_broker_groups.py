"""Groups: every attempt ends once, whatever comes in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato_rl.broker.groups import TRANSITIONS, Attempt, Event, Groups, State, UnknownTransition
from legato_rl.records import GRADED_OUTCOMES, Outcome, RolloutKey, Status
from legato_rl.status import decide


class Sink:
    """A sink in a few lines: first row of a key wins, the status is the design's."""

    def __init__(self, closing: int, env_retries: int) -> None:
        self.rows: dict[RolloutKey, tuple[Outcome, Status]] = {}
        self.closing, self.env_retries = closing, env_retries

    def store(self, key: RolloutKey, outcome: Outcome) -> tuple[Outcome, Status] | None:
        if key in self.rows:
            return None
        graded = sum(k.group == key.group and o in GRADED_OUTCOMES for k, (o, _) in self.rows.items())
        self.rows[key] = (outcome, decide(outcome, key.try_, graded, self.closing, self.env_retries))
        return self.rows[key]


WORKER_OUTCOMES = [o for o in Outcome if o not in (Outcome.NOT_STARTED, Outcome.WORKER_LOST)]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), group=st.integers(1, 4), extra=st.integers(0, 3), first=st.booleans(), retries=st.integers(0, 2))
def test_every_attempt_ends_once_in_any_order(data: st.DataObject, group: int, extra: int, first: bool, retries: int) -> None:
    """Random workers, losses, drops and late rows: at the end each attempt has one final row, and K rows closed a group."""
    n = group + extra
    groups = Groups("r", group, group if first else None)
    for name in ("a", "b"):
        groups.add(name, n)
    sink = Sink(group if first else n, retries)
    held: list[RolloutKey] = []
    zombies: list[RolloutKey] = []  # declared lost, still working
    cancelled: set[tuple[str, int]] = set()
    seen: set[RolloutKey] = set()

    def stored(key: RolloutKey, outcome: Outcome) -> None:
        row = sink.store(key, outcome)
        if row is not None:
            groups.stored(key, *row)

    for _ in range(400):
        if groups.ended:
            break
        move = data.draw(st.sampled_from(["take", "finish", "lose", "drop", "owed", "zombie", "cancel"]))
        if move == "take" and (key := groups.take()) is not None:
            assert key not in sink.rows, "a stored key is never handed out again"
            assert (key.group, key.attempt) not in cancelled, "nothing that was cancelled is begun"
            assert key.try_ == 0 or RolloutKey(run="r", group=key.group, attempt=key.attempt, try_=key.try_ - 1) in sink.rows
            held.append(key)
            seen.add(key)
        elif move == "finish" and held:
            key = held.pop(data.draw(st.integers(0, len(held) - 1)))
            reason = Outcome.STOPPED if groups.stop_of(key) else None
            stored(key, reason or data.draw(st.sampled_from([o for o in WORKER_OUTCOMES if o is not Outcome.STOPPED])))
        elif move == "lose" and held:
            key = held.pop(0)
            groups.lose(key)
            groups.lose(key)
            zombies.append(key)
        elif move == "drop" and held:
            groups.drop(held.pop(0))
        elif move == "owed":
            for key, outcome in groups.owed():
                stored(key, outcome)
        elif move == "zombie" and zombies:
            stored(zombies.pop(), Outcome.GRADED)
        elif move == "cancel" and data.draw(st.integers(0, 9)) == 0:
            cancelled.add((data.draw(st.sampled_from(["a", "b"])), data.draw(st.integers(0, n - 1))))
            for name, number in cancelled:
                groups.cancel(name, number)
    else:
        # The luck of the draw kept losing them: finish in an orderly way.
        while not groups.ended:
            for key, outcome in groups.owed():
                stored(key, outcome)
            if (taken := groups.take()) is not None:
                held.append(taken)
            for key in held:
                stored(key, Outcome.GRADED)
            held.clear()
    final: dict[tuple[str, int], int] = {}
    for key, (_, status) in sink.rows.items():
        if status is not Status.RETRIED:
            final[key.group, key.attempt] = final.get((key.group, key.attempt), 0) + 1
    assert final == {(name, i): 1 for name in ("a", "b") for i in range(n)}
    for name in ("a", "b"):
        usable = sum(s in (Status.OK, Status.TRUNCATED) for k, (_, s) in sink.rows.items() if k.group == name)
        assert usable <= (group if first else n)
        assert groups.is_closed(name) == (usable >= group)


def test_groups_are_handed_out_in_order_and_a_retry_goes_first() -> None:
    """Attempts leave group by group; one that failed comes again before its siblings."""
    groups = Groups("r", 2, 2)
    groups.add("a", 2)
    groups.add("b", 2)
    first = groups.take()
    assert first is not None
    assert (first.group, first.attempt) == ("a", 0)
    groups.stored(first, Outcome.DESKTOP_FAILED, Status.RETRIED)
    assert groups.take() == first.next_try()
    order = [groups.take() for _ in range(3)]
    assert [(key.group, key.attempt) for key in order if key] == [("a", 1), ("b", 0), ("b", 1)]
    assert groups.take() is None


def test_a_closing_group_skips_what_is_queued() -> None:
    """With its G-th graded row a group owes a not_started row for each queued attempt, and hands out nothing more."""
    groups = Groups("r", 1, 1)
    groups.add("a", 3)
    running, closing = groups.take(), groups.take()
    assert running is not None
    assert closing is not None
    groups.stored(closing, Outcome.GRADED, Status.OK)
    ((skipped, outcome),) = groups.owed()
    assert (skipped.attempt, outcome) == (2, Outcome.NOT_STARTED)
    assert groups.take() is None
    assert groups.is_closed("a")
    assert not groups.ended
    groups.stored(skipped, Outcome.NOT_STARTED, Status.SKIPPED)
    groups.stored(running, Outcome.STOPPED, Status.CANCELLED)
    assert groups.ended


def test_a_try_in_progress_is_adopted_once() -> None:
    """After a restart a worker's own word puts its try back among the held ones; another key does nothing."""
    groups = Groups("r", 1, 1)
    groups.add("a", 2)
    key = RolloutKey(run="r", group="a", attempt=1, try_=0)
    assert groups.adopt(key)
    assert not groups.adopt(key)
    assert not groups.adopt(key.next_try())
    assert not groups.adopt(RolloutKey(run="other", group="a", attempt=0, try_=0))
    taken = groups.take()
    assert taken is not None
    assert taken.attempt == 0
    assert groups.take() is None


@pytest.mark.parametrize(("state", "event"), [(s, e) for s in State for e in Event if (s, e) not in TRANSITIONS])
def test_an_unknown_pair_raises_and_changes_nothing(state: State, event: Event) -> None:
    """A pair that the table does not have is never passed over in silence."""
    attempt = Attempt(RolloutKey(run="r", group="a", attempt=0, try_=0), state)
    with pytest.raises(UnknownTransition, match=event.value):
        attempt.apply(event)
    assert attempt.state is state


def test_a_cancelled_attempt_is_skipped_or_stopped() -> None:
    """One that waits owes a row, one that runs is to stop and is not tried again, one that ended stands."""
    groups = Groups("r", 2, 2)
    groups.add("a", 3)
    done, running = groups.take(), groups.take()
    assert done is not None
    assert running is not None
    groups.stored(done, Outcome.GRADED, Status.OK)
    for number in range(3):
        groups.cancel("a", number)
        groups.cancel("a", number)
    waiting = RolloutKey(run="r", group="a", attempt=2, try_=0)
    assert groups.owed() == [(waiting, Outcome.NOT_STARTED)]
    assert (groups.stop_of(running), groups.stop_of(waiting)) == ("asked", "asked")
    groups.stored(running, Outcome.DESKTOP_FAILED, Status.RETRIED)
    assert groups.owed() == [(running.next_try(), Outcome.NOT_STARTED), (waiting, Outcome.NOT_STARTED)]
    assert groups.take() is None
    for key, outcome in groups.owed():
        groups.stored(key, outcome, Status.SKIPPED)
    assert groups.ended
    assert not groups.is_closed("a")


def test_an_error_that_is_tried_again() -> None:
    """Its attempt goes on with its next try, first in its group."""
    groups = Groups("r", 2, 2)
    groups.add("a", 2)
    failed = groups.take()
    assert failed is not None
    groups.stored(failed, Outcome.EVALUATOR_FAILED, Status.ERROR, again=True)
    assert groups.take() == failed.next_try()


def test_rows_of_nobody_raise() -> None:
    """A row of another run, an unknown group or a try that is not the present one is told, not counted."""
    groups = Groups("r", 1, 1)
    groups.add("a", 1)
    for key in (
        RolloutKey(run="x", group="a", attempt=0, try_=0),
        RolloutKey(run="r", group="b", attempt=0, try_=0),
        RolloutKey(run="r", group="a", attempt=1, try_=0),
        RolloutKey(run="r", group="a", attempt=0, try_=1),
    ):
        with pytest.raises(UnknownTransition):
            groups.stored(key, Outcome.GRADED, Status.OK)
    assert groups.groups["a"].graded == 0


def test_what_is_let_go_of_in_a_closed_group_is_not_begun_again() -> None:
    """It owes a row like one that never started."""
    groups = Groups("r", 1, 1)
    groups.add("a", 2)
    closing, other = groups.take(), groups.take()
    assert closing is not None
    assert other is not None
    groups.stored(closing, Outcome.GRADED, Status.OK)
    groups.drop(other)
    assert groups.take() is None
    assert groups.owed() == [(other, Outcome.NOT_STARTED)]
