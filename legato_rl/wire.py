"""What do processes say to each other? Every message of every socket; frames.py makes frames of them. PURE: knows no socket.

Each class's docstring starts with `sender -> receiver`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from legato_rl.config import Phase
from legato_rl.frames import KINDS, WIRE_VERSION, Message, Part, decode, encode
from legato_rl.parts import Assignment, BlobName, CallId, GroupCounts, Holding
from legato_rl.records import FeedRow, ModelUse, PromptRecord, RolloutKey, StepResponse, StopReason

__all__ = [
    "KINDS",
    "WIRE_VERSION",
    "Assignment",
    "BlobName",
    "CallId",
    "FeedRow",
    "GroupCounts",
    "Holding",
    "Message",
    "Part",
    "decode",
    "encode",
]


class Refused(Message):
    """any -> any: the message before could not be accepted; `reason` says why in one sentence. Nothing was done.

    `about` is its kind, `of` what it names itself by (`ident`). `again`: the same message may be accepted later (a full
    disk), so ask again; else it never will.
    """

    about: str
    of: str = ""
    reason: str
    again: bool = False


# --- orders: workers and the proxy <-> broker ------------------------------------------------------------------------
class Beat(Message):
    """worker -> broker: how the worker is and what it holds, every second or so and at once on a change. Idempotent.

    `boot` is random per process: a new one means that what the old one held is lost. `ready`: the desktop passed its
    self-check and the last row is stored, so a new try may be held. `stored` is the last key that was seen stored, `built`
    counts desktops, `build_failures` those that failed the self-check; `boot_ask` numbers a boot or revert that waits or runs.
    """

    worker: str
    boot: str
    ready: bool
    phase: Phase
    holds: Holding | None
    stored: RolloutKey | None
    built: int
    build_failures: int
    message: str = ""
    boot_ask: int = 0


class Order(Message):
    """broker -> worker: what the worker should hold; the answer to a beat, also sent early. Idempotent.

    `assign` repeats until it is held. `stop` ends the held try in a row, `drop` ends it without one. `rebuild` asks for
    desktop number `rebuild`, so a repeat asks for no second one; boot number `may_boot` may go on. `leave`: exit when idle.
    """

    boot: str
    assign: Assignment | None = None
    held: RolloutKey | None = None
    stop: StopReason | None = None
    drop: bool = False
    rebuild: int = 0
    leave: bool = False
    may_boot: int = 0


class ProxyBeat(Message):
    """proxy -> broker: how the model server is, every second and at once on a change. Idempotent."""

    boot: str
    state: Literal["up", "down", "paused"]
    queued: int
    running: int
    down_s: float
    message: str = ""
    gave_up: bool = False


class ProxyOrder(Message):
    """broker -> proxy: the answer to a ProxyBeat."""

    boot: str


# --- policy: worker <-> proxy ----------------------------------------------------------------------------------------
class CallAsk(Message):
    """worker -> proxy: answer this call; asked again until answered. Blobs: what the proxy has not seen yet.

    `params` is the body less `messages` and `model`; the proxy adds the model in force. `deadline_s` is what is left of
    the rollout's own time: the running HTTP attempt is ended when it has used that much.
    """

    call: CallId
    messages: list[str]
    params: dict[str, Any]
    deadline_s: float | None
    blobs: list[BlobName]

    def ident(self) -> str:
        return str(self.call)


class CallPending(Message):
    """proxy -> worker: not yet. Seconds spent so far in each state; `queued`, `down` and `paused` stop the rollout's clock."""

    call: CallId
    state: Literal["queued", "running", "down", "paused"]
    queued_s: float
    running_s: float
    down_s: float
    paused_s: float


class CallNeeds(Message):
    """proxy -> worker: ask again with these blobs."""

    call: CallId
    hashes: list[str]


class CallReply(Message):
    """proxy -> worker: the completion, kept until the next step."""

    call: CallId
    response: StepResponse
    params: dict[str, Any]
    body_sha256: str
    prompt: PromptRecord | None
    model: ModelUse


class CallFailed(Message):
    """proxy -> worker: no completion will come of this call. `type` is a short cause, `rollout_timeout` the rollout's own."""

    call: CallId
    type: str
    message: str
    queued_s: float


class CallCancel(Message):
    """worker -> proxy: drop or abort this call and forget the rollout; asked again until `CallGone`."""

    call: CallId


class CallGone(Message):
    """proxy -> worker: nothing of this rollout is held any more."""

    call: CallId


# --- rows: workers and the broker <-> sink ---------------------------------------------------------------------------
class PutBlobs(Message):
    """worker -> sink: store these blobs, one frame each. Idempotent."""

    blobs: list[BlobName]

    def ident(self) -> str:
        return self.blobs[0].sha256 if self.blobs else ""


class BlobsStored(Message):
    """sink -> worker: these blobs are renamed into place and fsynced."""

    hashes: list[str]


class PutRow(Message):
    """worker or broker -> sink: append this row (a Draft); sent again until stored. Idempotent by the row's key."""

    row: dict[str, Any]

    def ident(self) -> str:
        return str(self.row.get("rollout_id"))


class RowStored(Message):
    """sink -> worker or broker: the row that stands under this key. `duplicate`: it was there before."""

    row: FeedRow
    duplicate: bool


class BlobsNeeded(Message):
    """sink -> worker: the row of this key names blobs that are not stored; send them, then the row again."""

    key: RolloutKey
    hashes: list[str]


class FeedAsk(Message):
    """broker -> sink: rows after number `after`, `limit` at most. Also subscribes the asker to early pushes."""

    after: int
    limit: int = 500


class Feed(Message):
    """sink -> broker: consecutive rows, `last`, the number of the file's last row, and `trouble`, why it cannot write now."""

    rows: list[FeedRow]
    last: int
    trouble: str = ""


class PutDesktopEvent(Message):
    """broker -> sink: append to desktops.jsonl; sent again until stored. Idempotent by `id`."""

    id: str
    desktop: str
    event: Literal["rebuilt", "out"]
    at: str
    reason: str


class DesktopEventStored(Message):
    """sink -> broker: the event is on disk."""

    id: str


# --- control: trainers and the command line <-> broker ---------------------------------------------------------------
class StatusAsk(Message):
    """client -> broker: how is the run? Idempotent."""

    id: str


class RunStatus(Message):
    """broker -> client: where the run stands. `state` ends in `finished` or `stopped` (resumable, `reason` says why)."""

    id: str
    state: Literal["running", "stopping", "finished", "stopped"]
    reason: str
    groups: GroupCounts
    rows: dict[str, int]
    attempts_total: int
    attempts_ended: int
    desktops: dict[str, int]
    """Live desktops by phase, and `out`."""
    policy: Literal["up", "down", "paused", "unknown"]
    policy_message: str
    sink_message: str
    queued: int
    running: int


class StopAsk(Message):
    """client -> broker: stop, resumable: what only has its grading left ends in a row, the rest is dropped. Idempotent."""

    id: str
    reason: str = Field(min_length=1)


class DesktopOut(Message):
    """client -> broker: a worker's process does not stay up, says its supervisor; its desktop is out. Idempotent."""

    id: str
    desktop: str
    reason: str
