"""Is every line of the status table what the design says?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.records import GRADED_OUTCOMES, USABLE, Outcome, Status
from legato_rl.status import decide

K, RETRIES = 4, 1
OPEN, CLOSED, OVER = K - 1, K, K + 1
"""Graded rows stored before: one too few to close, just closed, one surplus."""


@pytest.mark.parametrize(
    ("outcome", "try_", "graded", "status"),
    [
        # `not_started`, whatever the group is.
        (Outcome.NOT_STARTED, 0, 0, Status.SKIPPED),
        (Outcome.NOT_STARTED, 0, CLOSED, Status.SKIPPED),
        (Outcome.NOT_STARTED, 1, OPEN, Status.SKIPPED),
        # Graded with fewer than K graded rows of the group stored; the K-th itself counts.
        (Outcome.GRADED, 0, 0, Status.OK),
        (Outcome.GRADED, 1, OPEN, Status.OK),
        (Outcome.TIMED_OUT_GRADED, 0, 0, Status.TRUNCATED),
        (Outcome.TIMED_OUT_GRADED, 0, OPEN, Status.TRUNCATED),
        # Graded, too late.
        (Outcome.GRADED, 0, CLOSED, Status.SURPLUS),
        (Outcome.GRADED, 1, OVER, Status.SURPLUS),
        (Outcome.TIMED_OUT_GRADED, 0, CLOSED, Status.SURPLUS),
        # Any other in a closed group, also where a try would be left.
        (Outcome.DESKTOP_FAILED, 0, CLOSED, Status.CANCELLED),
        (Outcome.WORKER_LOST, 0, CLOSED, Status.CANCELLED),
        (Outcome.EVALUATOR_FAILED, 0, CLOSED, Status.CANCELLED),
        (Outcome.POLICY_FAILED, 0, OVER, Status.CANCELLED),
        (Outcome.STOPPED, 0, CLOSED, Status.CANCELLED),
        # A desktop failure with a try left.
        (Outcome.DESKTOP_FAILED, 0, 0, Status.RETRIED),
        (Outcome.WORKER_LOST, 0, OPEN, Status.RETRIED),
        # Failures for good.
        (Outcome.DESKTOP_FAILED, 1, 0, Status.ERROR),
        (Outcome.WORKER_LOST, 1, OPEN, Status.ERROR),
        (Outcome.WORKER_LOST, 7, 0, Status.ERROR),
        (Outcome.EVALUATOR_FAILED, 0, 0, Status.ERROR),
        (Outcome.POLICY_FAILED, 0, OPEN, Status.ERROR),
        # Stopped in an open group.
        (Outcome.STOPPED, 0, 0, Status.CANCELLED),
        (Outcome.STOPPED, 1, OPEN, Status.CANCELLED),
    ],
)
def test_table(outcome: Outcome, try_: int, graded: int, status: Status) -> None:
    """One line of the design's section 4.2 each, with K = 4 and one retry."""
    assert decide(outcome, try_, graded, K, RETRIES) is status


def test_without_retries_the_first_desktop_failure_is_an_error() -> None:
    """`--env-retries 0` buys no try."""
    assert decide(Outcome.DESKTOP_FAILED, 0, 0, K, 0) is Status.ERROR


@given(st.sampled_from(Outcome), st.integers(0, 5), st.integers(0, 9), st.integers(1, 8), st.integers(0, 3))
def test_only_a_verdict_is_ever_usable(outcome: Outcome, try_: int, graded: int, closing: int, retries: int) -> None:
    """A row is usable exactly where a worker graded it and the group was open; nothing broken ever counts."""
    usable = decide(outcome, try_, graded, closing, retries) in USABLE
    assert usable == (outcome in GRADED_OUTCOMES and graded < closing)
