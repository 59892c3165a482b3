"""How long has a model call run, over every proxy that had it, and what does the record say of it?"""

from __future__ import annotations

from proxy_on_paper import completion

from legato_rl.wire import CallId, CallPending
from legato_rl.workers.pace import CallClock

CALL = CallId(rollout="r:g:0:0", lease=1, step=0, digest="d")


def told(taken: str, running_s: float) -> CallPending:
    return CallPending(call=CALL, state="running", queued_s=0.0, running_s=running_s, down_s=0.0, paused_s=0.0, taken=taken)


def use(clock: CallClock, queued_s: float, now: float = 200.0) -> tuple[float, int]:
    """What the record says at `now` of a call whose last proxy tells `queued_s`, and a second at the server."""
    told = completion(CALL, seconds=1.0).reply
    use = told.model.model_copy(update={"queued_s": queued_s})
    made = clock.of(told.model_copy(update={"model": use, "stood_s": queued_s + 0.5}), now)
    assert made.stood_s == made.model.queued_s + 0.5, "the rollout's time stood still for half a second of the attempt"
    return made.model.queued_s, made.model.resampled


def test_a_call_of_one_proxy_is_as_that_one_tells_it() -> None:
    """Nothing is added to what the record says."""
    clock = CallClock(began=100.0)
    clock.asked(100.0)
    clock.told(told("a-1", 0.0))
    clock.asked(102.0)
    clock.told(told("a-1", 2.0))
    assert clock.left(30.0) == 28.0
    assert use(clock, 0.5) == (0.5, 0)


def test_the_time_in_which_no_proxy_was_there_is_a_wait() -> None:
    """The first one was asked for ten seconds before it answered."""
    clock = CallClock(began=100.0)
    for now in (100.0, 105.0, 110.0):
        clock.asked(now)
    clock.told(told("a-1", 0.0))
    assert use(clock, 1.0) == (11.0, 0)
    assert clock.left(30.0) == 30.0


def test_a_proxy_that_is_heard_late_was_not_away() -> None:
    """It took the first ask in, and its word of that came after the second: what it waited and ran is not counted again."""
    clock = CallClock(began=100.0)
    clock.asked(100.0)
    clock.asked(102.0)
    clock.told(told("a-1", 0.0))
    assert use(clock, 1.5, 102.5) == (1.5, 0)
    assert use(clock, 1.5, 103.0) == (2.0, 0)


def test_a_call_that_was_lost_twice() -> None:
    """It ran 4 and 3 s at proxies that are gone: that is its own time, and the rest of the 20 s before the last is a wait."""
    clock = CallClock(began=100.0)
    clock.asked(100.0)
    clock.told(told("a-1", 4.0))
    clock.asked(110.0)
    clock.told(told("b-1", 3.0))
    assert clock.left(30.0) == 23.0
    clock.asked(120.0)
    clock.told(told("c-1", 1.0))
    assert use(clock, 0.5) == (13.5, 2)
    assert clock.left(5.0) == 0.0
    assert clock.left(None) is None
