"""Does a model that the server does not know hold back those alone who name it, and is it waited for for a while?"""

from __future__ import annotations

import pytest
from proxy_on_paper import NO_SUCH_MODEL, Harness, call_id, first_of, harness, run_policy

from legato_rl.broker.proxy.models import LONGEST_PAUSE_S, STRANGE_S
from legato_rl.policy.verdicts import MODEL_IS_THERE, Action, Verdict
from legato_rl.wire import CallReply, RunWithoutModel

TURN_S = 0.25


def two_models(server_wait: float = 600.0) -> Harness:
    """Run `a` names another model than run `b`."""
    h = harness(max_inflight=2, retries=0, server_wait=server_wait)
    h.policies = [run_policy("a", retries=0, model="lora"), run_policy("b", retries=0)]
    h.obey()
    return h


def turn(h: Harness, known: bool = False) -> None:
    """A while passes; calls of `lora` are answered as the server knows it or not, and the others at once."""
    h.wait(TURN_S)
    h.ask(call_id("a"))
    for token, call in list(h.air.items()):
        h.end(token, NO_SUCH_MODEL if call.rollout == "a" and not known else None)
    h.check()


def seconds_to_give_up(h: Harness) -> float:
    """How long the model of run `a` is waited for."""
    began = h.now
    while not [one for one in h.core.without_model() if one.gave_up]:
        turn(h)
        assert h.now - began < 1000
    return h.now - began


def test_a_model_that_is_unknown_takes_nobody_else_down() -> None:
    """The other run's calls are answered as ever; of this one it is told what it waits for, and no retry is spent."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    assert h.core.server.standing == "up"
    for step in range(20):
        h.ask(call_id("b", step=step))
        turn(h)
        assert isinstance(h.told["b"], CallReply)
    (told,) = h.core.without_model()
    assert told == RunWithoutModel(run="a", message="model 'lora': the server does not know the model", gave_up=False)
    assert "a" not in h.told
    assert h.starts.count("a") <= 5, "it is asked again with growing pauses"


def test_a_model_that_comes_back_is_asked_for_within_seconds() -> None:
    """As of an adapter that is loaded anew: its calls go on, in their places."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    for _ in range(80):
        turn(h)
    back = h.now
    while "a" not in h.told:
        turn(h, known=True)
    assert h.now - back <= LONGEST_PAUSE_S + TURN_S
    assert h.core.without_model() == []


def test_a_model_that_never_answered_is_given_up_sooner_than_one_that_did() -> None:
    """A name that may be wrong gets a minute; one that was right is waited for as the server itself is."""
    strange = two_models()
    strange.ask(call_id("a"))
    assert STRANGE_S <= seconds_to_give_up(strange) <= STRANGE_S + 3 * TURN_S
    known = two_models(server_wait=100.0)
    known.end(first_of(known, "a"))
    known.ask(call_id("a", step=1))
    known.take(known.core.cancel(call_id("a", step=1), known.now))
    known.end(next(iter(known.air)), Action.CANCELLED)
    known.ask(call_id("a"))
    assert 100.0 <= seconds_to_give_up(known) <= 100.0 + 3 * TURN_S
    short = two_models(server_wait=10.0)
    short.ask(call_id("a"))
    assert seconds_to_give_up(short) <= 10.0 + 3 * TURN_S


def test_a_pause_counts_for_nothing_and_ends_with_a_look() -> None:
    """Weights are loaded in it; whether the model is there is asked at once when it is over."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    for _ in range(200):
        turn(h)
    h.obey("wait")
    for _ in range(4000):
        h.wait(TURN_S)
        h.ask(call_id("a"))
    assert not h.core.without_model()[0].gave_up
    h.obey()
    h.end(h.token("a"))
    assert isinstance(h.told["a"], CallReply)


def test_another_name_is_asked_for_at_once() -> None:
    """`set_policy` mends a run that waits for a model of a wrong name."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    h.obey("wait")
    h.policies = [run_policy("a", retries=0, model="right"), run_policy("b", retries=0)]
    h.obey("wait")
    h.obey()
    assert h.core.without_model() == []
    h.end(h.token("a"))
    assert isinstance(h.told["a"], CallReply)


def test_what_nobody_waits_for_is_forgotten() -> None:
    """A run that stopped and goes on again later waits anew."""
    h = two_models()
    h.ask(call_id("a"))
    seconds_to_give_up(h)
    h.take(h.core.cancel(call_id("a"), h.now))
    h.wait(TURN_S)
    assert h.core.without_model() == []
    h.ask(call_id("a", lease=2))
    h.end(h.token("a"), NO_SUCH_MODEL)
    assert [one.gave_up for one in h.core.without_model()] == [False]


def test_a_run_that_the_proxy_knows_no_more_is_told_of_no_more() -> None:
    """It stopped, and its workers are on their way to let go."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    h.policies = h.policies[1:]
    h.obey()
    assert h.core.without_model() == []


def test_many_calls_that_are_refused_at_once_are_one_refusal() -> None:
    """All that were in the air when the model went; then one after the other asks."""
    h = harness(max_inflight=3, retries=0)
    for rollout in ("a", "b", "c"):
        h.ask(call_id(rollout))
    for token in sorted(h.air):
        h.end(token, NO_SUCH_MODEL)
    assert h.air == {}
    h.wait(0.5)
    assert len(h.air) == 1
    h.end(next(iter(h.air)))
    assert len(h.air) == 2, "the others go as soon as one was answered"
    assert [one.run for one in h.core.without_model()] == []


def waited(h: Harness, seconds: float, known: bool = False) -> None:
    """So long a time, in which every call of `lora` is answered at once."""
    for _ in range(round(seconds / TURN_S)):
        turn(h, known)


def generates(h: Harness, seconds: float) -> None:
    """The next call of `lora` leaves, and is in the air for so long."""
    while not h.air:
        h.wait(TURN_S)
        h.ask(call_id("a"))
    for _ in range(round(seconds / TURN_S)):
        h.wait(TURN_S)
        h.ask(call_id("a"))


def given_up(h: Harness) -> list[bool]:
    """Of each run that waits for its model, whether that was long enough."""
    return [one.gave_up for one in h.core.without_model()]


def test_a_model_that_generates_is_not_given_up() -> None:
    """It was loaded after half a minute, and its first answer takes longer than the rest of the patience."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    waited(h, 30.0)
    generates(h, 100.0)
    assert given_up(h) == [False]
    h.end(h.token("a"))
    assert isinstance(h.told["a"], CallReply)
    assert given_up(h) == []


def test_an_answer_that_a_model_gives_while_others_miss_it_is_waited_for() -> None:
    """Of two servers behind one address one has the adapter: nothing counts while any of its calls is in the air."""
    h = two_models()
    h.policies = [run_policy(run, retries=0, model="lora") for run in ("a", "b")]
    h.obey()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    h.ask(call_id("b"))
    generates(h, 0.0)
    slow = next(iter(h.air))
    for _ in range(round(100.0 / TURN_S)):
        h.wait(TURN_S)
        for rollout in ("a", "b"):
            h.ask(call_id(rollout))
        for token in [token for token in h.air if token != slow]:
            h.end(token, NO_SUCH_MODEL)
    assert given_up(h) == [False, False]


@pytest.mark.parametrize("type_", sorted(MODEL_IS_THERE))
def test_an_error_of_a_model_that_is_there_ends_its_absence(type_: str) -> None:
    """A prompt that is too long for it, say: the server looked the model up before it said so."""
    h = two_models(server_wait=100.0)
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    waited(h, 30.0)
    generates(h, 0.0)
    h.end(h.token("a"), Verdict(Action.FAIL, type_, "no"))
    assert given_up(h) == []
    h.ask(call_id("a", lease=2))
    assert seconds_to_give_up(h) >= 100.0, "it is known from then on"


UNSURE = [
    Verdict(Action.RETRY, "server_error", "HTTP 502"),
    Verdict(Action.FAIL, "bad_request", "HTTP 400"),
    Verdict(Action.BACK_OFF, "queue_full", "HTTP 503"),
    Verdict(Action.RETRY, "timeout", "no answer"),
]


@pytest.mark.parametrize("said", UNSURE, ids=lambda said: said.type)
def test_an_end_that_proves_nothing_neither_counts_nor_ends_the_absence(said: Verdict) -> None:
    """A gateway's error: no time passes towards giving up until the model is refused again, which counts on."""
    h = two_models()
    h.end(first_of(h, "a"), NO_SUCH_MODEL)
    waited(h, 30.0)
    for lease in range(2, 40):
        generates(h, 0.0)
        h.end(h.token("a"), said)
        for _ in range(20):
            h.ask(call_id("a", lease=lease))
            h.wait(TURN_S)
        assert given_up(h) == [False]
    for token in list(h.air):
        h.end(token, NO_SUCH_MODEL)
    assert 20.0 <= seconds_to_give_up(h) <= STRANGE_S - 20.0


def test_a_model_that_answered_before_a_move_is_no_strange_one_after_it() -> None:
    """Its name was right; the new server may still have to load it."""
    h = two_models(server_wait=100.0)
    h.end(first_of(h, "a"))
    h.obey("wait")
    h.core.move()
    h.obey()
    h.ask(call_id("a", step=1))
    h.take(h.core.cancel(call_id("a", step=1), h.now))
    h.end(next(iter(h.air)), Action.CANCELLED)
    h.ask(call_id("a"))
    assert seconds_to_give_up(h) >= 100.0


def test_a_model_that_answered_a_proxy_before_this_one_is_no_strange_one() -> None:
    """A call of a later step, of a rollout that is new here, tells of it."""
    h = two_models(server_wait=100.0)
    h.ask(call_id("a", step=3))
    h.end(h.token("a"), NO_SUCH_MODEL)
    began = h.now
    while given_up(h) != [True]:
        h.wait(TURN_S)
        h.ask(call_id("a", step=3))
        for token in list(h.air):
            h.end(token, NO_SUCH_MODEL)
        assert h.now - began < 200.0
    assert h.now - began >= 100.0


def test_a_wrong_name_in_the_middle_of_a_rollout_is_a_strange_one() -> None:
    """Its steps before were answered here, under another name, which tells nothing of this one."""
    h = two_models()
    h.end(first_of(h, "a"))
    h.policies = [run_policy("a", retries=0, model="wrong"), run_policy("b", retries=0)]
    h.obey()
    h.ask(call_id("a", step=1))
    began = h.now
    while given_up(h) != [True]:
        for token in list(h.air):
            h.end(token, NO_SUCH_MODEL)
        h.wait(TURN_S)
        h.ask(call_id("a", step=1))
    assert h.now - began <= STRANGE_S + 3 * TURN_S
