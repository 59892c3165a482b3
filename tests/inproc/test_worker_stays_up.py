"""Does a worker that is told to leave stay up for as long as supervisord would start it again, and no longer?"""

from __future__ import annotations

import threading

import pytest
from driven_clock import DrivenClock

from legato_rl.role import Quit
from legato_rl.supervisord import START_S
from legato_rl.workers.main import stay_up

PATIENCE_S = 60.0


def staying(clock: DrivenClock, quit_: Quit) -> threading.Thread:
    """A worker that began at 0.0 and is told to leave."""
    worker = threading.Thread(target=stay_up, args=(0.0, clock, quit_), daemon=True)
    worker.start()
    return worker


@pytest.mark.parametrize("seconds", [START_S, 100 * START_S])
def test_a_worker_that_counts_as_started_leaves_at_once(seconds: float) -> None:
    """Whatever it was told before does not matter."""
    clock, quit_ = DrivenClock(), Quit()
    clock.now = seconds
    stay_up(0.0, clock, quit_)
    assert not quit_.asked


def test_a_worker_that_just_began_waits_until_it_counts_as_started() -> None:
    """News of the broker, which ring the same bell, change nothing."""
    clock, quit_ = DrivenClock(), Quit()
    quit_.bell.ring()
    worker = staying(clock, quit_)
    worker.join(0.1)
    assert worker.is_alive()
    clock.now = START_S
    quit_.bell.ring()
    worker.join(PATIENCE_S)
    assert not worker.is_alive()


@pytest.mark.parametrize("before", [True, False])
def test_a_worker_that_is_asked_to_end_does_not_stay(before: bool) -> None:
    """By a signal, also while it stays: whoever sent it waits."""
    clock, quit_ = DrivenClock(), Quit()
    if before:
        quit_.ask()
    worker = staying(clock, quit_)
    quit_.ask()
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
