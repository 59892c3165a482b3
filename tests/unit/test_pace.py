"""How long has a try taken, and how much of its own time is left?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato_rl.records import Timing
from legato_rl.workers.pace import Pace

SECONDS = st.floats(min_value=0, max_value=1e6)


def test_without_a_limit_time_is_never_over() -> None:
    """Nor before the rollout's clock runs: reset and its wait are not in it."""
    pace = Pace(None)
    pace.start_rollout(0.0)
    assert (pace.left(1e9), pace.over(1e9)) == (None, False)
    assert (Pace(1.0).left(1e9), Pace(1.0).over(1e9)) == (None, False)


def test_the_clock_stands_still_while_a_call_waits() -> None:
    """Queue, outage and pause are taken out; the rest counts from the end of wait_after_reset."""
    pace = Pace(10.0)
    pace.start_rollout(100.0)
    assert pace.left(104.0) == 6.0
    pace.stand(3.0)
    assert pace.left(104.0) == 9.0
    assert not pace.over(112.9)
    assert pace.over(113.0)
    assert pace.left(500.0) == 0.0


@given(limit=SECONDS, start=SECONDS, waits=st.lists(SECONDS, max_size=5), later=SECONDS)
def test_what_is_left_never_grows_with_time(limit: float, start: float, waits: list[float], later: float) -> None:
    """It is at least 0, and over exactly when nothing is left."""
    pace = Pace(limit)
    pace.start_rollout(start)
    for seconds in waits:
        pace.stand(seconds)
    before, after = pace.left(start), pace.left(start + later)
    assert before is not None
    assert after is not None
    assert 0.0 <= after <= before
    assert pace.over(start + later) == (after == 0.0)


def test_the_record_adds_up_what_each_part_took() -> None:
    """Several waits of one kind are summed, and the total is the caller's."""
    pace = Pace(None)
    for seconds in (0.5, 0.25):
        pace.add("act_s", seconds)
    pace.add("eval_s", 2.0)
    assert pace.timing(9.0) == Timing(act_s=0.75, eval_s=2.0, total_s=9.0)
