"""Does the proxy's core keep its promises, one by one and in whatever order things come?"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy_on_paper import NO_SUCH_MODEL, RUNS, call_id, completion, first_of, harness, run_policy

from legato_rl.broker.proxy.calls import State
from legato_rl.broker.proxy.core import KEEP_S, SILENCE_S
from legato_rl.policy.verdicts import Action
from legato_rl.wire import CallFailed, CallReply

ENDS = [None, None, *(one for one in Action if one is not Action.CANCELLED), NO_SUCH_MODEL]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.integers(1, 3))
def test_random_orders_of_events_keep_the_invariants_and_starve_nobody(data: st.DataObject, slots: int) -> None:
    """Whatever comes in whatever order, the bound holds, answers are unique, clocks add up, and all is answered."""
    h = harness(max_inflight=slots, retries=2)
    for _ in range(data.draw(st.integers(1, 60))):
        match data.draw(st.sampled_from(["ask", "ask", "ask", "end", "end", "wait", "cancel", "probed", "pause", "policies"])):
            case "ask":
                rollout, lease = data.draw(st.sampled_from(RUNS)), data.draw(st.sampled_from([1, 1, 1, 2]))
                step, digest = data.draw(st.integers(0, 2)), data.draw(st.sampled_from("dde"))
                h.ask(call_id(rollout, lease, step, digest), data.draw(st.sampled_from([None, None, 5.0])))
            case "end" if h.air:
                h.end(data.draw(st.sampled_from(sorted(h.air))), data.draw(st.sampled_from(ENDS)))
            case "wait":
                h.wait(data.draw(st.sampled_from([0.0, 0.3, 1.0, 6.0, 11.0])))
            case "cancel":
                h.take(h.core.cancel(call_id(data.draw(st.sampled_from(RUNS))), h.now))
            case "probed":
                h.probed(data.draw(st.booleans()))
            case "pause":
                h.obey(data.draw(st.sampled_from(["abort", "wait", None])), data.draw(st.integers(1, 3)))
            case "policies":
                h.policies = [run_policy(run, retries=2) for run in data.draw(st.sets(st.sampled_from(RUNS)))]
                h.obey()
        h.check()
    h.policies = [run_policy(run, retries=2) for run in RUNS]
    h.obey()
    held = {name: call.id for name, call in h.core.calls.items()}
    for _ in range(40):
        for call in held.values():
            h.ask(call)
        h.probed(True)
        for token in sorted(h.air):
            h.end(token)
        h.wait(1.0)
        h.check()
    assert {call.state for call in h.core.calls.values()} <= {State.ANSWERED, State.FAILED}
    assert set(h.core.calls) == set(held)


def test_a_repeat_gets_the_kept_answer_and_no_second_attempt() -> None:
    """The same id and digest is the same call, before and after its answer."""
    h = harness()
    h.ask(call_id("a"))
    h.ask(call_id("a"))
    h.end(h.token("a"))
    answer = h.told["a"]
    h.ask(call_id("a"))
    assert h.core.calls["a"].answer is answer
    assert h.starts == ["a"]


def test_another_digest_aborts_and_its_late_answer_goes_nowhere() -> None:
    """No reply is ever given to another prompt."""
    h = harness(max_inflight=1)
    h.ask(call_id("a", digest="one"))
    first = h.token("a")
    h.ask(call_id("a", digest="two"))
    assert h.aborted == {first}
    assert h.starts == ["a"], "the slot is taken until the abort is reported"
    h.take(h.core.completed(first, completion(h.air.pop(first)), h.now))
    assert "a" not in h.told
    h.end(h.token("a"))
    assert h.told["a"].call.digest == "two"


def test_an_outdated_ask_changes_nothing_and_gets_no_answer() -> None:
    """A message of an earlier step that comes late does not abort the present one."""
    h = harness()
    h.ask(call_id("a", step=1))
    h.ask(call_id("a", step=0))
    assert h.core.calls["a"].id.step == 1
    assert not h.aborted


def test_slots_are_given_by_arrival() -> None:
    """First come, first served, over all rollouts."""
    h = harness(max_inflight=1)
    for rollout in RUNS:
        h.ask(call_id(rollout))
    for _ in RUNS:
        h.end(next(iter(h.air)))
    assert h.starts == RUNS


def test_a_full_queue_holds_back_its_own_call_alone_and_spends_no_retry() -> None:
    """A 503 beside a healthy server: that call waits with growing pauses, the others go on."""
    h = harness(max_inflight=1, retries=0)
    h.ask(call_id("a"))
    h.ask(call_id("b"))
    h.end(h.token("a"), Action.BACK_OFF)
    assert h.starts == ["a", "b"]
    h.end(h.token("b"))
    pauses = []
    for _ in range(7):
        h.ask(call_id("a"))
        since = h.now
        while not h.air:
            h.wait(0.25)
            h.ask(call_id("a"))
        pauses.append(h.now - since)
        h.end(h.token("a"), Action.BACK_OFF)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert "a" not in h.told


def test_retries_are_counted_and_the_last_failure_is_told() -> None:
    """`--retries 1`: two attempts of a healthy server, then the call fails with the cause."""
    h = harness(retries=1)
    h.ask(call_id("a"))
    h.end(h.token("a"), Action.RETRY)
    h.wait(1.0)
    h.end(h.token("a"), Action.RETRY)
    answer = h.told["a"]
    assert isinstance(answer, CallFailed)
    assert (answer.type, answer.queued_s) == ("retry", 1.0)
    assert h.starts == ["a", "a"]


def test_an_outage_spends_no_retry_and_keeps_places() -> None:
    """Down: nothing is admitted; up again: those who came back go first, and can still fail once."""
    h = harness(max_inflight=1, retries=0)
    h.ask(call_id("a"))
    h.ask(call_id("b"))
    h.end(h.token("a"), Action.DOWN)
    assert h.core.server.standing == "down"
    h.wait(1.0)
    assert (h.air, h.probes) == ({}, 1)
    assert h.core.pending(h.core.calls["b"], h.now).down_s == 1.0
    h.probed(True)
    assert h.starts == ["a", "a"]
    h.end(h.token("a"))
    assert isinstance(h.told["a"], CallReply)


def test_a_time_out_that_overlapped_an_outage_spends_no_retry() -> None:
    """An attempt that hung on a server which went down and came back is the server's failure."""
    h = harness(max_inflight=2, retries=0)
    h.ask(call_id("a"))
    h.ask(call_id("b"))
    h.end(h.token("a"), Action.DOWN)
    h.wait(1.0)
    h.probed(True)
    h.end(h.token("b"), Action.RETRY)
    assert "b" not in h.told


def test_a_server_that_fails_twice_has_its_attempts_called_back() -> None:
    """Refused health means that what is in the air will never be answered; one bad look may be a busy server."""
    h = harness(max_inflight=2)
    h.ask(call_id("a"))
    h.wait(6.0)
    h.probed(False)
    assert not h.aborted
    h.ask(call_id("a"))
    h.wait(1.0)
    h.probed(False)
    assert h.aborted == set(h.air)
    assert h.core.calls["a"].state is State.QUEUED


def test_the_late_answer_of_an_attempt_that_was_called_back_goes_nowhere() -> None:
    """The call is in the air again by then: only its present attempt may answer it."""
    h = harness(max_inflight=2)
    h.ask(call_id("a"))
    first = h.token("a")
    h.end(first_of(h, "b"), Action.DOWN)
    h.wait(1.0)
    h.probed(False)
    h.wait(1.0)
    h.probed(True)
    second = h.token("a")
    assert second != first
    h.take(h.core.completed(first, completion(h.air.pop(first)), h.now))
    h.check()
    assert "a" not in h.told
    h.end(second)
    assert isinstance(h.told["a"], CallReply)


def test_a_rollout_that_runs_out_of_time_ends_its_running_call() -> None:
    """`deadline_s` counts while the call runs, over all its attempts, and not while it waits."""
    h = harness(max_inflight=1)
    h.ask(call_id("b"))
    h.ask(call_id("a"), deadline_s=5.0)
    h.wait(8.0)
    h.ask(call_id("a"))
    h.end(h.token("b"))
    h.wait(4.0)
    assert "a" not in h.told
    h.wait(1.0)
    answer = h.told["a"]
    assert isinstance(answer, CallFailed)
    assert (answer.type, answer.queued_s) == ("rollout_timeout", 8.0)
    assert len(h.aborted) == 1


def test_no_time_left_is_told_at_once() -> None:
    """A call that may not run at all never leaves."""
    h = harness()
    h.ask(call_id("a"), deadline_s=0.0)
    assert h.told["a"].type == "rollout_timeout"  # type: ignore[union-attr]
    assert not h.starts


def test_the_rollouts_time_stands_still_while_paused_and_down() -> None:
    """A run that is paused for an hour costs no rollout its deadline."""
    h = harness(max_inflight=1)
    h.ask(call_id("a"), deadline_s=5.0)
    h.wait(1.0)
    h.obey("wait")
    for _ in range(10):
        h.wait(5.0)
        h.ask(call_id("a"))
        h.probed(True)
    h.obey()
    assert "a" not in h.told
    spent = h.core.pending(h.core.calls["a"], h.now)
    assert (spent.running_s, spent.paused_s, spent.queued_s) == (1.0, 50.0, 0.0)


def test_a_call_that_nobody_repeats_is_aborted_and_forgotten() -> None:
    """A worker that is gone leaves nothing running at the server."""
    h = harness()
    h.ask(call_id("a"))
    h.wait(SILENCE_S - 0.1)
    assert not h.aborted
    h.wait(0.1)
    assert h.aborted == set(h.air)
    assert not h.core.calls


def test_a_worker_that_asks_for_another_rollout_has_left_its_last_one() -> None:
    """A worker has one rollout at a time, and says no goodbye: what was held for the last one goes."""
    h = harness()
    h.ask(call_id("a"), peer=b"w")
    h.end(h.token("a"))
    h.ask(call_id("b"), peer=b"w")
    assert set(h.core.calls) == {"b"}
    running = h.token("b")
    h.ask(call_id("c"), peer=b"w")
    assert h.aborted == {running}
    assert set(h.core.calls) == {"c"}


def test_an_answer_is_kept_for_the_next_step_and_not_for_ever() -> None:
    """Between two steps a worker acts and observes for minutes."""
    h = harness()
    h.ask(call_id("a"))
    h.end(h.token("a"))
    h.wait(KEEP_S - 1)
    assert h.core.calls["a"].answer is h.told["a"]
    h.wait(1)
    assert not h.core.calls


def test_a_cancel_is_idempotent_and_spares_another_lease() -> None:
    """A late cancel of an earlier lease does not take the present one's call down."""
    h = harness()
    h.ask(call_id("a", lease=2))
    h.take(h.core.cancel(call_id("a", lease=1), h.now))
    assert "a" in h.core.calls
    for _ in range(2):
        h.take(h.core.cancel(call_id("a", lease=2), h.now))
        assert "a" not in h.core.calls
    assert h.aborted == set(h.air)


def test_the_reply_says_what_the_call_waited_and_how_often_it_was_tried() -> None:
    """Waiting for a slot, for the server and for a pause is recorded apart from the answered attempt."""
    h = harness(max_inflight=1)
    h.ask(call_id("b"))
    h.ask(call_id("a"))
    h.wait(3.0)
    h.end(h.token("b"))
    h.end(h.token("a"), Action.BACK_OFF)
    h.wait(0.5)
    h.end(h.token("a"))
    answer = h.told["a"]
    assert isinstance(answer, CallReply)
    assert (answer.model.queued_s, answer.model.attempts) == (3.5, 2)
