"""Is each closed group told once, also where the broker cannot tell it any more? True folders, and a broker on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from true_folder import TrueFolder, make_eventful, make_spotless

from legato_rl.broker.run import Run
from legato_rl.control import ControlClient
from legato_rl.errors import ControlError, NoAnswer
from legato_rl.records import Outcome
from legato_rl.run.audience import Audience
from legato_rl.run.stored_groups import closed_groups, has_finished
from legato_rl.rundir import RunDir
from legato_rl.wire import Event, Events, Feed, GroupCounts, RunStatus

REFUSED = ControlError("run is 'r': it has ended, and its folder has all that there is")


class Paper:
    """A broker that tells of a run's first `known` events, one at a time, and then fails in some way."""

    def __init__(self, events: list[Event], known: int, fails: ControlError) -> None:
        self._events, self._known, self._fails = events, known, fails

    def events(self, after_seq: int, run: str, answer_s: float) -> Events:
        """As the client's."""
        if after_seq >= self._known:
            raise self._fails
        return Events(id="x", run=run, events=self._events[after_seq : after_seq + 1], last=len(self._events))


def status(state: str, events: int) -> RunStatus:
    """Where the run stands."""
    return RunStatus.model_validate(
        {
            **{"id": "x", "run": "r", "state": state, "reason": "", "rows": {}, "attempts_total": 4, "attempts_ended": 0},
            **{"groups": GroupCounts(total=2, closed=0, short=0, open=2), "desktops": {}, "policy": "up"},
            **{"policy_message": "", "sink_message": "", "queued": 0, "running": 0, "events": events},
        }
    )


def events_of(folder: TrueFolder) -> list[Event]:
    """The run's events as a broker makes them of the sink's feed."""
    run = Run("r", folder.settings, folder.run.load_tasks())
    run.feed(Feed(run="r", rows=folder.index.after(0, 1000), last=folder.index.last), 0.0)
    return run.happenings.events


@pytest.mark.parametrize("close", ["first", "all"])
def test_the_rows_tell_what_the_broker_tells(tmp_path: Path, close: str) -> None:
    """The same groups in the same order with the same words, of every kind of group."""
    folder = TrueFolder(tmp_path / "run", ["g", "h", "i"], close=close)
    for group, attempt, reward in (("h", 2, 1.0), ("g", 1, 0.0), ("h", 0, 0.5), ("g", 0, 1.0), ("h", 1, 0.0)):
        folder.put(group, attempt, Outcome.GRADED, reward, steps=1)
    folder.put("g", 2, Outcome.STOPPED if close == "first" else Outcome.GRADED, None if close == "first" else 1.0, steps=1)
    told = [event.data for event in events_of(folder) if event.kind == "group_closed"]
    assert [group["group"] for group in told] == ["h", "g"]
    assert closed_groups(folder.run) == told


@pytest.mark.parametrize("fails", [NoAnswer("away"), REFUSED], ids=["silent", "begun anew"])
@pytest.mark.parametrize("known", [0, 3, 12, 100])
def test_each_group_once_whatever_the_broker_can_tell(tmp_path: Path, fails: ControlError, known: int) -> None:
    """It says that the run has finished and then nothing more, or refuses: the rest is in the rows; none is told twice."""
    folder = make_eventful(tmp_path / "run")
    events, heard = events_of(folder), list[dict[str, Any]]()
    audience = Audience(cast(ControlClient, Paper(events, min(known, len(events)), fails)), None, heard.append)
    audience.hear(status("running", min(5, len(events))))
    # One that has begun since the run ended knows of no event of it.
    audience.hear(status("finished", 0 if fails is REFUSED else len(events)))
    audience.tell_rest(folder.run)
    assert heard == [event.data for event in events if event.kind == "group_closed"]
    assert len(heard) == 3


def test_a_run_that_was_heard_to_its_end_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rows may be gigabytes."""
    events, heard = events_of(make_spotless(tmp_path / "run")), list[dict[str, Any]]()
    audience = Audience(cast(ControlClient, Paper(events, len(events), REFUSED)), None, heard.append)
    audience.hear(status("finished", len(events)))
    audience.tell_rest(RunDir(tmp_path / "none"))
    assert (len(heard), caplog.messages) == (2, [])


def test_rows_that_cannot_be_read_end_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run is what it is: what is not told is said."""
    folder = make_spotless(tmp_path / "run")
    folder.run.rollouts.write_bytes(b"{}\n" + folder.run.rollouts.read_bytes())
    audience = Audience(cast(ControlClient, Paper([], 0, REFUSED)), None, lambda group: pytest.fail("there is none"))
    audience.tell_rest(folder.run)
    (said,) = caplog.messages
    assert said.startswith(f"what closed last in {folder.run.root} cannot be told to on_group: ")


def test_whether_a_run_has_finished(tmp_path: Path) -> None:
    """Every attempt has its final row, one that is tried again after an error too; of what is damaged nobody knows."""
    folder = make_eventful(tmp_path / "run")
    assert has_finished(folder.run)
    run = folder.run.load_run()
    folder.run.write_run(run.model_copy(update={"again": ["r:i:2:0"]}))
    assert not has_finished(folder.run)
    folder.run.write_run(run)
    lines = folder.run.rollouts.read_bytes().splitlines(keepends=True)
    folder.run.rollouts.write_bytes(b"".join(lines[:-1]))
    assert not has_finished(folder.run)
    folder.run.tasks.unlink()
    assert not has_finished(folder.run)
