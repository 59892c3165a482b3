"""What do messages hold? The groups of fields that several messages of wire.py share. PURE: knows no socket."""

from __future__ import annotations

from typing import Any, Literal

from legato_rl.config import Phase
from legato_rl.frames import Part
from legato_rl.records import RolloutKey


class Holding(Part):
    """What a worker holds: a try under its lease, and where in it it is. `past_actions`: only grading is left."""

    key: RolloutKey
    lease: int
    phase: Phase
    step: int
    past_actions: bool = False


class Assignment(Part):
    """A try that a worker should hold. `task` is an OSWorld task; `domain`, `meta` and `task_id` are echoed in the row."""

    key: RolloutKey
    task_id: str
    domain: str | None
    task: dict[str, Any]
    max_steps: int
    meta: Any = None


class BlobName(Part):
    """A blob frame's name: its hash, its bytes, and whether it is a chat message (canonical JSON) or an image (PNG)."""

    sha256: str
    size: int
    type: Literal["message", "image"]


class CallId(Part):
    """A model call's id: the same id and digest always get the same answer. Hashable."""

    rollout: str
    lease: int
    step: int
    digest: str

    def __str__(self) -> str:
        return f"{self.rollout}/{self.lease}/{self.step}/{self.digest}"


class GroupCounts(Part):
    """Groups by how they stand: `closed`, `short` (ended without closing), `open`."""

    total: int
    closed: int
    short: int
    open: int
