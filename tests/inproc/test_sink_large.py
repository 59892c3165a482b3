"""Does a run with many rows, which takes long to read, keep no other run waiting? Over real sockets, in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from held_up import held_up
from sink_rows import draft
from sink_scene import House, lines, sink_of_a_service

from legato_rl.rundir import RunDir
from legato_rl.wire import CloseRun, Feed, FeedAsk, Leave, Refused, RowStored, RunClosed


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink of the runs r1 and r2 to which every run with a row is large. r1 has one, and is not open."""
    with sink_of_a_service(tmp_path, "r1", "r2") as house:
        assert isinstance(house.asker().row(draft(run="r1")), RowStored)
        house.restart(at_once=0)
        yield house


def run_dir(house: House, run: str = "r1") -> RunDir:
    """The folder of a run."""
    return RunDir(house.root.runs / run)


def test_a_large_run_is_opened_beside_the_others(house: House) -> None:
    """Its messages are put off while its rows are read, those of another run are answered, and then it goes on."""
    asker = house.asker()
    with held_up(run_dir(house).tasks):
        for message in (FeedAsk(run="r1", after=0), CloseRun(run="r1")):
            refused = asker.ask(message, Refused)
            assert (refused.again, refused.of, refused.reason) == (True, "r1", "the rows of run r1 are still being read")
        assert isinstance(asker.row(draft(run="r2")), RowStored)
        house.sink.runs.close_quiet()
        assert asker.ask(FeedAsk(run="r1", after=0), Refused).again
    assert asker.ask(FeedAsk(run="r1", after=0), Feed).last == 1
    assert isinstance(asker.row(draft(run="r1", attempt=1)), RowStored)
    assert len(lines(run_dir(house))) == 2


def test_a_run_that_nobody_asks_for_again_is_closed_all_the_same(house: House) -> None:
    """Its broker stopped it while it was read: it is unlocked, and the sink can leave."""
    asker = house.asker()
    with held_up(run_dir(house).tasks):
        asker.ask(FeedAsk(run="r1", after=0), Refused)
        assert not house.runs.idle
    house.runs.close_quiet()
    assert not house.runs.idle
    assert asker.ask(CloseRun(run="r1"), RunClosed) == RunClosed(run="r1")
    assert house.runs.idle


def test_a_large_run_that_is_damaged_is_refused_for_why(house: House) -> None:
    """Found in the thread, and told as ever; it keeps no sink from leaving."""
    asker, rows = house.asker(), run_dir(house).rollouts
    rows.write_bytes(b"{torn\n" + rows.read_bytes())
    with held_up(run_dir(house).tasks):
        asker.ask(FeedAsk(run="r1", after=0), Refused)
    house.runs.close_quiet()
    assert "line 1 is no JSON object" in asker.ask(FeedAsk(run="r1", after=0), Refused).reason
    asker.client.send(Leave(reason="over"))
    asker.hear(0.1, Leave)
    assert house.sink.left
