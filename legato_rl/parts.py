"""What do messages hold? The groups of fields that several messages of wire.py share. PURE: knows no socket."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from legato_rl.config import Phase
from legato_rl.frames import Part
from legato_rl.records import Items, RolloutKey

PauseMode = Literal["abort", "wait"]


class Holding(Part):
    """What a worker holds: a try under its lease, and where in it it is. `past_actions`: only grading is left."""

    key: RolloutKey
    lease: int
    phase: Phase
    step: int
    past_actions: bool = False


class Assignment(Part):
    """A try that a worker should hold. `task` is an OSWorld task; `domain`, `meta` and `task_id` are echoed in the row.

    `settings` are the run's (`run.json`) and `today` the date that its prompts name. `policy` is the number of the run's
    policy that was in force when the try was handed out; the worker passes it on with every call.
    """

    key: RolloutKey
    task_id: str
    domain: str | None
    task: dict[str, Any]
    max_steps: int
    meta: Any = None
    settings: dict[str, Any] = Field(default_factory=dict)
    today: str = ""
    policy: int = 0


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


class PolicyName(Part):
    """A policy: the model's name at the server, and the version to stamp."""

    model: str
    version: str


class RunPolicy(Part):
    """A run's policies by number (an assignment's `policy`), and how its calls are made: seconds of one HTTP attempt, and
    further attempts after a time-out or failure of a healthy server."""

    run: str
    names: Items[PolicyName]
    step_timeout: float
    retries: int


class RunWithoutModel(Part):
    """A run whose calls wait, since the server does not know their model. `gave_up`: they waited long enough."""

    run: str
    message: str
    gave_up: bool = False


class RunBrief(Part):
    """A run in a list of runs."""

    run: str
    state: Literal["running", "stopping", "finished", "stopped"]
    priority: int
    version: str
    groups: GroupCounts


class DesktopEvent(Part):
    """A line of a run's desktops.jsonl: its number in the file, and how many rows were stored before it."""

    n: int
    after: int
    desktop: str
    event: Literal["rebuilt", "out"]
    at: str
    reason: str


class Event(Part):
    """What happened in a run; `n` counts the run's events from 1, and stays the same after a restart.

    `data` by kind: `rollout` (key, outcome, status, reward), `group_closed` (group, task, asked, graded, usable, rewards,
    advantages, rollouts, versions), `group_ended` (group, task, closed, graded), `run_finished`, `desktop_out` (desktop,
    reason) and `desktop_rebuilt`.
    """

    n: int
    kind: Literal["rollout", "group_closed", "group_ended", "run_finished", "desktop_out", "desktop_rebuilt"]
    data: dict[str, Any]
