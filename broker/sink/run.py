"""What does the sink answer of one run? SHELL: its open folder, its index, its followers.

No rule lives here: index.py, events.py and drafts.py decide. Every answer is given when its result is on the disk.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack

from legato_rl.errors import WireError
from legato_rl.records import FeedRow, dump
from legato_rl.rundir import RunDir, RunFile
from legato_rl.wire import (
    BlobsNeeded,
    BlobsStored,
    DesktopEvent,
    DesktopEventStored,
    Feed,
    FeedAsk,
    Message,
    PutBlobs,
    PutDesktopEvent,
    PutRow,
    RowStored,
)

from .drafts import Expected, check_blobs, read_draft
from .events import DesktopEvents
from .index import Index
from .lock import FolderLock
from .store import Store, explain

FEED_LIMIT = 5000
"""Rows of one Feed at most (about 1 MB)."""

FOLLOWERS = 16
"""Peers that are pushed the feed: the latest that asked for it. A broker that restarts comes as a new peer."""

log = logging.getLogger(__name__)


class OpenRun:
    """A run folder that may be written. `index`, `events` and `store` agree after every call.

    WireError from a method: the sender is wrong. OSError: nothing was acknowledged, the same may be accepted later
    (`failed` notes it). SinkError: an fsync failed, and the process must end.
    """

    def __init__(self, run: RunDir, file: RunFile, *, locked: bool) -> None:
        """Lock the folder (unless it is `locked` by the caller) and read what is stored.

        ConfigError where another sink holds it, RecordError where it is damaged, OSError where it cannot be written.
        """
        self.run = run
        tasks = {task.group_id: task.task_id for task in run.load_tasks()}
        self._expected = Expected(run_id=file.run_id, tasks=tasks, attempts=file.settings.attempts)
        self.index = Index(file.run_id, file.settings.closing, file.settings.env_retries)
        self.events = DesktopEvents()
        self._followers: dict[bytes, None] = {}
        self._trouble = ""
        """Why the folder cannot be written, while it cannot."""
        with ExitStack() as opened:
            if not locked:
                opened.callback(FolderLock(run.lock).close)
            self.store = Store(run, self.index.add, self.events.add)
            opened.callback(self.store.close)
            self._closing = opened.pop_all()

    def close(self) -> None:
        """Release the folder."""
        self._closing.close()

    @property
    def followers(self) -> list[bytes]:
        """Who is to be told each new line."""
        return list(self._followers)

    def answer(
        self, message: PutBlobs | PutRow | PutDesktopEvent | FeedAsk, blobs: list[bytes], peer: bytes
    ) -> tuple[Message, Feed | None]:
        """What `peer` is answered, and what the followers are told beside it."""
        match message:
            case PutBlobs():
                return self._put_blobs(message, blobs), None
            case PutRow():
                return self._put_row(message)
            case PutDesktopEvent():
                return self._put_event(message)
            case FeedAsk():
                self._follow(peer)
                return self._answer_feed(message), None

    def _put_blobs(self, put: PutBlobs, blobs: list[bytes]) -> BlobsStored:
        check_blobs(put.blobs, blobs)
        if self.store.put_blobs(zip(put.blobs, blobs, strict=True)):
            self._writable()
        return BlobsStored(hashes=[name.sha256 for name in put.blobs])

    def _put_row(self, put: PutRow) -> tuple[Message, Feed | None]:
        draft = read_draft(put.row, self._expected)
        standing = self.index.standing(draft.key)
        if standing is not None:
            return RowStored(row=standing, duplicate=True), None
        missing = self.store.missing(draft)
        if missing:
            return BlobsNeeded(key=draft.key, hashes=missing), None
        try:
            line = dump(self.index.settle(draft))
            self.store.append_row(line)
        except (ValueError, RecursionError) as error:
            raise WireError(f"the row of {draft.rollout_id} is no JSON: {error}") from None
        self._writable()
        row = self.index.add(line)
        return RowStored(row=row, duplicate=False), self._feed([row], [])

    def _put_event(self, put: PutDesktopEvent) -> tuple[Message, Feed | None]:
        stored = DesktopEventStored(run=put.run, id=put.id)
        if self.events.holds(put.id):
            return stored, None
        line = self.events.line(put, self.index.last)
        self.store.append_event(line)
        self._writable()
        return stored, self._feed([], [self.events.add(line)])

    def _follow(self, peer: bytes) -> None:
        self._followers.pop(peer, None)
        self._followers[peer] = None
        if len(self._followers) > FOLLOWERS:
            del self._followers[next(iter(self._followers))]

    def _answer_feed(self, ask: FeedAsk) -> Feed:
        self._writable()
        limit = min(ask.limit, FEED_LIMIT)
        return self._feed(self.index.after(ask.after, limit), self.events.after(ask.events_after, limit))

    def _feed(self, rows: list[FeedRow], events: list[DesktopEvent]) -> Feed:
        return Feed(
            run=self.index.run_id,
            rows=rows,
            last=self.index.last,
            events=events,
            events_last=self.events.last,
            trouble=self._trouble,
            free_mb=self.store.free_mb(),
        )

    def failed(self, error: OSError) -> str:
        """The folder could not be written: why, in one sentence, which the log has once."""
        reason = explain(self.run.root, error)
        if not self._trouble:
            log.error("%s", reason)
        self._trouble = reason
        return reason

    def _writable(self) -> None:
        # A full disk takes a row where it has no room for a screenshot: what was stored just now does not say enough.
        if self._trouble and self.store.can_write():
            log.info("%s can be written again", self.run.root)
            self._trouble = ""
