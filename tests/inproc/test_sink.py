"""Does the sink's server answer every message with what is on the disk? Over real sockets, in one thread."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_client import Asker
from sink_rows import chat_message, draft, make_run, png, step

from legato_rl.broker.sink.server import FEED_LIMIT, SUBSCRIBERS, Sink
from legato_rl.canonical import sha256_hex
from legato_rl.endpoints import address
from legato_rl.errors import ConfigError, RecordError
from legato_rl.records import Outcome, Status
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context, Server
from legato_rl.wire import (
    BlobName,
    BlobsNeeded,
    BlobsStored,
    DesktopEventStored,
    Feed,
    FeedAsk,
    PutBlobs,
    PutDesktopEvent,
    Refused,
    RowStored,
    StatusAsk,
)

EVENT = PutDesktopEvent(id="e1", desktop="d0", event="rebuilt", at="2030-01-01T00:00:00Z", reason="2 failures")


class House:
    """A run folder with a sink in this thread, and clients of it."""

    def __init__(self, root: Path, sockets: Path) -> None:
        self.run: RunDir = make_run(root, sockets)
        self.sockets = sockets
        self.context = Context()
        self.server: Server = self.context.server("rows", address(sockets, "rows"))
        self.sink = Sink(self.run)
        self.askers: list[Asker] = []

    def asker(self) -> Asker:
        """A new client."""
        self.askers.append(Asker(self.context, self.sockets, self.turn))
        return self.askers[-1]

    def turn(self) -> None:
        """Let the sink answer what is here."""
        for received in self.server.receive():
            self.sink.handle(self.server, received)

    def restart(self) -> None:
        """Another sink over the same folder, as after a restart of the process."""
        self.sink.close()
        self.sink = Sink(self.run)

    def lines(self) -> list[dict[str, object]]:
        """The stored rows."""
        return [json.loads(line) for line in self.run.rollouts.read_bytes().splitlines()]

    def close(self) -> None:
        """Close everything."""
        for asker in self.askers:
            asker.close()
        self.server.close()
        self.context.close()
        self.sink.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over an empty run. Its sockets have a short path."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        house = House(tmp_path / "run", Path(sockets))
        yield house
        house.close()


def test_blobs_are_stored_under_their_hash(house: House) -> None:
    """Whole batches are answered when every blob lies under its name, and again when it is there already."""
    image, message = png("a", 5000), chat_message("hello", png("a", 5000))
    for _ in range(2):
        answer = house.asker().put(image, message)
        assert answer == BlobsStored(hashes=[sha256_hex(image), sha256_hex(message)])
    assert house.run.image(sha256_hex(image)).read_bytes() == image
    assert house.run.message(sha256_hex(message)).read_bytes() == message
    assert [path.name for path in house.run.images.iterdir()] == [f"{sha256_hex(image)}.png"]


def test_a_bad_blob_spoils_its_batch_and_nothing_else(house: House) -> None:
    """Nothing of a refused batch is stored, and the sink goes on."""
    asker = house.asker()
    names = [
        BlobName(sha256=sha256_hex(png("a")), size=64, type="image"),
        BlobName(sha256="0" * 64, size=64, type="image"),
    ]
    answer = asker.ask(PutBlobs(blobs=names), Refused, blobs=[png("a"), png("b")])
    assert answer.about == "PutBlobs"
    assert "another hash" in answer.reason
    assert list(house.run.images.iterdir()) == []
    assert isinstance(asker.put(png("a")), BlobsStored)


def test_a_row_waits_for_the_blobs_that_it_names(house: House) -> None:
    """First the messages are asked for, then the images that they and the row name; then the row is stored."""
    asker = house.asker()
    first, last, other = png("first"), png("last"), chat_message("text only")
    message = chat_message("look", first)
    row = draft(steps=(step(message, other),), final_image=sha256_hex(last))
    needs = asker.row(row)
    assert isinstance(needs, BlobsNeeded)
    assert needs.hashes == sorted(map(sha256_hex, (message, other, last)))
    asker.put(message, other, last)
    assert asker.row(row) == BlobsNeeded(key=needs.key, hashes=[sha256_hex(first)])
    assert house.lines() == []
    asker.put(first)
    assert isinstance(asker.row(row), RowStored)
    assert [line["rollout_id"] for line in house.lines()] == ["r1:g1:0:0"]


def test_a_stored_row_is_the_draft_with_its_status(house: House) -> None:
    """One line of JSON with the schema; text of a model survives, lone surrogates included."""
    message = chat_message("hi")
    asker = house.asker()
    asker.put(message)
    row = draft(steps=(step(message, content="naïve \ud800"),))
    answer = asker.row(row)
    assert isinstance(answer, RowStored)
    assert (answer.row.n, answer.row.status, answer.duplicate) == (1, Status.OK, False)
    assert house.lines() == [{**row, "schema": "legato.rollout/v0", "status": "ok", "usable": True}]
    assert house.run.rollouts.read_bytes().isascii()


def test_a_duplicate_is_answered_with_the_row_that_stands(house: House) -> None:
    """The broker's `worker_lost` comes after the worker's own row: that one stands, and the file has one line."""
    first = house.asker().row(draft(reward=0.5))
    second = house.asker().row(draft(outcome=Outcome.WORKER_LOST))
    assert isinstance(first, RowStored)
    assert isinstance(second, RowStored)
    assert (second.duplicate, second.row) == (True, first.row)
    assert len(house.lines()) == 1


def test_a_wrong_row_is_refused(house: House) -> None:
    """Nothing is stored, and the reason is a sentence."""
    answer = house.asker().row(draft(reward=None))
    assert answer == Refused(about="PutRow", of=draft()["rollout_id"], reason="reward is missing: the outcome is graded")
    assert house.lines() == []


def test_a_damaged_message_ends_the_sink_by_its_name(house: House) -> None:
    """A stored message that is no JSON any more could not be rebuilt: nothing is stored upon it."""
    message = chat_message("hi")
    asker = house.asker()
    asker.put(message)
    house.run.message(sha256_hex(message)).write_bytes(b"x")
    with pytest.raises(RecordError, match=f"{sha256_hex(message)}.json is damaged"):
        asker.row(draft(steps=(step(message),)))


def test_a_row_that_json_cannot_hold_is_refused(house: House) -> None:
    """NaN is no JSON; the file stays whole."""
    answer = house.asker().row(draft(meta={"x": float("nan")}))
    assert isinstance(answer, Refused)
    assert "the row of r1:g1:0:0 is no JSON" in answer.reason
    assert house.run.rollouts.read_bytes() == b""


def test_a_message_for_another_process_is_refused(house: House) -> None:
    """The sink says what it does not take, and counts it."""
    answer = house.asker().ask(StatusAsk(id="1"), Refused)
    assert "StatusAsk is not for a sink" in answer.reason
    assert house.server.bad == 1


def test_feed_tells_rows_after_n(house: House) -> None:
    """Consecutive rows from the number asked, with the number of the last; odd numbers do no harm."""
    asker = house.asker()
    for attempt in range(3):
        asker.row(draft(attempt=attempt))
    feed = asker.ask(FeedAsk(after=1, limit=1), Feed)
    assert ([row.n for row in feed.rows], feed.last) == ([2], 3)
    assert feed.rows[0].key.rollout_id == "r1:g1:1:0"
    for after, limit, numbers in (
        (3, 5, []),
        (99, 5, []),
        (-5, 2, [1, 2]),
        (0, -1, []),
        (0, FEED_LIMIT * 9, [1, 2, 3]),
    ):
        assert [row.n for row in asker.ask(FeedAsk(after=after, limit=limit), Feed).rows] == numbers


def test_a_subscriber_hears_each_row_early(house: House) -> None:
    """Whoever asked once is pushed every new row, and no duplicate."""
    subscriber, writer = house.asker(), house.asker()
    subscriber.ask(FeedAsk(after=0), Feed)
    for _ in range(2):
        writer.row(draft(outcome=Outcome.TIMED_OUT_GRADED))
    writer.row(draft(attempt=1))
    feeds = [subscriber.hear(5.0, Feed) for _ in range(2)]
    assert [(feed.last, [row.n for row in feed.rows]) for feed in feeds] == [(1, [1]), (2, [2])]
    assert feeds[0].rows[0].status is Status.TRUNCATED
    assert subscriber.hear(0.1, Feed) is None


def test_subscribers_are_bounded(house: House) -> None:
    """A peer that asks under ever new names pushes out the oldest, and the latest still hears."""
    oldest = house.asker()
    oldest.ask(FeedAsk(after=0), Feed)
    askers = [house.asker() for _ in range(SUBSCRIBERS)]
    for asker in askers:
        asker.ask(FeedAsk(after=0), Feed)
    askers[0].row(draft())
    assert askers[-1].hear(5.0, Feed).last == 1
    assert oldest.hear(0.1, Feed) is None


def test_desktop_events_are_stored_once(house: House) -> None:
    """An event that is sent again is answered and not written again, also by the next sink."""
    asker = house.asker()
    for _ in range(2):
        assert asker.ask(EVENT, DesktopEventStored) == DesktopEventStored(id="e1")
        house.restart()
    assert [json.loads(line) for line in house.run.desktop_events.read_bytes().splitlines()] == [EVENT.model_dump()]


def test_a_restarted_sink_goes_on_where_it_was(house: House) -> None:
    """Numbers, closed groups and duplicates are as before."""
    asker = house.asker()
    for attempt in range(2):
        asker.row(draft(attempt=attempt))
    before = asker.ask(FeedAsk(after=0), Feed)
    house.restart()
    assert asker.ask(FeedAsk(after=0), Feed) == before
    answer = asker.row(draft(attempt=1))
    assert isinstance(answer, RowStored)
    assert (answer.duplicate, answer.row.n) == (True, 2)
    late = asker.row(draft(attempt=2))
    assert isinstance(late, RowStored)
    assert (late.row.n, late.row.status) == (3, Status.SURPLUS)


@pytest.mark.parametrize("tail", [b'{"half', b"\n", b"\0" * 100, b'{"no": "row"', b"[1]\n", b'{"a":1}\0\n'])
def test_a_torn_tail_is_cut_and_kept_aside(house: House, tail: bytes) -> None:
    """Bytes behind the last whole line were never acknowledged: they go, are reported, and the row comes again."""
    asker = house.asker()
    asker.row(draft())
    house.sink.close()
    whole = house.run.rollouts.read_bytes()
    house.run.rollouts.write_bytes(whole + tail)
    house.sink = Sink(house.run)
    assert house.run.rollouts.read_bytes() == whole
    assert (house.run.logs / f"rollouts.jsonl.torn-{len(whole)}").read_bytes() == tail
    answer = asker.row(draft(attempt=1))
    assert isinstance(answer, RowStored)
    assert (answer.row.n, len(house.lines())) == (2, 2)


def test_a_damaged_line_before_others_is_not_cut(house: House) -> None:
    """What is no torn tail is damage, and needs a person: the sink does not start."""
    asker = house.asker()
    asker.row(draft())
    house.sink.close()
    whole = house.run.rollouts.read_bytes()
    house.run.rollouts.write_bytes(b"x" + whole[1:] + whole)
    with pytest.raises(RecordError, match="its line 1 is no JSON object"):
        Sink(house.run)
    assert house.run.rollouts.read_bytes() == b"x" + whole[1:] + whole


def test_a_second_sink_is_refused(house: House) -> None:
    """The folder has one writer; the lock goes with it."""
    with pytest.raises(ConfigError, match="is locked by another sink"):
        Sink(house.run)
    house.restart()


def test_a_half_written_blob_of_a_predecessor_goes(house: House) -> None:
    """A crash leaves one temporary file at most, and the next start removes it."""
    (house.run.images / ".part").write_bytes(b"half")
    house.restart()
    assert list(house.run.images.iterdir()) == []
