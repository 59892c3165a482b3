"""How do rows and blobs reach the sink? SHELL: sent until stored, with few blobs under way."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from legato_rl.clock import Clock
from legato_rl.records import Draft, dump
from legato_rl.sockets import Client, wait
from legato_rl.wire import BlobName, BlobsNeeded, BlobsStored, FeedRow, PutBlobs, PutRow, Refused, RowStored
from legato_rl.workers.conversation import Blob
from legato_rl.workers.link import Link

log = logging.getLogger("legato_rl.worker")

MOST_UNDER_WAY = 32
"""Blobs sent and not yet acknowledged."""
SEND_AGAIN_S = 2.0
"""Seconds after which what is not acknowledged is sent again."""
REFUSED_PAUSE_S = 5.0
"""Seconds to wait after the sink refused a row (a full disk), before it is sent again."""


class RowRefused(Exception):
    """The sink will never take this row; the message says why."""


@dataclass
class RowLine:
    """A worker's connection to the sink."""

    socket: Client
    link: Link
    clock: Clock
    _under_way: dict[str, Blob] = field(default_factory=dict)

    def put(self, blobs: Iterable[Blob]) -> None:
        """Send blobs ahead of their row; returns at once unless too many are under way."""
        blobs = list(blobs)
        self._take()
        while len(self._under_way) + len(blobs) > MOST_UNDER_WAY and self._under_way:
            self._send(list(self._under_way.values()))
            wait([self.socket], SEND_AGAIN_S)
            self._take()
        self._send(blobs)

    def store(self, draft: Draft, known: dict[str, Blob]) -> FeedRow:
        """Send the row until it is stored, with whatever blobs of `known` the sink asks for. Returns the row that stands.

        Waits for as long as the sink is away or its disk is full: a row is never given up. RowRefused where the sink finds
        the row itself wrong.
        """
        put = PutRow(row=dump(draft))
        key = draft.key
        while True:
            self.socket.send(put)
            deadline = self.clock.monotonic() + SEND_AGAIN_S
            while (left := deadline - self.clock.monotonic()) > 0:
                wait([self.socket], left)
                stored, again = self._answer(key.rollout_id, known)
                if stored is not None:
                    self._under_way.clear()
                    return stored
                if again:
                    break

    def _answer(self, rollout_id: str, known: dict[str, Blob]) -> tuple[FeedRow | None, bool]:
        again = False
        for received in self.socket.receive():
            match received.message:
                case RowStored(row=row) if row.key.rollout_id == rollout_id:
                    return row, False
                case BlobsNeeded(key=key, hashes=hashes) if key.rollout_id == rollout_id:
                    self._send([known[sha256] for sha256 in hashes if sha256 in known])
                    again = True
                case BlobsStored(hashes=hashes):
                    self._acknowledged(hashes)
                case Refused(about=PutRow.__name__, reason=reason, again=False):
                    raise RowRefused(reason)
                case Refused(about=about, reason=reason):
                    log.error("the sink refused a %s: %s", about, reason)
                    self.clock.sleep(REFUSED_PAUSE_S)
                    again = True
        return None, again

    def _take(self) -> None:
        for received in self.socket.receive():
            match received.message:
                case BlobsStored(hashes=hashes):
                    self._acknowledged(hashes)
                case Refused(about=about, reason=reason):
                    log.error("the sink refused a %s: %s", about, reason)

    def _send(self, blobs: list[Blob]) -> None:
        if blobs:
            names = [BlobName(sha256=blob.sha256, size=len(blob.data), type=blob.type) for blob in blobs]
            self.socket.send(PutBlobs(blobs=names), [blob.data for blob in blobs])
            self._under_way.update((blob.sha256, blob) for blob in blobs)

    def _acknowledged(self, hashes: list[str]) -> None:
        for sha256 in hashes:
            self._under_way.pop(sha256, None)
