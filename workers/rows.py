"""How do rows and blobs reach the sink? SHELL: sent until stored, with few blobs under way."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from legato_rl.clock import Clock
from legato_rl.records import Draft, dump
from legato_rl.sockets import Client, wait
from legato_rl.wire import BlobName, BlobsNeeded, BlobsStored, FeedRow, Message, PutBlobs, PutRow, Refused, RowStored
from legato_rl.workers.conversation import Blob
from legato_rl.workers.link import Dropped, Link

log = logging.getLogger("legato_rl.worker")

MOST_UNDER_WAY = 4 * 2**20
"""Bytes of blobs sent and not yet acknowledged (one blob at least): what a slow sink holds of each worker."""
SEND_AGAIN_S = 5.0
"""Seconds after which what is not acknowledged is sent again."""
REFUSED_PAUSE_S = 5.0
"""Seconds without sending after the sink said that it cannot write (a full disk)."""


class RowRefused(Exception):
    """The sink will never take this row, or a blob of it; the message says why."""


@dataclass
class RowLine:
    """A worker's connection to the sink.

    Blobs go out in their order, as many as MOST_UNDER_WAY allows; `put` never waits for the sink, `store` does. Both are of
    the run whose try began last.
    """

    socket: Client
    link: Link
    clock: Clock
    _waiting: deque[Blob] = field(default_factory=deque)
    _under_way: dict[str, tuple[Blob, float]] = field(default_factory=dict)
    """Blobs sent, by hash, and when."""
    _sent: set[str] = field(default_factory=set)
    """Hashes of all blobs sent for the row that is next; a refusal of another's is none of it."""
    _late: int = 0
    """Refusals that may still come of the row before, which was sent more than once and refused."""
    _not_before: float = 0.0
    _run: str = ""

    def begin(self, run: str) -> None:
        """A new try of `run` begins: what an earlier one that was dropped left unsent is of no use."""
        self._forget()
        self._run = run

    def put(self, blobs: Iterable[Blob]) -> None:
        """Send blobs ahead of their row, or keep them until there is room for them on the way."""
        self._waiting.extend(blobs)
        for message in self._heard():
            if isinstance(message, Refused) and message.again:
                self._pause(message)
        self._pump()

    def store(self, draft: Draft, known: dict[str, Blob]) -> FeedRow:
        """Send what is left of the row's blobs, then the row, until it is stored. Returns the row that stands.

        Waits for as long as the sink is away or its disk is full. `known` holds what the sink may ask for again.
        RowRefused where the sink finds the row itself wrong, Dropped where this process is to end.
        """
        put = PutRow(row=dump(draft))
        send_row_at, unanswered = 0.0, 0
        while True:
            if self.link.quit_.asked:
                raise Dropped
            now = self.clock.monotonic()
            self._pump()
            if not self._waiting and not self._under_way and now >= max(send_row_at, self._not_before):
                self.socket.send(put)
                unanswered += 1
                send_row_at = now + SEND_AGAIN_S
            wait([self.socket, self.link.news], 1.0)
            self.link.news.clear()
            for message in self._heard():
                match message:
                    case RowStored(row=row) if row.key == draft.key:
                        self._forget()
                        # Answers come in order: none of an earlier row comes after this.
                        self._late = 0
                        return row
                    case BlobsNeeded(key=key, hashes=hashes) if key == draft.key:
                        self._waiting.extend(known[sha256] for sha256 in hashes if sha256 in known)
                        send_row_at = 0.0
                        unanswered -= 1
                    case Refused(again=True):
                        self._pause(message)
                        send_row_at = 0.0
                        unanswered -= self._is_of(message, put)
                    case Refused() if self._late > 0 and self._is_of(message, put):
                        self._late -= 1
                    case Refused(reason=reason) if self._is_of(message, put) or message.of in self._sent:
                        self._forget()
                        self._late = max(0, unanswered - self._is_of(message, put))
                        raise RowRefused(reason)

    @staticmethod
    def _is_of(refused: Refused, put: PutRow) -> bool:
        """Whether a refusal is of this row. One that could not even be read has no name to tell it by."""
        unread = refused.of == "" and refused.about == put.kind.decode()
        return unread or refused.of == put.ident()

    def _heard(self) -> list[Message]:
        """What came, acknowledged blobs taken off the list."""
        messages = [received.message for received in self.socket.receive()]
        for message in messages:
            if isinstance(message, BlobsStored):
                for sha256 in message.hashes:
                    self._under_way.pop(sha256, None)
        return messages

    def _pump(self) -> None:
        """Send what is due: blobs whose acknowledgement is late, then waiting ones while there is room."""
        now = self.clock.monotonic()
        if now < self._not_before:
            return
        for blob, sent_at in list(self._under_way.values()):
            if now - sent_at >= SEND_AGAIN_S:
                self._send(blob, now)
        bytes_under_way = sum(len(blob.data) for blob, _ in self._under_way.values())
        while self._waiting and (not self._under_way or bytes_under_way + len(self._waiting[0].data) <= MOST_UNDER_WAY):
            blob = self._waiting.popleft()
            bytes_under_way += len(blob.data)
            self._send(blob, now)

    def _send(self, blob: Blob, now: float) -> None:
        name = BlobName(sha256=blob.sha256, size=len(blob.data), type=blob.type)
        self.socket.send(PutBlobs(run=self._run, blobs=[name]), [blob.data])
        self._under_way[blob.sha256] = (blob, now)
        self._sent.add(blob.sha256)

    def _pause(self, refused: Refused) -> None:
        """The sink cannot write now: everything unacknowledged goes again, after a pause."""
        log.error("the sink refused a %s: %s", refused.about, refused.reason)
        now = self.clock.monotonic()
        self._not_before = now + REFUSED_PAUSE_S
        self._waiting.extendleft(blob for blob, _ in reversed(self._under_way.values()))
        self._under_way.clear()

    def _forget(self) -> None:
        self._waiting.clear()
        self._under_way.clear()
        self._sent.clear()
