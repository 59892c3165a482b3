"""What does the client of a service do while that does not answer? A service on paper, and a clock that tests drive."""

from __future__ import annotations

import logging
from typing import cast

import pytest
from driven_clock import DrivenClock

from legato_rl.control import ControlClient
from legato_rl.errors import RunStopped
from legato_rl.run.follow import LOOK_S, QUIET_S, SILENT_S, follow_run
from legato_rl.wire import GroupCounts, RunStatus

SILENT = "the service does not answer: it is waited for; Ctrl-C leaves the run to it"


class Paper:
    """A service that is away from second `away` to second `back`, and whose run ends at `over`."""

    def __init__(self, clock: DrivenClock, away: float, back: float, over: float) -> None:
        self._clock, self._away, self._back, self._over = clock, away, back, over

    def status(self, run: str, wait_s: float) -> RunStatus | None:
        """As the client's."""
        if self._away <= self._clock.now < self._back:
            self._clock.now += wait_s
            return None
        return RunStatus(
            id="x", run=run, state="running" if self._clock.now < self._over else "finished", reason="",
            groups=GroupCounts(total=1, closed=0, short=0, open=1), rows={}, attempts_total=4, attempts_ended=0,
            desktops={}, policy="up", policy_message="", sink_message="", queued=0, running=0,
        )  # fmt: skip

    def stop(self, reason: str, run: str, wait_s: float) -> RunStatus | None:
        """As the client's."""
        return self.status(run, wait_s)


def follow(away: float, back: float, over: float = 1000.0, stop: str | None = None) -> float:
    """Follow a run of such a service; the second at which it is over."""
    clock = DrivenClock()
    paper = cast(ControlClient, Paper(clock, away, back, over))
    assert follow_run(paper, "r1", clock, lambda status: None, stop).state == "finished"
    return clock.now


def test_a_service_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """After a few seconds; and that it is back."""
    with caplog.at_level(logging.INFO):
        assert follow(10.0, 10.0 + SILENT_S / 2, over=200.0) >= 200.0
    assert caplog.messages == [SILENT, "the service answers again"]


def test_a_broker_that_restarts_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    """It is back before anybody would ask."""
    with caplog.at_level(logging.INFO):
        follow(10.0, 10.0 + QUIET_S - LOOK_S, over=20.0)
    assert caplog.messages == []


def test_a_service_that_stays_away_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """With a word on what becomes of the run."""
    with pytest.raises(
        RunStopped, match=r"^the service has not answered for 12\d s; the run r1 goes on when the service does$"
    ):
        follow(10.0, 1000.0)
    assert caplog.messages == [SILENT]


def test_a_stop_waits_for_no_service_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever pressed Ctrl-C wants to leave: seconds are enough."""
    with pytest.raises(RunStopped, match=r"^the service has not answered for [56] s; the run r1 stops when it answers again$"):
        follow(10.0, 1000.0, stop="interrupted")
    assert caplog.messages == []
