"""Does the feed tell what is stored, in its order, and to whom it should? Over real sockets, in one thread."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_rows import RUN, draft
from sink_scene import House, device, sink_of_a_run

from legato_rl.broker.sink.run import FEED_LIMIT, FOLLOWERS
from legato_rl.errors import RecordError
from legato_rl.records import Outcome, Status
from legato_rl.wire import (
    DesktopEventStored,
    Feed,
    FeedAsk,
    PutDesktopEvent,
    Refused,
    RowStored,
)

EVENT = PutDesktopEvent(run=RUN, id="e1", desktop="d0", event="rebuilt", at="2030-01-01T00:00:00Z", reason="2 failures")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over an empty run."""
    with sink_of_a_run(tmp_path) as house:
        yield house


def test_feed_tells_rows_after_n(house: House) -> None:
    """Consecutive rows from the number asked, with the number of the last; odd numbers do no harm."""
    asker = house.asker()
    for attempt in range(3):
        asker.row(draft(attempt=attempt))
    feed = asker.ask(FeedAsk(run=RUN, after=1, limit=1), Feed)
    assert ([row.n for row in feed.rows], feed.last) == ([2], 3)
    assert feed.rows[0].key.rollout_id == "r1:g1:1:0"
    for after, limit, numbers in (
        (3, 5, []),
        (99, 5, []),
        (-5, 2, [1, 2]),
        (0, -1, []),
        (0, FEED_LIMIT * 9, [1, 2, 3]),
    ):
        assert [row.n for row in asker.ask(FeedAsk(run=RUN, after=after, limit=limit), Feed).rows] == numbers


def test_a_disk_that_takes_a_row_alone_is_full_still(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """That it is full is told until a screenshot has room there, and its end is told once as its beginning was."""
    caplog.set_level(logging.INFO)
    asker, run = house.asker(), house.runs.get(RUN)
    in_the_way = run.run.images / ".part"
    in_the_way.mkdir()
    for attempt in range(3):
        with device(run.store.rows.fileno(), "/dev/full"):
            assert isinstance(asker.row(draft(attempt=attempt)), Refused)
        assert isinstance(asker.row(draft(attempt=attempt)), RowStored)
        assert "cannot be written" in asker.ask(FeedAsk(run=RUN, after=0), Feed).trouble
    in_the_way.rmdir()
    assert isinstance(asker.row(draft(attempt=3)), RowStored)
    assert asker.ask(FeedAsk(run=RUN, after=0), Feed).trouble == ""
    said = [record.levelname for record in caplog.records if "written" in record.message]
    assert said == ["ERROR", "INFO"]


def test_a_follower_hears_each_row_early(house: House) -> None:
    """Whoever asked once is pushed every new row, and no duplicate."""
    follower, writer = house.asker(), house.asker()
    follower.ask(FeedAsk(run=RUN, after=0), Feed)
    for _ in range(2):
        writer.row(draft(outcome=Outcome.TIMED_OUT_GRADED))
    writer.row(draft(attempt=1))
    feeds = [follower.hear(5.0, Feed) for _ in range(2)]
    assert [(feed.last, [row.n for row in feed.rows]) for feed in feeds] == [(1, [1]), (2, [2])]
    assert feeds[0].rows[0].status is Status.TRUNCATED
    assert follower.hear(0.1, Feed) is None


def test_followers_are_bounded(house: House) -> None:
    """A peer that asks under ever new names pushes out the oldest, and the latest still hears."""
    oldest = house.asker()
    oldest.ask(FeedAsk(run=RUN, after=0), Feed)
    askers = [house.asker() for _ in range(FOLLOWERS)]
    for asker in askers:
        asker.ask(FeedAsk(run=RUN, after=0), Feed)
    askers[0].row(draft())
    assert askers[-1].hear(5.0, Feed).last == 1
    assert oldest.hear(0.1, Feed) is None


def test_desktop_events_are_stored_once(house: House) -> None:
    """An event that is sent again is answered and not written again, also by the next sink."""
    asker = house.asker()
    for _ in range(2):
        assert asker.ask(EVENT, DesktopEventStored) == DesktopEventStored(run=RUN, id="e1")
        house.restart()
    stored = [json.loads(line) for line in house.run.desktop_events.read_bytes().splitlines()]
    assert stored == [{"n": 1, "after": 0, **EVENT.model_dump(exclude={"run"})}]


def test_the_feed_tells_events_in_their_place_among_the_rows(house: House) -> None:
    """An event says how many rows were stored before it; this is pushed, asked for, and the same after a restart."""
    follower, writer = house.asker(), house.asker()
    follower.ask(FeedAsk(run=RUN, after=0), Feed)
    writer.row(draft())
    for name in ("e1", "e2"):
        writer.ask(EVENT.model_copy(update={"id": name}), DesktopEventStored)
    writer.row(draft(attempt=1))
    pushed = [follower.hear(5.0, Feed) for _ in range(4)]
    assert [(feed.last, feed.events_last) for feed in pushed] == [(1, 0), (1, 1), (1, 2), (2, 2)]
    told = [(event.n, event.after) for feed in pushed for event in feed.events]
    assert told == [(1, 1), (2, 1)]
    for _ in range(2):
        feed = writer.ask(FeedAsk(run=RUN, after=0), Feed)
        assert (feed.last, feed.events_last) == (2, 2)
        assert [(event.n, event.after) for event in feed.events] == told
        assert feed.events[0].reason == EVENT.reason
        house.restart()
    for after, limit, numbers in ((1, 5, [2]), (0, 1, [1]), (2, 5, []), (-5, 1, [1]), (99, 5, []), (0, -1, [])):
        feed = writer.ask(FeedAsk(run=RUN, after=0, events_after=after, limit=limit), Feed)
        assert [event.n for event in feed.events] == numbers


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"n": 2, "after": 0, "id": "e", "desktop": "d", "event": "out", "at": "", "reason": ""}, "says that it is number 2"),
        ({"n": 1, "after": 0, "id": "e", "desktop": "d", "event": "blew up", "at": "", "reason": ""}, "event is 'blew up'"),
        ({}, "n is missing"),
    ],
)
def test_a_line_that_is_no_desktop_event_is_damage(house: House, line: dict[str, object], said: str) -> None:
    """Rows and events could not be merged by it: the sink does not start."""
    house.runs.close()
    house.run.desktop_events.write_text(json.dumps(line) + "\n")
    with pytest.raises(RecordError, match=said):
        house.start()


def test_the_feed_tells_what_a_row_was_sampled_with_and_why_it_failed(house: House) -> None:
    """All policy versions of the rollout, and an error's kind where the status is error; the same after a restart."""
    asker = house.asker()
    asker.row(draft(policy={"model": "m", "version": "v1", "versions": ["v1", "v2"]}))
    asker.row(draft(attempt=1, outcome=Outcome.POLICY_FAILED))
    asker.row(draft(attempt=2, outcome=Outcome.DESKTOP_FAILED))
    asker.row(draft(attempt=2, try_=1, outcome=Outcome.DESKTOP_FAILED))
    for _ in range(2):
        rows = asker.ask(FeedAsk(run=RUN, after=0), Feed).rows
        assert [row.versions for row in rows] == [["v1", "v2"], ["v"], ["v"], ["v"]]
        assert [(row.status.value, row.error_kind) for row in rows[1:]] == [
            ("error", "policy"),
            ("retried", ""),
            ("error", "env"),
        ]
        house.restart()


def test_the_feed_tells_the_free_space(house: House) -> None:
    """MiB as the system tells them; below the settings' minimum the broker begins nothing new."""
    feed = house.asker().ask(FeedAsk(run=RUN, after=0), Feed)
    assert feed.free_mb == pytest.approx(shutil.disk_usage(house.run.root).free / 2**20, rel=0.2)
