"""Does the proxy's core make its calls as the broker says: whose, how many, when, and of which policy?"""

from __future__ import annotations

import pytest
from proxy_on_paper import Harness, call_id, completion, harness, run_policy

from legato_rl.broker.proxy.calls import State
from legato_rl.broker.proxy.core import Core
from legato_rl.policy.verdicts import Action
from legato_rl.wire import CallFailed, CallReply, PolicyName


def attempts(h: Harness, rollout: str) -> int:
    """How many attempts the answer of a call tells."""
    answer = h.told[rollout]
    assert isinstance(answer, CallReply)
    return answer.model.attempts


def name(h: Harness, rollout: str) -> PolicyName | None:
    """What an attempt at the call of `rollout` would ask for."""
    return h.core.name_of(h.core.calls[rollout])


def test_a_call_waits_until_its_run_is_known_and_others_pass_it() -> None:
    """A proxy that has just started knows no run: the call is queued, keeps its place, and its clock stands still."""
    h = Harness(Core(max_inflight=1, server_wait=600.0), [run_policy("b")])
    h.ask(call_id("a"))
    h.ask(call_id("b"))
    assert h.starts == []
    h.obey()
    assert h.starts == ["b"]
    h.wait(3.0)
    pending = h.core.pending(h.core.calls["a"], h.now)
    assert (pending.state, pending.queued_s, pending.running_s) == ("queued", 3.0, 0.0)
    h.policies.append(run_policy("a"))
    h.obey()
    h.end(h.token("b"))
    assert h.starts == ["b", "a"]


@pytest.mark.parametrize("number", [1, -1])
def test_a_call_of_a_policy_that_is_not_known_yet_waits(number: int) -> None:
    """The broker hands a try out before the proxy has heard of its policy; a number that is none is never known."""
    h = harness()
    h.ask(call_id("a"), policy=number)
    assert h.starts == []
    h.policies[0] = run_policy("a", versions=("v", "w"))
    h.obey()
    assert h.starts == (["a"] if number == 1 else [])


def test_the_number_says_which_policy_and_the_moment_which_name() -> None:
    """`new` makes another number, so that tries keep theirs; `paused` gives the number another name."""
    h = harness(max_inflight=1)
    h.policies[0] = run_policy("a", versions=("1", "2"))
    h.obey()
    h.ask(call_id("a"), policy=0)
    assert name(h, "a") == PolicyName(model="m", version="1")
    h.policies[0] = run_policy("a", versions=("3", "3"))
    h.obey()
    assert name(h, "a") == PolicyName(model="m", version="3")


def test_a_pause_that_aborts_costs_a_call_nothing() -> None:
    """Neither attempt nor retry nor time: it is asked again in its place, and its aborted seconds are the pause's."""
    h = harness(max_inflight=1, retries=0)
    h.ask(call_id("a"), deadline_s=5.0)
    h.ask(call_id("b"))
    for _ in range(3):
        h.wait(4.0)
        first = h.token("a")
        h.obey("abort")
        h.check()
        assert first in h.aborted
        h.end(first)
        h.wait(1.0)
        h.ask(call_id("a"))
        pending = h.core.pending(h.core.calls["a"], h.now)
        assert (pending.state, pending.running_s) == ("paused", 0.0)
        h.obey()
        h.ask(call_id("b"))
    h.wait(1.0)
    h.end(h.token("a"))
    assert attempts(h, "a") == 1
    answer = h.told["a"]
    assert isinstance(answer, CallReply)
    assert answer.model.queued_s == 15.0
    assert h.starts == ["a", "a", "a", "a", "b"]


def test_what_an_attempt_ran_before_a_pause_still_counts() -> None:
    """Only the aborted attempt is for free: one that failed before it is an attempt, a retry, and time."""
    h = harness(max_inflight=1, retries=1)
    h.ask(call_id("a"))
    h.wait(2.0)
    h.end(h.token("a"), Action.RETRY)
    h.wait(1.0)
    h.obey("abort")
    h.end(next(iter(h.aborted & set(h.air))))
    assert h.core.pending(h.core.calls["a"], h.now).running_s == 2.0
    h.obey()
    h.end(h.token("a"), Action.RETRY)
    assert isinstance(h.told["a"], CallFailed), "the retry before the pause is spent"


def test_an_answer_that_comes_after_the_abort_goes_nowhere() -> None:
    """It may be of the weights before: the call is asked again."""
    h = harness()
    h.ask(call_id("a"))
    first = h.token("a")
    h.obey("abort")
    h.take(h.core.completed(first, completion(h.air.pop(first)), h.now))
    assert h.told == {}
    h.obey()
    h.end(h.token("a"))
    assert attempts(h, "a") == 1


def test_a_pause_that_waits_lets_what_is_in_the_air_be_answered() -> None:
    """And admits nothing more, whatever comes back; then an abort may follow."""
    h = harness(max_inflight=2)
    for run in "abc":
        h.ask(call_id(run))
    h.obey("wait")
    h.end(h.token("a"))
    assert attempts(h, "a") == 1
    h.wait(5.0)
    assert h.starts == ["a", "b"]
    h.obey("abort")
    assert len(h.aborted) == 1
    assert h.core.calls["b"].state is State.QUEUED
    h.check()


def test_a_call_that_backs_off_does_not_go_in_a_pause() -> None:
    """Its own pause ends within the run's."""
    h = harness()
    h.ask(call_id("a"))
    h.end(h.token("a"), Action.BACK_OFF)
    h.obey("wait")
    h.wait(2.0)
    assert h.starts == ["a"]
    h.obey()
    assert h.starts == ["a", "a"]


def test_more_and_fewer_calls_at_once() -> None:
    """More go at once; fewer take nothing out of the air, and nothing goes before there is room."""
    h = harness(max_inflight=1)
    for run in "abcde":
        h.ask(call_id(run))
    h.obey(max_inflight=3)
    assert h.starts == ["a", "b", "c"]
    h.obey(max_inflight=1)
    assert not h.aborted
    h.end(h.token("a"))
    h.end(h.token("b"))
    assert h.starts == ["a", "b", "c"]
    h.end(h.token("c"))
    assert h.starts == ["a", "b", "c", "d"]


def test_retries_are_the_runs_own() -> None:
    """Two runs fail alike: one has a retry left."""
    h = harness()
    h.policies = [run_policy("a", retries=0), run_policy("b", retries=1)]
    h.obey()
    h.ask(call_id("a"))
    h.ask(call_id("b"))
    for run in "ab":
        h.end(h.token(run), Action.RETRY)
    assert set(h.told) == {"a"}


def test_a_call_whose_run_is_over_fails_nothing_and_goes_nowhere() -> None:
    """Its worker is told by the broker; until then it waits."""
    h = harness(retries=0)
    h.ask(call_id("a"))
    h.policies = []
    h.obey()
    h.end(h.token("a"), Action.RETRY)
    h.wait(5.0)
    assert (h.told, h.starts) == ({}, ["a"])


def test_of_another_server_nothing_is_known() -> None:
    """What the old one did is not held against it; the pause holds, and nothing may be in the air."""
    h = harness(server_wait=10.0)
    h.ask(call_id("a"))
    token = h.token("a")
    h.end(h.token("a"), Action.DOWN)
    h.obey("abort")
    h.core.move()
    assert h.core.server.standing == "paused"
    h.obey()
    assert h.core.server.standing == "up"
    assert h.token("a") != token
    with pytest.raises(ValueError, match="1 attempts are at the old server"):
        h.core.move()


def test_each_time_that_a_call_is_taken_in_has_its_name() -> None:
    """A repeat tells the same one; a call that was forgotten and comes again another."""
    h = harness()

    def taken() -> str:
        return h.core.pending(h.core.calls["a"], h.now).taken

    h.ask(call_id("a"))
    first = taken()
    h.ask(call_id("a"))
    assert taken() == first
    h.wait(60.0)
    assert not h.core.calls
    h.ask(call_id("a"))
    assert taken() not in ("", first)
