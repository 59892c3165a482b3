"""How do rows and blobs reach the sink, and how does it tell of them? The messages of socket `rows`. PURE: knows no socket."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from legato_rl.frames import Message
from legato_rl.parts import BlobName, DesktopEvent
from legato_rl.records import FeedRow, Items, RolloutKey


# --- rows: workers and the broker <-> sink ---------------------------------------------------------------------------
class PutBlobs(Message):
    """worker -> sink: store these blobs of a run, one frame each. Idempotent."""

    run: str
    blobs: Items[BlobName]

    def ident(self) -> str:
        return self.blobs[0].sha256 if self.blobs else ""


class BlobsStored(Message):
    """sink -> worker: these blobs are renamed into place and fsynced."""

    hashes: Items[str]


class PutRow(Message):
    """worker or broker -> sink: append this row (a Draft); sent again until stored. Idempotent by the row's key."""

    row: dict[str, Any]

    def ident(self) -> str:
        rollout = self.row.get("rollout_id")
        return rollout if isinstance(rollout, str) else ""


class RowStored(Message):
    """sink -> worker or broker: the row that stands under this key. `duplicate`: it was there before."""

    row: FeedRow
    duplicate: bool


class BlobsNeeded(Message):
    """sink -> worker: the row of this key names blobs that are not stored; send them, then the row again."""

    key: RolloutKey
    hashes: Items[str]


class FeedAsk(Message):
    """broker -> sink: a run's rows after number `after`, `limit` at most, and desktop events after number `events_after`.

    Also subscribes the asker to early pushes. The sink opens the run's folder where it is not open yet.
    """

    run: str
    after: int
    events_after: int = 0
    limit: int = 500

    def ident(self) -> str:
        return self.run


class Feed(Message):
    """sink -> broker: consecutive rows of a run, and desktop events.

    `last` and `events_last` are the numbers of the files' last lines. `trouble`: why the sink cannot write now. `free_mb`:
    MiB that are free where the run is stored; -1 where that is not known.
    """

    run: str
    rows: Items[FeedRow]
    last: int
    events: Items[DesktopEvent] = Field(default_factory=list)
    events_last: int = 0
    trouble: str = ""
    free_mb: int = -1


class CloseRun(Message):
    """broker -> sink: the run is over and nobody holds a try of it: close and unlock its folder. Idempotent."""

    run: str

    def ident(self) -> str:
        return self.run


class RunClosed(Message):
    """sink -> broker: the run's folder is closed."""

    run: str


class PutDesktopEvent(Message):
    """broker -> sink: append to a run's desktops.jsonl; sent again until stored. Idempotent by `id` within the run."""

    run: str
    id: str
    desktop: str
    event: Literal["rebuilt", "out"]
    at: str
    reason: str

    def ident(self) -> str:
        return self.id


class DesktopEventStored(Message):
    """sink -> broker: the event is on disk."""

    run: str
    id: str


class Leave(Message):
    """broker -> sink: the service has ended, for `reason`, and every run is closed: exit. Not answered."""

    reason: str
