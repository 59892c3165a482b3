"""How much does a worker put on the way to the sink, when again, and how does waiting end? A real line, a driven clock."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TypeVar

import pytest
from driven_clock import DrivenClock
from sink_rows import draft
from worker_scene import PATIENCE_S

from legato_rl.canonical import sha256_hex
from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import DesktopConfig
from legato_rl.endpoints import address
from legato_rl.records import Draft, FeedRow, Outcome, Status
from legato_rl.role import Quit
from legato_rl.sockets import Context, Received, wait
from legato_rl.wire import BlobsStored, Message, PutBlobs, PutRow, Refused, RowStored
from legato_rl.workers.conversation import Blob
from legato_rl.workers.link import Dropped, Link
from legato_rl.workers.rows import MOST_UNDER_WAY, REFUSED_PAUSE_S, SEND_AGAIN_S, RowLine, RowRefused

MB = 10**6
FULL = Refused(about="PutBlobs", reason="the disk is full", again=True)
ROW = Draft.model_validate(draft())
T = TypeVar("T")


def blob(n: int, size: int = MB) -> Blob:
    """The `n`-th blob; what type it has means nothing here."""
    data = n.to_bytes(4, "little") + bytes(size - 4)
    return Blob(sha256_hex(data), "image", data)


class Sink:
    """A sink played by the test, and the line of one worker to it."""

    def __init__(self, context: Context, sockets: Path, clock: Clock) -> None:
        self.server = context.server("rows", address(sockets, "rows"))
        self.quit = Quit()
        link = Link("w", "b", DesktopConfig(backend="fake"), clock, self.quit)
        self.line = RowLine(context.client("rows", address(sockets, "rows")), link, clock)
        self.line.begin(ROW.run_id)
        self.peer = b""

    def hear(self, count: int) -> list[Received]:
        """The next `count` messages, and any that came right with them."""
        heard: list[Received] = []
        give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while len(heard) < count:
            assert SYSTEM_CLOCK.monotonic() < give_up, f"{len(heard)} of {count} messages came"
            wait([self.server], 0.05)
            heard += self.server.receive()
        self.peer = heard[-1].peer
        return heard

    def sizes(self, count: int) -> list[int]:
        """The bytes of the next `count` blobs, and of any that came with them."""
        return [len(data) for received in self.hear(count) for data in received.blobs]

    def names(self, count: int) -> list[str]:
        """The hashes of the next `count` blobs, and of any that came with them."""
        messages = [received.message for received in self.hear(count)]
        return [name.sha256 for message in messages if isinstance(message, PutBlobs) for name in message.blobs]

    def nothing(self) -> bool:
        """Whether nothing is here; a message that the line sent a moment ago would be."""
        wait([self.server], 0.1)
        return list(self.server.receive()) == []

    def tell(self, *messages: Message) -> None:
        """Answer."""
        for message in messages:
            self.server.send(self.peer, message)

    def told(self, message: Message) -> None:
        """Answer, and wait until the answer is at the line; for a line that is used by this thread."""
        self.tell(message)
        wait([self.line.socket], PATIENCE_S)

    def stored(self) -> RowStored:
        """What a sink answers to ROW."""
        row = FeedRow(n=1, key=ROW.key, outcome=Outcome.GRADED, status=Status.OK, reward=1.0)
        return RowStored(row=row, duplicate=False)


@pytest.fixture
def clock() -> DrivenClock:
    return DrivenClock()


@pytest.fixture
def sink(clock: DrivenClock) -> Iterator[Sink]:
    """A line whose time the test drives."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        here = Sink(context, Path(sockets), clock)
        yield here
        here.quit.ask()


def begin(call: Callable[[], T]) -> Future[T]:
    """Run `call` in a thread that holds nothing up, should it never end."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # Dropped is none of Exception's
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def store(sink: Sink) -> Future[FeedRow]:
    """The line stores ROW, in a thread."""
    return begin(lambda: sink.line.store(ROW, {}))


def test_a_silent_sink_holds_few_bytes_of_each_worker(sink: Sink, clock: DrivenClock) -> None:
    """Of 40 blobs of 1 MB as many are on the way as fit; each acknowledgement makes room for the next, in order."""
    blobs = [blob(n) for n in range(40)]
    begin(lambda: [sink.line.put([one]) for one in blobs]).result(PATIENCE_S / 4)  # a put never waits for the sink
    fits = MOST_UNDER_WAY // MB
    assert sink.names(fits) == [one.sha256 for one in blobs[:fits]]
    assert sink.nothing()
    sink.told(BlobsStored(hashes=[blobs[0].sha256]))
    sink.line.put([])
    assert sink.names(1) == [blobs[fits].sha256]
    assert sink.nothing()


def test_a_blob_over_the_bound_goes_alone(sink: Sink) -> None:
    """Else it would never go."""
    big, small = blob(1, MOST_UNDER_WAY + 1), blob(2, 10)
    sink.line.put([big, small])
    assert sink.sizes(1) == [len(big.data)]
    assert sink.nothing()
    sink.told(BlobsStored(hashes=[big.sha256]))
    sink.line.put([])
    assert sink.sizes(1) == [10]


def test_what_is_not_acknowledged_goes_again_after_its_time(sink: Sink, clock: DrivenClock) -> None:
    """Not before, and without what was acknowledged meanwhile."""
    blobs = [blob(n) for n in range(3)]
    sink.line.put(blobs)
    sink.hear(3)
    sink.told(BlobsStored(hashes=[blobs[1].sha256]))
    clock.now = SEND_AGAIN_S - 0.1
    sink.line.put([])
    assert sink.nothing()
    clock.now = SEND_AGAIN_S
    sink.line.put([])
    assert sink.names(2) == [blobs[0].sha256, blobs[2].sha256]
    clock.now += SEND_AGAIN_S - 0.1
    sink.line.put([])
    assert sink.nothing()


def test_a_full_disk_gets_a_pause(sink: Sink, clock: DrivenClock) -> None:
    """After the refusal nothing is sent, new blobs neither; then all of it, in order."""
    blobs = [blob(n, 100) for n in range(3)]
    sink.line.put(blobs[:2])
    sink.hear(2)
    sink.told(FULL)
    sink.line.put([blobs[2]])
    clock.now = REFUSED_PAUSE_S - 0.1
    sink.line.put([])
    assert sink.nothing()
    clock.now = REFUSED_PAUSE_S
    sink.line.put([])
    assert sink.names(3) == [one.sha256 for one in blobs]


def test_a_row_that_a_full_disk_refused_goes_again_after_the_pause(sink: Sink, clock: DrivenClock) -> None:
    """The row waits as the blobs do, and for as long as it takes."""
    row = store(sink)
    sink.hear(1)
    sink.tell(FULL)
    assert sink.nothing()
    again: list[Received] = []
    give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not again and SYSTEM_CLOCK.monotonic() < give_up:
        # The line may not have heard of the refusal before the time moved.
        clock.now += REFUSED_PAUSE_S
        sink.line.link.news.ring()
        wait([sink.server], 0.05)
        again += sink.server.receive()
    assert isinstance(again[0].message, PutRow)
    sink.tell(sink.stored())
    assert row.result(PATIENCE_S).key == ROW.key


def test_the_row_goes_after_its_blobs(sink: Sink) -> None:
    """The sink would only ask for them."""
    sink.line.put([blob(1)])
    row = store(sink)
    assert sink.names(1) == [blob(1).sha256]
    assert sink.nothing()
    sink.tell(BlobsStored(hashes=[blob(1).sha256]))
    assert [type(received.message) for received in sink.hear(1)] == [PutRow]
    sink.tell(sink.stored())
    assert row.result(PATIENCE_S).key == ROW.key


def test_a_new_try_begins_with_nothing_on_the_way(sink: Sink) -> None:
    """What a dropped one left unsent or unacknowledged holds no row up, and is not sent again."""
    sink.line.put([blob(n) for n in range(10)])
    sink.hear(MOST_UNDER_WAY // MB)
    sink.line.begin("r1")
    row = store(sink)
    assert [type(received.message) for received in sink.hear(1)] == [PutRow]
    sink.tell(sink.stored())
    assert row.result(PATIENCE_S).key == ROW.key


def test_blobs_go_to_the_run_of_their_try(sink: Sink) -> None:
    """The same blob of two runs is sent for each: their folders share nothing."""
    runs = []
    for run in ("r1", "r2"):
        sink.line.begin(run)
        sink.line.put([blob(1)])
        (put,) = [received.message for received in sink.hear(1)]
        assert isinstance(put, PutBlobs)
        runs.append(put.run)
        sink.told(BlobsStored(hashes=[blob(1).sha256]))
    assert runs == ["r1", "r2"]


@pytest.mark.parametrize("away", [True, False])
def test_a_process_that_is_to_end_leaves_the_sink_alone(sink: Sink, away: bool) -> None:
    """Whether the sink is silent or its disk is full: there is no row, and it is over at once."""
    row = store(sink)
    sink.hear(1)
    if not away:
        sink.tell(FULL)
    sink.quit.ask()
    assert isinstance(row.exception(PATIENCE_S / 4), Dropped)


def test_a_refusal_of_another_row_is_no_refusal_of_this(sink: Sink) -> None:
    """A late answer to the row before is passed over."""
    row = store(sink)
    sink.hear(1)
    sink.tell(Refused(about="PutRow", of="r1:g1:0:7", reason="stale"), sink.stored())
    assert row.result(PATIENCE_S).key == ROW.key


def test_a_refusal_of_this_row_ends_the_waiting(sink: Sink) -> None:
    """The sink will never take it."""
    row = store(sink)
    sink.hear(1)
    sink.tell(Refused(about="PutRow", of=PutRow(row=draft()).ident(), reason="meta is odd"))
    with pytest.raises(RowRefused, match="meta is odd"):
        row.result(PATIENCE_S)


def test_a_late_refusal_of_a_blob_is_no_refusal_of_the_bare_row(sink: Sink) -> None:
    """Two blobs are refused: the first ends the row, the second says nothing of the bare row that takes its place."""
    sink.line.put([blob(1), blob(2)])
    puts = [received.message for received in sink.hear(2)]
    row = store(sink)
    refusals = [Refused(about="PutBlobs", of=put.ident(), reason="no PNG") for put in puts]
    sink.tell(refusals[0])
    with pytest.raises(RowRefused, match="no PNG"):
        row.result(PATIENCE_S)
    bare = store(sink)
    sink.hear(1)
    sink.tell(refusals[1], sink.stored())
    assert bare.result(PATIENCE_S).key == ROW.key


def test_a_row_that_the_sink_cannot_read_is_not_sent_for_ever(sink: Sink) -> None:
    """It is refused without a name, since nothing of it could be read."""
    row = store(sink)
    sink.hear(1)
    sink.tell(Refused(about="PutRow", reason="the body is no msgpack map"))
    with pytest.raises(RowRefused):
        row.result(PATIENCE_S)
