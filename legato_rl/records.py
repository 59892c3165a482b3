"""What is on disk? The words and records of format `legato.rollout/v0` (docs/rollouts.md). PURE: no files, no clock.

`Draft` is a row as its writer sends it; `Rollout` is the row that the sink stores, with the status that it set.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field

SCHEMA = "legato.rollout/v0"


class _FirstFault(FailFast):
    """pydantic's own cannot stand beside None in an annotation: it has no hash."""

    __hash__ = object.__hash__


T = TypeVar("T")
Items = Annotated[list[T], _FirstFault()]
"""A list whose check ends at its first wrong element: a fault of each of a million would take gigabytes."""

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""Ids from outside (tasks, groups, runs) match this, so they are safe in paths, headers and rollout ids."""

_ID = re.compile(ID_PATTERN + r"\Z")


def is_id(text: object) -> bool:
    """Whether `text` may be an id (ID_PATTERN)."""
    return isinstance(text, str) and _ID.match(text) is not None


class Outcome(str, Enum):
    """What happened to a try: said by its worker, or by the broker for the last two."""

    GRADED = "graded"
    TIMED_OUT_GRADED = "timed_out_graded"
    DESKTOP_FAILED = "desktop_failed"
    EVALUATOR_FAILED = "evaluator_failed"
    POLICY_FAILED = "policy_failed"
    STOPPED = "stopped"
    NOT_STARTED = "not_started"
    WORKER_LOST = "worker_lost"


GRADED_OUTCOMES = frozenset({Outcome.GRADED, Outcome.TIMED_OUT_GRADED})
DESKTOP_OUTCOMES = frozenset({Outcome.DESKTOP_FAILED, Outcome.WORKER_LOST})
"""The outcomes that cost a try, not the attempt, and count against the desktop's health."""
ENV_OUTCOMES = DESKTOP_OUTCOMES | {Outcome.EVALUATOR_FAILED}
"""The outcomes whose `error` is of kind env. An attempt that ended with one may be asked to go on (`--retry-errors`)."""


class Status(str, Enum):
    """What the record says in the end; set by the sink (legato_rl/status.py)."""

    OK = "ok"
    TRUNCATED = "truncated"
    SURPLUS = "surplus"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    RETRIED = "retried"
    ERROR = "error"


USABLE = frozenset({Status.OK, Status.TRUNCATED})
StopReason = Literal["group_closed", "asked"]
ResetWay = Literal["booted", "fast", "escalated", "revert"]
"""How a desktop came to a task's start: just booted; cleaned in place; cleaned in vain, then reverted; reverted at once."""


class Record(BaseModel):
    """Frozen, and strict about unknown fields: a record is exactly what its schema says."""

    # A NaN must stay one, so that writing it as JSON fails; pydantic's default makes it null where the type is open.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants")


class RolloutKey(Record):
    """What names a try for good: (run, group, attempt, try). Hashable."""

    run: str
    group: str
    attempt: Annotated[int, Field(ge=0)]
    try_: Annotated[int, Field(ge=0, alias="try")]

    @property
    def rollout_id(self) -> str:
        """The key as one word; safe in a header."""
        return f"{self.run}:{self.group}:{self.attempt}:{self.try_}"

    def next_try(self) -> RolloutKey:
        """The key of the try after this one."""
        return RolloutKey(run=self.run, group=self.group, attempt=self.attempt, try_=self.try_ + 1)


class PolicyStamp(Record):
    """The policy of a rollout: `version` is its first step's, `versions` all in order of appearance."""

    model: str
    version: str
    versions: Items[str]


class RolloutError(Record):
    """Why a try has no verdict. `type` is a short cause to count by; `phase` is what the worker was doing."""

    kind: Literal["policy", "env"]
    phase: str
    type: str
    message: str


class Timing(Record):
    """Seconds of a try, by what they were spent on (monotonic clock). `model_s` includes waiting for a slot."""

    reset_s: float = 0.0
    wait_after_reset_s: float = 0.0
    model_s: float = 0.0
    act_s: float = 0.0
    wait_s: float = 0.0
    obs_s: float = 0.0
    wait_before_eval_s: float = 0.0
    eval_s: float = 0.0
    total_s: float = 0.0


class PromptRecord(Record):
    """The prompt's token ids, told as a difference to the step before (legato_rl/prompt_ids.py)."""

    keep: Annotated[int, Field(ge=0)]
    add: Items[int]
    images: Items[tuple[int, int, str]]
    """(index in the full prompt, length, image hash) of every image of the full prompt, in order."""
    sha256: str


class StepRequest(Record):
    """What was sent: message hashes, the body less its messages, the body's hash, the prompt's ids where given."""

    messages: Items[str]
    params: dict[str, Any]
    body_sha256: str
    prompt: PromptRecord | None


class StepResponse(Record):
    """What came back; ids and logprobs are the server's own. `tokens` only where no ids were given."""

    content: str | None
    reasoning: str | None
    token_ids: Items[int] | None
    logprobs: Items[float]
    tokens: Items[str] | None
    finish_reason: str | None


class ModelUse(Record):
    """What a step's model call took. `seconds` is of the answered HTTP attempt.

    `queued_s` is the time in which no attempt was under way: waiting for a slot, the server down or full, the run paused.
    `resampled` counts how often the call was asked anew since a proxy had ended, or forgotten it: what that one had sampled
    is lost unseen.
    """

    seconds: float
    queued_s: float
    attempts: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    version: str
    server_version: str | None
    resampled: int = 0


class ActionRecord(Record):
    """One action and what the guest said. `ready_s` is null where the ready signal did not fire (capped, fixed)."""

    action: str
    rc: int
    stderr: str
    act_s: float
    wait_s: float
    ready_s: float | None
    ready: str
    obs_s: float


class Step(Record):
    """One policy call and the actions that came of it."""

    request: StepRequest
    response: StepResponse
    model: ModelUse
    parse_error: str | None
    actions: Items[ActionRecord]


class Draft(Record):
    """A row as its writer sends it; the sink adds schema, status and usable."""

    run_id: str
    rollout_id: str
    task_id: str
    domain: str | None
    group_id: str
    attempt: Annotated[int, Field(ge=0)]
    try_: Annotated[int, Field(ge=0, alias="try")]
    policy: PolicyStamp
    desktop: str | None
    reset: ResetWay | None = None
    meta: Any = None
    outcome: Outcome
    reward: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    cancel_reason: str | None = None
    error: RolloutError | None = None
    n_steps: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    timing: Timing = Timing()
    steps: Items[Step] = Field(default_factory=list)
    final_image: str | None = None

    @property
    def key(self) -> RolloutKey:
        """The key that makes this row unique."""
        return RolloutKey(run=self.run_id, group=self.group_id, attempt=self.attempt, try_=self.try_)


class Rollout(Draft):
    """One line of `rollouts.jsonl`."""

    schema_: Annotated[Literal["legato.rollout/v0"], Field(alias="schema")] = "legato.rollout/v0"
    status: Status
    usable: bool


class FeedRow(Record):
    """What the feed says of a stored row: its number in the file (from 1), key, outcome, status, reward, policy versions."""

    n: int
    key: RolloutKey
    outcome: Outcome
    status: Status
    reward: float | None
    versions: Items[str] = Field(default_factory=list)
    error_kind: str = ""
    """Of an `error`: whether the policy failed or the desktop and its evaluator (`policy`, `env`)."""


FIRST = ("schema", "run_id", "rollout_id", "task_id", "group_id", "attempt", "try", "outcome", "status", "reward", "usable")
"""Fields that a stored row begins with; its steps may be kilobytes long."""


def dump(record: Record) -> dict[str, Any]:
    """`record` as the JSON object that is stored: aliases applied, and what tells rows apart at a glance first."""
    fields = record.model_dump(mode="json", by_alias=True)
    return {name: fields[name] for name in (*(first for first in FIRST if first in fields), *fields)}
