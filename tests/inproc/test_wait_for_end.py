"""How long does a client wait until the folder of its run is closed? A service on paper, and a clock that tests drive."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest
from driven_clock import DrivenClock

from legato_rl.control import ControlClient
from legato_rl.errors import NoAnswer, Terminated
from legato_rl.run.connect import CLOSE_S, wait_for_end
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.rundir import RunDir
from legato_rl.wire import GroupCounts, RunStatus

NOT_YET = "r is over, but its folder is not closed yet ({}): it is waited for; Ctrl-C leaves"
DESKTOP = NOT_YET.format("a desktop has not ended what it does, and may store a row")
LONGEST_CALL_S = 600.0


class Paper:
    """A service that closes its run's folder at second `close`, and is away from second `away` to second `back`."""

    def __init__(self, clock: DrivenClock, folder: RunDir, close: float, away: float, back: float, sink: str) -> None:
        self._clock, self._folder, self._close = clock, folder, close
        self._away, self._back, self._sink = away, back, sink

    def status(self, run: str, wait_s: float) -> RunStatus | None:
        """As the client's."""
        if self._away <= self._clock.now < self._back:
            self._clock.now += wait_s
            return None
        if self._clock.now >= self._close:
            self._folder.write_end("stopped", "interrupted", "now")
        return RunStatus(
            id="x", run=run, state="stopped", reason="interrupted",
            groups=GroupCounts(total=1, closed=0, short=0, open=1), rows={}, attempts_total=4, attempts_ended=0,
            desktops={}, policy="up", policy_message="", sink_message=self._sink, queued=0, running=0,
        )  # fmt: skip


def waited(root: Path, close: float, away: float = 0.0, back: float = 0.0, sink: str = "") -> tuple[dict[str, Any], float]:
    """What `end.json` says, and the second at which it did."""
    clock, folder = DrivenClock(), RunDir(root / "r")
    folder.root.mkdir()
    paper = cast(ControlClient, Paper(clock, folder, close, away, back, sink))
    return wait_for_end(paper, folder, clock), clock.now


def test_a_desktops_last_call_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As long as it may take; that is told once."""
    end, second = waited(tmp_path, LONGEST_CALL_S)
    assert (end["state"], end["reason"]) == ("stopped", "interrupted")
    assert second >= LONGEST_CALL_S
    assert caplog.messages == [DESKTOP]


def test_a_folder_that_is_closed_at_once_is_nothing_to_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As nearly always."""
    with caplog.at_level(logging.INFO):
        waited(tmp_path, 2.0)
    assert caplog.messages == []


def test_a_sink_that_cannot_write_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is then what to look after."""
    waited(tmp_path, 100.0, sink="the disk is full")
    assert caplog.messages == [NOT_YET.format("the disk is full")]


def test_a_service_that_is_started_anew_is_waited_for(tmp_path: Path) -> None:
    """Each answer counts."""
    _, second = waited(tmp_path, 200.0, away=20.0, back=20.0 + CLOSE_S / 2)
    assert second >= 200.0


def test_a_service_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    """It may never close anything."""
    with pytest.raises(NoAnswer, match=r"^the service has not answered for 60 s, and did not close .*/r: see its broker.log"):
        waited(tmp_path, 1000.0, away=20.0, back=2000.0)


def test_a_signal_that_python_swallowed_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look finds that there was one."""
    folder, clock = RunDir(tmp_path), DrivenClock()

    class Signalled(Paper):
        """One is lost during the third look."""

        def status(self, run: str, wait_s: float) -> RunStatus | None:
            if len(clock.slept) == 2:
                monkeypatch.setattr(INTERRUPTS, "count", INTERRUPTS.count + 1)
                monkeypatch.setattr(INTERRUPTS, "_last", Terminated)
            return super().status(run, wait_s)

    with pytest.raises(Terminated):
        wait_for_end(cast(ControlClient, Signalled(clock, folder, 1000.0, 0.0, 0.0, "")), folder, clock)
    assert len(clock.slept) == 3
