"""Who is answered what by the sink? SHELL: the ROUTER `rows`. No rule lives here: index.py and drafts.py decide.

Every answer is given when its result is on the disk. A disk that is full or read-only is answered with `Refused`, said
once in the log, and the sink stays up: the sender comes again.
"""

from __future__ import annotations

import logging
from typing import Any

from legato_rl.errors import WireError
from legato_rl.records import dump
from legato_rl.role import Quit
from legato_rl.rundir import RunDir
from legato_rl.sockets import Received, Server, wait
from legato_rl.wire import (
    BlobsNeeded,
    BlobsStored,
    DesktopEventStored,
    Feed,
    FeedAsk,
    Message,
    PutBlobs,
    PutDesktopEvent,
    PutRow,
    Refused,
    RowStored,
)

from .drafts import Expected, check_blobs, read_draft
from .index import Index
from .store import Store, explain

FEED_LIMIT = 5000
"""Rows of one Feed at most (about 1 MB)."""

REASON_LIMIT = 500
"""Characters of a refusal, which may quote a value of any length."""

SUBSCRIBERS = 16
"""Peers that are pushed the feed: the latest that asked for it. A broker that restarts comes as a new peer."""

log = logging.getLogger(__name__)


class Sink:
    """A run folder and its index. `index` and `store` agree after every call."""

    def __init__(self, run: RunDir) -> None:
        """Lock and read the folder. ConfigError, RecordError or SinkError where that fails."""
        file = run.load_run()
        settings = file.settings
        self._run = run
        self._expected = Expected(
            run_id=file.run_id,
            tasks={task.group_id: task.task_id for task in run.load_tasks()},
            attempts=settings.attempts,
        )
        self.index = Index(file.run_id, settings.closing, settings.env_retries)
        self._events: set[str] = set()
        self.store = Store(run, self.index.replay, self._replay_event)
        self._subscribers: dict[bytes, None] = {}
        self._trouble = ""
        """Why the folder cannot be written, while it cannot."""

    def _replay_event(self, event: dict[str, Any]) -> None:
        self._events.add(str(event.get("id")))

    def close(self) -> None:
        """Release the folder."""
        self.store.close()

    def handle(self, server: Server, received: Received) -> None:
        """Answer one message. SinkError where an fsync failed, and RecordError where a stored file is damaged."""
        kind = received.message.kind.decode()
        answer: Message
        try:
            answer = self._answer(server, received)
        except WireError as error:
            server.bad += 1
            answer = Refused(about=kind, of=received.message.ident(), reason=str(error)[:REASON_LIMIT])
        except OSError as error:
            reason = explain(self._run.root, error)
            answer = Refused(about=kind, of=received.message.ident(), reason=reason, again=True)
            if not self._trouble:
                log.error("%s", reason)
            self._trouble = reason
        server.send(received.peer, answer)

    def _answer(self, server: Server, received: Received) -> Message:
        message = received.message
        if isinstance(message, PutBlobs):
            check_blobs(message.blobs, received.blobs)
            if self.store.put_blobs(zip(message.blobs, received.blobs, strict=True)):
                self._writable()
            return BlobsStored(hashes=[name.sha256 for name in message.blobs])
        if isinstance(message, PutRow):
            return self._put_row(server, message)
        if isinstance(message, FeedAsk):
            self._subscribe(received.peer)
            if self._trouble and self.store.can_write():
                self._writable()
            rows = self.index.after(message.after, min(message.limit, FEED_LIMIT))
            return Feed(rows=rows, last=self.index.last, trouble=self._trouble)
        if isinstance(message, PutDesktopEvent):
            return self._put_event(message)
        raise WireError(f"the kind {message.kind.decode()} is not for a sink: see docs/protocol.md")

    def _put_row(self, server: Server, message: PutRow) -> Message:
        draft = read_draft(message.row, self._expected)
        standing = self.index.standing(draft.key)
        if standing is not None:
            return RowStored(row=standing, duplicate=True)
        missing = self.store.missing(draft)
        if missing:
            return BlobsNeeded(key=draft.key, hashes=missing)
        row = self.index.settle(draft)
        try:
            self.store.append_row(dump(row))
        except ValueError as error:
            raise WireError(f"the row of {draft.rollout_id} is no JSON: {error}") from None
        self._writable()
        stored = self.index.add(row)
        for peer in self._subscribers:
            server.send(peer, Feed(rows=[stored], last=stored.n))
        return RowStored(row=stored, duplicate=False)

    def _put_event(self, event: PutDesktopEvent) -> Message:
        if event.id not in self._events:
            self.store.append_event(event.model_dump())
            self._writable()
            self._events.add(event.id)
        return DesktopEventStored(id=event.id)

    def _subscribe(self, peer: bytes) -> None:
        self._subscribers.pop(peer, None)
        self._subscribers[peer] = None
        if len(self._subscribers) > SUBSCRIBERS:
            del self._subscribers[next(iter(self._subscribers))]

    def _writable(self) -> None:
        if self._trouble:
            log.info("%s can be written again", self._run.root)
        self._trouble = ""


def serve(sink: Sink, server: Server, quit_: Quit) -> None:
    """Answer until asked to quit. What was not answered by then comes again, to the next sink."""
    while not quit_.asked:
        wait([server, quit_.bell], 1.0)
        for received in server.receive():
            sink.handle(server, received)
            if quit_.asked:
                return
