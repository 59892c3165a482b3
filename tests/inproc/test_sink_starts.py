"""What does a sink make of the folder that it finds? Over real sockets, in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_rows import RUN, draft
from sink_scene import House, lines, sink_of_a_run

from legato_rl.broker.sink.runs import Runs
from legato_rl.errors import ConfigError, RecordError
from legato_rl.records import Status
from legato_rl.wire import Feed, FeedAsk, RowStored


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over an empty run."""
    with sink_of_a_run(tmp_path) as house:
        yield house


def test_a_restarted_sink_goes_on_where_it_was(house: House) -> None:
    """Numbers, closed groups and duplicates are as before."""
    asker = house.asker()
    for attempt in range(2):
        asker.row(draft(attempt=attempt))
    before = asker.ask(FeedAsk(run=RUN, after=0), Feed)
    house.restart()
    again = asker.ask(FeedAsk(run=RUN, after=0), Feed)
    assert (again.rows, again.last) == (before.rows, before.last) == (before.rows, 2)
    answer = asker.row(draft(attempt=1))
    assert isinstance(answer, RowStored)
    assert (answer.duplicate, answer.row.n) == (True, 2)
    late = asker.row(draft(attempt=2))
    assert isinstance(late, RowStored)
    assert (late.row.n, late.row.status) == (3, Status.SURPLUS)


@pytest.mark.parametrize("tail", [b'{"half', b"\n", b"\0" * 100, b'{"no": "row"', b"[1]\n", b'{"a":1}\0\n'])
def test_a_torn_tail_is_cut_and_kept_aside(house: House, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes behind the last whole line were never acknowledged: they go, are reported, and the row comes again."""
    asker = house.asker()
    asker.row(draft())
    house.runs.close()
    whole = house.run.rollouts.read_bytes()
    house.run.rollouts.write_bytes(whole + tail)
    house.start()
    assert house.run.rollouts.read_bytes() == whole
    assert f"cut a torn tail of {house.run.rollouts}: {len(tail)} bytes from byte {len(whole)} on" in caplog.text
    assert (house.run.logs / f"rollouts.jsonl.torn-{len(whole)}").read_bytes() == tail
    answer = asker.row(draft(attempt=1))
    assert isinstance(answer, RowStored)
    assert (answer.row.n, len(lines(house.run))) == (2, 2)


def test_a_damaged_line_before_others_is_not_cut(house: House) -> None:
    """What is no torn tail is damage, and needs a person: the sink does not start."""
    asker = house.asker()
    asker.row(draft())
    house.runs.close()
    whole = house.run.rollouts.read_bytes()
    house.run.rollouts.write_bytes(b"x" + whole[1:] + whole)
    with pytest.raises(RecordError, match="its line 1 is no JSON object"):
        Runs(house.root, house.service, house.clock)
    assert house.run.rollouts.read_bytes() == b"x" + whole[1:] + whole


def test_a_second_sink_is_refused(house: House) -> None:
    """The folder has one writer; the lock goes with it."""
    with pytest.raises(ConfigError, match="is locked by another sink"):
        Runs(house.root, house.service, house.clock)
    house.restart()


def test_a_half_written_blob_of_a_predecessor_goes(house: House) -> None:
    """A crash leaves one temporary file at most, and the next start removes it."""
    (house.run.images / ".part").write_bytes(b"half")
    house.restart()
    assert list(house.run.images.iterdir()) == []
