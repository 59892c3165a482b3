"""Does whoever looks on hear every status and each group once, and end nothing by a fault? A broker on paper."""

from __future__ import annotations

from typing import Any, cast

import pytest
from wire_examples import CLOSED

from legato_rl.control import ControlClient
from legato_rl.errors import NoAnswer
from legato_rl.run.audience import Audience
from legato_rl.wire import Event, Events, GroupCounts, RunStatus

STATUS = RunStatus(
    id="x", run="r1", state="running", reason="", groups=GroupCounts(total=2, closed=0, short=0, open=2), rows={},
    attempts_total=4, attempts_ended=0, desktops={}, policy="up", policy_message="", sink_message="", queued=0, running=0,
)  # fmt: skip


class Paper:
    """Has events, `at_once` of which are told at a time; is away while `away`."""

    def __init__(self, at_once: int = 500) -> None:
        self.kinds: list[Any] = []
        self.at_once = at_once
        self.away = False

    def events(self, after_seq: int, run: str, answer_s: float) -> Events:
        """As the client's."""
        if self.away:
            raise NoAnswer("away")
        events = [Event(n=n, kind=kind, data={**CLOSED.data, "n": n}) for n, kind in enumerate(self.kinds, start=1)]
        return Events(id="x", run=run, events=events[after_seq : after_seq + self.at_once], last=len(events))


def audience(paper: Paper, heard: list[Any]) -> Audience:
    """One that keeps the groups it hears of."""
    return Audience(cast(ControlClient, paper), None, heard.append)


def status(events: int) -> RunStatus:
    """Where a run stands that has had so many events."""
    return STATUS.model_copy(update={"events": events})


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_each_closed_group_is_told_once(at_once: int) -> None:
    """In order, whatever else happened in between, and however many a question gives."""
    paper, heard = Paper(at_once), list[Any]()
    listener = audience(paper, heard)
    paper.kinds = ["rollout", "group_closed", "group_ended", "group_closed"]
    for _ in range(3):
        listener.hear(status(4))
    paper.kinds += ["group_closed", "run_finished"]
    listener.hear(status(6))
    assert [group["n"] for group in heard] == [2, 4, 5]


def test_a_broker_that_is_away_or_starts_again_repeats_nothing() -> None:
    """What it could not tell is told later; a new one has heard of fewer events at first."""
    paper, heard = Paper(), list[Any]()
    listener = audience(paper, heard)
    paper.kinds = ["group_closed"]
    paper.away = True
    listener.hear(status(1))
    assert heard == []
    paper.away = False
    listener.hear(status(1))
    for events in (0, 1):
        listener.hear(status(events))
    paper.kinds = []
    listener.hear(status(5))
    assert [group["n"] for group in heard] == [1]


def test_a_fault_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback; what failed is not called again, the other one is."""
    paper = Paper()
    paper.kinds = ["group_closed", "group_closed"]
    statuses: list[RunStatus] = []

    def fails(group: dict[str, Any]) -> None:
        raise ValueError("mine")

    listener = Audience(cast(ControlClient, paper), statuses.append, fails)
    for _ in range(2):
        listener.hear(status(2))
    assert len(statuses) == 2
    assert [record.message for record in caplog.records] == ["on_group failed and is not called any more"]
