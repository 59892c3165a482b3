"""What is each rollout's model call doing? PURE: a table of states and events; no socket, clock, thread.

Invariants: a rollout holds one call at most; a held answer goes to the id and digest that asked for it and to no other
prompt; an attempt whose call is gone frees its slot and changes nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from legato_rl.broker.proxy.admission import Ticket
from legato_rl.canonical import canonical_json, is_hash
from legato_rl.errors import WireError
from legato_rl.prompt_ids import NO_HISTORY, PromptHistory
from legato_rl.wire import CallAsk, CallFailed, CallId, CallReply

_ROLLOUT = re.compile(r"[A-Za-z0-9._:-]{1,600}\Z")


class State(str, Enum):
    """Where a rollout's call stands."""

    NOT_HELD = "not_held"
    """There is none: it never came, or was forgotten."""
    GATHERING = "gathering"
    """Messages or images of its prompt are not here yet."""
    QUEUED = "queued"
    """It waits for a slot, or for the server."""
    PAUSING = "pausing"
    """It backs off on its own: a full queue, or before a retry."""
    RUNNING = "running"
    """An attempt is in the air."""
    ANSWERED = "answered"
    """The reply is kept until the next step."""
    FAILED = "failed"
    """No completion will come; that answer is kept likewise."""


class Event(str, Enum):
    """What can happen to it."""

    ASKED = "asked"
    """Its first ask."""
    REPEATED = "repeated"
    """The same id and digest again."""
    OUTDATED = "outdated"
    """A late message: an ask of an earlier step of the same lease, a cancel of another lease."""
    REPLACED = "replaced"
    """Another lease, step or digest under the same rollout."""
    GATHERED = "gathered"
    """All of its prompt is here."""
    ADMITTED = "admitted"
    COMPLETED = "completed"
    """A usable completion came."""
    REFUSED = "refused"
    """An end that no retry mends, or the retries are spent."""
    DELAYED = "delayed"
    """A full queue, or a failure that is worth a retry."""
    RETURNED = "returned"
    """Its attempt was taken back: the server went down under it, or a pause aborts it."""
    RESTED = "rested"
    """Its pause is over."""
    EXPIRED = "expired"
    """The rollout's own time is used up."""
    CANCELLED = "cancelled"
    MOVED_ON = "moved_on"
    """Its worker asks for another rollout: it has one at a time, so this one is over."""
    SILENT = "silent"
    """Nobody repeated it for too long."""
    LATE = "late"
    """The end of an attempt that is not, or no longer, this call's."""


_N, _G, _Q, _P, _R, _A, _F = (
    State.NOT_HELD, State.GATHERING, State.QUEUED, State.PAUSING, State.RUNNING, State.ANSWERED, State.FAILED
)  # fmt: skip

# (state, event) -> next state. Late, repeated and reordered messages are entries that change nothing. A pair that is
# not here is a bug, or a peer that breaks the protocol, and raises.
TRANSITIONS: dict[tuple[State, Event], State] = {
    (_N, Event.ASKED): _G,
    (_N, Event.CANCELLED): _N,
    (_N, Event.LATE): _N,
    (_G, Event.REPEATED): _G,
    (_G, Event.OUTDATED): _G,
    (_G, Event.REPLACED): _N,
    (_G, Event.GATHERED): _Q,
    (_G, Event.CANCELLED): _N,
    (_G, Event.MOVED_ON): _N,
    (_G, Event.SILENT): _N,
    (_G, Event.LATE): _G,
    (_Q, Event.REPEATED): _Q,
    (_Q, Event.OUTDATED): _Q,
    (_Q, Event.REPLACED): _N,
    (_Q, Event.ADMITTED): _R,
    (_Q, Event.EXPIRED): _F,
    (_Q, Event.CANCELLED): _N,
    (_Q, Event.MOVED_ON): _N,
    (_Q, Event.SILENT): _N,
    (_Q, Event.LATE): _Q,
    (_P, Event.REPEATED): _P,
    (_P, Event.OUTDATED): _P,
    (_P, Event.REPLACED): _N,
    (_P, Event.RESTED): _Q,
    (_P, Event.EXPIRED): _F,
    (_P, Event.CANCELLED): _N,
    (_P, Event.MOVED_ON): _N,
    (_P, Event.SILENT): _N,
    (_P, Event.LATE): _P,
    (_R, Event.REPEATED): _R,
    (_R, Event.OUTDATED): _R,
    (_R, Event.REPLACED): _N,
    (_R, Event.COMPLETED): _A,
    (_R, Event.REFUSED): _F,
    (_R, Event.DELAYED): _P,
    (_R, Event.RETURNED): _Q,
    (_R, Event.EXPIRED): _F,
    (_R, Event.CANCELLED): _N,
    (_R, Event.MOVED_ON): _N,
    (_R, Event.SILENT): _N,
    (_R, Event.LATE): _R,
    (_A, Event.REPEATED): _A,
    (_A, Event.OUTDATED): _A,
    (_A, Event.REPLACED): _N,
    (_A, Event.CANCELLED): _N,
    (_A, Event.MOVED_ON): _N,
    (_A, Event.SILENT): _N,
    (_A, Event.LATE): _A,
    (_F, Event.REPEATED): _F,
    (_F, Event.OUTDATED): _F,
    (_F, Event.REPLACED): _N,
    (_F, Event.CANCELLED): _N,
    (_F, Event.MOVED_ON): _N,
    (_F, Event.SILENT): _N,
    (_F, Event.LATE): _F,
}

IN_WORK = frozenset({State.GATHERING, State.QUEUED, State.PAUSING, State.RUNNING})


class UnknownTransition(Exception):
    """An event that cannot happen in this state: a bug on this side or a peer that breaks the protocol."""


@dataclass
class Call:
    """A rollout's call and what is held for it."""

    ask: CallAsk
    peer: bytes
    """Who asked last, and is told."""
    seen: float
    """When it was last asked, monotonic seconds."""
    state: State = State.NOT_HELD
    ticket: Ticket | None = None
    answer: CallReply | CallFailed | None = None
    taken: str = ""
    """Names the time that it was taken in, over all proxies."""
    before: PromptHistory = NO_HISTORY
    """The rollout's ids up to the step before."""
    after: PromptHistory = NO_HISTORY
    """The same up to this step, once answered."""
    midway: bool = False
    """Whether its rollout came here with steps answered: by a proxy before this one, or long ago by this one."""

    @property
    def id(self) -> CallId:
        return self.ask.call

    @property
    def run(self) -> str:
        """The run that the rollout is of: an id holds no colon."""
        return self.id.rollout.partition(":")[0]

    def apply(self, event: Event) -> None:
        """Move by the table. UnknownTransition for a pair that the table does not have."""
        self.state = next_state(self.state, event, self.id.rollout)

    def event_of(self, asked: CallId) -> Event:
        """What an ask of `asked` is to this call."""
        if asked == self.id:
            return Event.REPEATED
        if asked.lease == self.id.lease and asked.step < self.id.step:
            return Event.OUTDATED
        return Event.REPLACED

    def history_for(self, ask: CallAsk) -> PromptHistory:
        """What the prompt of `ask`, which takes this call's place, is told as a difference to.

        The next step's is this one with its answer, if that is the one that the worker has: a proxy before this one may have
        answered the same call. The same step's, asked otherwise, is still the step before.
        """
        asked = ask.call
        if asked.lease != self.id.lease:
            return NO_HISTORY
        if asked.step == self.id.step:
            return self.before
        used = isinstance(self.answer, CallReply) and self.answer.ids_hash() == ask.previous
        return self.after if used and asked.step == self.id.step + 1 else NO_HISTORY


def check_ask(ask: CallAsk) -> None:
    """WireError where an ask holds what no request can be made of."""
    if not _ROLLOUT.match(ask.call.rollout):
        raise WireError(f"call.rollout is {ask.call.rollout[:80]!r}: it goes into a header, so use run:group:attempt:try")
    for sha256 in ask.messages:
        if not is_hash(sha256):
            raise WireError(f"messages holds {sha256[:80]!r}: it must be a SHA-256 in 64 lower-case hex digits")
    for key in ("messages", "model"):
        if key in ask.params:
            raise WireError(f"params holds {key}: the proxy puts it in")
    try:
        canonical_json(ask.params)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"params is no JSON object: {error}") from None


def next_state(state: State, event: Event, rollout: str) -> State:
    """The table's entry. UnknownTransition where it has none."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise UnknownTransition(f"{rollout}: {event.value} while {state.value}")
    return after
