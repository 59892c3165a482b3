"""Does the table of calls say what may follow what, and nothing else?"""

from __future__ import annotations

import pytest
from proxy_on_paper import completion

from legato_rl.broker.proxy.calls import IN_WORK, TRANSITIONS, Call, Event, State, UnknownTransition, check_ask
from legato_rl.errors import WireError
from legato_rl.prompt_ids import NO_HISTORY, PromptHistory
from legato_rl.records import PromptRecord
from legato_rl.wire import CallAsk, CallFailed, CallId, CallReply

A = "a" * 64


def ask(lease: int = 1, step: int = 0, digest: str = "d", **fields: object) -> CallAsk:
    """An ask of rollout r:g:0:0."""
    call = CallId(rollout="r:g:0:0", lease=lease, step=step, digest=digest)
    return CallAsk.model_validate({"call": call, "messages": [A], "params": {}, "deadline_s": None, "blobs": [], **fields})


def answered(token_ids: list[int], prompt: str | None = A) -> CallReply:
    """An answer to a prompt whose ids have this hash; None for a server that gave none."""
    reply = completion(ask().call).reply
    record = None if prompt is None else PromptRecord(keep=0, add=[], images=[], sha256=prompt)
    response = reply.response.model_copy(update={"token_ids": token_ids})
    return reply.model_copy(update={"response": response, "prompt": record})


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", [Event.CANCELLED, Event.LATE])
def test_cancels_and_late_ends_are_known_in_every_state(state: State, event: Event) -> None:
    """A cancel may be repeated, and an attempt's end may come after its call is gone: both are entries everywhere."""
    assert (state, event) in TRANSITIONS


@pytest.mark.parametrize("state", [state for state in State if state is not State.NOT_HELD])
@pytest.mark.parametrize("event", [Event.REPEATED, Event.OUTDATED, Event.LATE])
def test_repeats_and_late_messages_change_nothing(state: State, event: Event) -> None:
    """Whatever comes twice or late leaves a held call where it is."""
    assert TRANSITIONS[state, event] is state


def test_only_work_ends_in_an_answer() -> None:
    """An answer, once held, is never replaced by another one: nothing leads from one ended state to the other."""
    for (before, _), after in TRANSITIONS.items():
        if after in (State.ANSWERED, State.FAILED) and before is not after:
            assert before in IN_WORK


def test_an_unknown_pair_raises() -> None:
    """A call that waits for parts cannot be completed."""
    call = Call(ask(), b"peer", 0.0)
    call.apply(Event.ASKED)
    with pytest.raises(UnknownTransition, match="r:g:0:0: completed while gathering"):
        call.apply(Event.COMPLETED)


@pytest.mark.parametrize(
    ("lease", "step", "digest", "event"),
    [
        (1, 3, "d", Event.REPEATED),
        (1, 3, "other", Event.REPLACED),
        (1, 4, "d", Event.REPLACED),
        (1, 2, "d", Event.OUTDATED),
        (2, 0, "d", Event.REPLACED),
        (2, 3, "d", Event.REPLACED),
    ],
)
def test_what_an_ask_is_to_the_held_call(lease: int, step: int, digest: str, event: Event) -> None:
    """The same id and digest repeats; an earlier step of the lease is late; everything else replaces."""
    held = Call(ask(step=3), b"peer", 0.0)
    assert held.event_of(ask(lease, step, digest).call) is event


@pytest.mark.parametrize(
    ("lease", "step", "history"),
    [(1, 4, "after"), (1, 3, "before"), (1, 5, "none"), (2, 4, "none"), (2, 0, "none")],
)
def test_which_ids_the_next_prompt_is_compared_with(lease: int, step: int, history: str) -> None:
    """The next step's prompt follows this answer; the same step's, asked otherwise, the step before; else nothing."""
    answer = answered([1, 2])
    known = {"before": PromptHistory(b"1234"), "after": PromptHistory(b"12345678"), "none": NO_HISTORY}
    held = Call(ask(step=3), b"peer", 0.0, answer=answer, before=known["before"], after=known["after"])
    assert held.history_for(ask(lease, step, "other", previous=answer.ids_hash())) == known[history]


@pytest.mark.parametrize(
    ("held", "recorded"),
    [
        (answered([1, 2]), answered([1, 3])),
        (answered([1, 2]), answered([1, 2], prompt=None)),
        (answered([1, 2], prompt=None), answered([1, 2])),
        (answered([1, 2]), answered([1, 2], prompt="b" * 64)),
        (CallFailed(call=ask().call, type="timeout", message="no answer in 60 s", queued_s=0.0), answered([], prompt=None)),
    ],
)
def test_no_prompt_is_told_as_a_difference_to_ids_that_the_worker_has_not(
    held: CallReply | CallFailed, recorded: CallReply
) -> None:
    """A proxy before this one answered the step too, and that answer is the one in the record."""
    call = Call(ask(step=3), b"peer", 0.0, answer=held, after=PromptHistory(b"12345678"))
    assert call.history_for(ask(step=4, previous=recorded.ids_hash())) == NO_HISTORY


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"call": CallId(rollout="r\r\nX: y", lease=1, step=0, digest="d")}, "call.rollout"),
        ({"messages": ["../../etc/passwd"]}, "messages"),
        ({"params": {"messages": []}}, "params"),
        ({"params": {"model": "mine"}}, "params"),
        ({"params": {"stop": b"bytes"}}, "params"),
        ({"params": {"temperature": float("nan")}}, "params"),
    ],
)
def test_an_ask_that_no_request_can_be_made_of_is_refused(fields: dict[str, object], named: str) -> None:
    """Bad fields are named in one sentence, before anything is done."""
    with pytest.raises(WireError, match=named):
        check_ask(ask(**fields))
