"""What may trainers and the command line say to the broker? The messages of socket `control`. PURE: knows no socket.

Every ask has an `id`, drawn by the asker; asking again with the same id does nothing more and gives the answer again. A
`run` of "" means the run that was submitted last. Each class's docstring starts with `sender -> receiver`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from legato_rl.frames import Message
from legato_rl.parts import Event, GroupCounts, PauseMode, RunBrief
from legato_rl.records import Items

AskId = Annotated[str, Field(min_length=1, max_length=128)]
Word = Annotated[str, Field(max_length=20_000)]
"""What is kept in state.json. A bound makes pydantic look into a text, so one with a lone surrogate, which no file can hold,
is refused."""


# --- control: trainers and the command line <-> broker ---------------------------------------------------------------
class Submit(Message):
    """client -> broker: run these tasks' groups. Answered by `Submitted`, or `Refused` with what is wrong.

    `tasks` are entries of a tasks file with their `config` inline; `settings` what differs from the service's own (`group`,
    `oversample`, `max_steps`, `close`, `policy` with `model`, `version`, `temperature` …). `name` is the run's id and its
    folder's name; "" draws one. Runs of a higher `priority` get desktops first. `resume`: go on with run `name`, which
    stopped early; nothing else is then looked at but `retry_errors`: run errors of kind env again.
    """

    id: AskId
    tasks: Items[dict[str, Any]] = Field(default_factory=list)
    settings: dict[str, Any] = Field(default_factory=dict)
    name: Word = ""
    priority: int = 0
    resume: bool = False
    retry_errors: bool = False


class Submitted(Message):
    """broker -> client: the run is accepted; its id, and its folder on the service's machine."""

    id: str
    run: str
    folder: str


class Accepted(Message):
    """broker -> client: what was asked holds from now on."""

    id: str


class StatusAsk(Message):
    """client -> broker: how is the run, and the service? Idempotent."""

    id: AskId
    run: Word = ""


class RunStatus(Message):
    """broker -> client: where the run stands, and what all runs share.

    `state` ends in `finished` or `stopped` (resumable, `reason` says why); `none` where there is no run. `paused` is how
    the service was paused; calls have stood still since when `policy` says `paused` and none is running.
    """

    id: str
    run: str
    state: Literal["none", "running", "stopping", "finished", "stopped"]
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
    version: str = ""
    """The policy version that new rollouts of the run get."""
    model: str = ""
    """The model that their calls name."""
    url: str = ""
    """The model server's base URL."""
    paused: PauseMode | None = None
    draining: bool = False
    events: int = 0
    """The number of the run's last event."""
    runs: Items[RunBrief] = Field(default_factory=list)
    """Every run that has not ended, in the order in which they get desktops."""


class StopAsk(Message):
    """client -> broker: stop a run (every run with `run` "*"), resumable: what only has its grading left ends in a row, the
    rest is dropped. Idempotent."""

    id: AskId
    reason: Word = Field(min_length=1)
    run: Word = ""


class CancelAsk(Message):
    """client -> broker: end attempts for good; they get rows with `cancel_reason` `asked`. Those that are graded already, or
    are being graded, stand.

    All of the run's; or those of a `group`; of every group of a `task`; or one `attempt` of a group.
    """

    id: AskId
    run: Word = ""
    group: Word = ""
    task: Word = ""
    attempt: int | None = None


class PauseAsk(Message):
    """client -> broker: make no model call until `ResumeAsk`: `wait` for those in the air, or `abort` them; these are asked
    again later and count nowhere. Rollouts' own clocks stand still meanwhile. Nothing new is begun."""

    id: AskId
    mode: PauseMode = "abort"


class ResumeAsk(Message):
    """client -> broker: go on after a pause, and after a drain."""

    id: AskId


class PolicyAsk(Message):
    """client -> broker: another policy is in force. What is "" stays as it is.

    `when` `paused`: for every rollout from its next call on; refused unless calls stand still. `new`: only for tries that
    are begun from now on. `run` "*": for all runs, and those that are submitted later without one of their own. `url` is
    every run's, changes only with `paused`, and only to an origin that the service allows.
    """

    id: AskId
    run: Word = "*"
    model: Word = ""
    version: Word = ""
    url: Word = ""
    when: Literal["paused", "new"] = "paused"


class DrainAsk(Message):
    """client -> broker: begin no further try; those in progress go on to their end. `ResumeAsk` ends it."""

    id: AskId


class InflightAsk(Message):
    """client -> broker: at most so many model calls at once; nil bounds them by the desktops alone."""

    id: AskId
    max_inflight: Annotated[int, Field(ge=1)] | None


class DesktopsAsk(Message):
    """client -> broker: so many more (or, below 0, fewer) desktops work. What leaves ends its try first."""

    id: AskId
    change: int


class ShutdownAsk(Message):
    """client -> broker: stop every run, resumable, then end all processes of the service."""

    id: AskId


class DesktopOut(Message):
    """client -> broker: a worker's process does not stay up, says its supervisor; its desktop is out. Idempotent."""

    id: AskId
    desktop: Word
    reason: Word


class EventsAsk(Message):
    """client -> broker: a run's events after number `after`, once there are any or `wait_s` seconds have passed. Idempotent."""

    id: AskId
    run: Word = ""
    after: Annotated[int, Field(ge=0)] = 0
    wait_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0.0
    limit: Annotated[int, Field(ge=1, le=5000)] = 500


class Events(Message):
    """broker -> client: consecutive events of a run; `last` is the number of its last one."""

    id: str
    run: str
    events: Items[Event]
    last: int
