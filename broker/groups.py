"""What is each attempt doing, and when is a group closed? PURE: a table of states and events; no socket, clock, file.

Invariants: every attempt is in exactly one state; a try is queued only after the row of the try before it is stored;
an attempt that ENDED never changes; a group closes once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from legato_rl.records import GRADED_OUTCOMES, Outcome, RolloutKey, Status, StopReason


class State(str, Enum):
    """Where an attempt's present try stands."""

    QUEUED = "queued"
    """No worker should hold it."""
    HELD = "held"
    """A worker should hold it."""
    LOST = "lost"
    """Its worker is gone; the broker's `worker_lost` row is on its way to the sink."""
    SKIPPING = "skipping"
    """Its group closed, or it was cancelled, before it started; the broker's `not_started` row is on its way to the sink."""
    ENDED = "ended"
    """Its final row is stored."""


class Event(str, Enum):
    """What can happen to an attempt."""

    ASSIGNED = "assigned"
    WORKER_LOST = "worker_lost"
    DROPPED = "dropped"
    """A worker let go without a row, as it was told (resumable stop)."""
    GROUP_CLOSED = "group_closed"
    CANCELLED = "cancelled"
    """Somebody asked for its end."""
    STORED_RETRIED = "stored_retried"
    STORED_FINAL = "stored_final"


_Q, _H, _L, _S, _E = State.QUEUED, State.HELD, State.LOST, State.SKIPPING, State.ENDED

# (state, event) -> next state. Late and repeated events are entries that change nothing. A pair that is not here is a
# bug and raises. Rows may come for a try that this broker did not hand out (its predecessor did), so QUEUED knows them.
TRANSITIONS: dict[tuple[State, Event], State] = {
    (_Q, Event.ASSIGNED): _H,
    (_Q, Event.GROUP_CLOSED): _S,
    (_Q, Event.CANCELLED): _S,
    (_Q, Event.STORED_RETRIED): _Q,
    (_Q, Event.STORED_FINAL): _E,
    (_Q, Event.WORKER_LOST): _Q,
    (_Q, Event.DROPPED): _Q,
    (_H, Event.WORKER_LOST): _L,
    (_H, Event.DROPPED): _Q,
    (_H, Event.GROUP_CLOSED): _H,
    (_H, Event.CANCELLED): _H,
    (_H, Event.STORED_RETRIED): _Q,
    (_H, Event.STORED_FINAL): _E,
    (_L, Event.WORKER_LOST): _L,
    (_L, Event.DROPPED): _L,
    (_L, Event.GROUP_CLOSED): _L,
    (_L, Event.CANCELLED): _L,
    (_L, Event.STORED_RETRIED): _Q,
    (_L, Event.STORED_FINAL): _E,
    (_S, Event.ASSIGNED): _H,
    (_S, Event.WORKER_LOST): _S,
    (_S, Event.DROPPED): _S,
    (_S, Event.GROUP_CLOSED): _S,
    (_S, Event.CANCELLED): _S,
    (_S, Event.STORED_RETRIED): _Q,
    (_S, Event.STORED_FINAL): _E,
    (_E, Event.WORKER_LOST): _E,
    (_E, Event.DROPPED): _E,
    (_E, Event.GROUP_CLOSED): _E,
    (_E, Event.CANCELLED): _E,
}


class UnknownTransition(Exception):
    """An event that cannot happen in this state: a bug on this side or a peer that breaks the protocol."""


@dataclass
class Attempt:
    """One of a group's numbered goes; `key` names its present try."""

    key: RolloutKey
    state: State = State.QUEUED
    cancelled: bool = False
    """No further try of it is to begin, and a running one is to stop."""

    def apply(self, event: Event) -> bool:
        """Move by the table; whether the state changed. UnknownTransition for a pair that the table does not have."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise UnknownTransition(f"{self.key.rollout_id}: {event.value} while {self.state.value}")
        changed = after is not self.state
        self.state = after
        return changed


@dataclass
class Group:
    """All attempts at one task. `queue` holds the numbers of QUEUED attempts in the order in which they are handed out."""

    group_id: str
    attempts: list[Attempt]
    queue: deque[int]
    graded: int = 0
    closed: bool = False

    @property
    def ended(self) -> bool:
        return all(attempt.state is State.ENDED for attempt in self.attempts)


@dataclass
class Groups:
    """The groups of a run, in order. `closing` graded rows close a group early; None: only when it has ended (`all`).

    `asked` is G: fewer graded rows than that at the end make the group short.
    """

    run: str
    asked: int
    closing: int | None
    groups: dict[str, Group] = field(default_factory=dict)
    _order: list[str] = field(default_factory=list)
    _first: int = 0

    def add(self, group_id: str, attempts: int) -> None:
        """Queue a group of `attempts` attempts behind the others."""
        keys = [RolloutKey(run=self.run, group=group_id, attempt=i, try_=0) for i in range(attempts)]
        self.groups[group_id] = Group(group_id, [Attempt(key) for key in keys], deque(range(attempts)))
        self._order.append(group_id)

    def attempt(self, key: RolloutKey) -> Attempt | None:
        """The attempt whose *present* try is `key`; None for any other key."""
        group = self.groups.get(key.group)
        if group is None or key.run != self.run or key.attempt >= len(group.attempts):
            return None
        attempt = group.attempts[key.attempt]
        return attempt if attempt.key == key else None

    def take(self, may: Callable[[RolloutKey], bool] = lambda key: True) -> RolloutKey | None:
        """Hand out the next try that `may` be: of the first group that has one queued. None where there is none."""
        for group in self._open():
            for number in group.queue:
                attempt = group.attempts[number]
                if may(attempt.key):
                    group.queue.remove(number)
                    attempt.apply(Event.ASSIGNED)
                    return attempt.key
        return None

    def adopt(self, key: RolloutKey) -> bool:
        """Take a try as HELD that a worker already holds (after a restart of this side); whether that was possible.

        One that was to be skipped can still be taken: its group closed while it ran, and this side did not know that it did.
        """
        attempt = self.attempt(key)
        if attempt is None or attempt.state not in (State.QUEUED, State.SKIPPING):
            return False
        if attempt.state is State.QUEUED:
            self.groups[key.group].queue.remove(key.attempt)
        attempt.apply(Event.ASSIGNED)
        return True

    def lose(self, key: RolloutKey) -> bool:
        """The worker that held `key` is gone; whether a `worker_lost` row is now owed."""
        attempt = self.attempt(key)
        return attempt is not None and attempt.apply(Event.WORKER_LOST) and attempt.state is State.LOST

    def drop(self, key: RolloutKey) -> None:
        """The worker that held `key` let go of it without a row: first in its group's queue again, unless that is closed."""
        attempt = self.attempt(key)
        if attempt is not None and attempt.apply(Event.DROPPED):
            group = self.groups[key.group]
            group.queue.appendleft(key.attempt)
            if attempt.cancelled:
                self.cancel(key.group, key.attempt)
            elif group.closed:
                attempt.apply(Event.GROUP_CLOSED)
                group.queue.remove(key.attempt)

    def cancel(self, group_id: str, number: int) -> None:
        """End an attempt for good: one that waits is skipped, one that runs is to stop (`stop_of`), one that ended stands."""
        group = self.groups[group_id]
        attempt = group.attempts[number]
        was_queued = attempt.state is State.QUEUED
        attempt.cancelled = attempt.cancelled or attempt.state is not State.ENDED
        if attempt.apply(Event.CANCELLED) and was_queued:
            group.queue.remove(number)

    def is_closed(self, group_id: str) -> bool:
        """Whether the group has the graded rows that close it."""
        return self.groups[group_id].closed

    def stop_of(self, key: RolloutKey) -> StopReason | None:
        """Why a try that runs should end in a row now; None where it should go on."""
        if self.groups[key.group].closed:
            return "group_closed"
        attempt = self.attempt(key)
        return "asked" if attempt is not None and attempt.cancelled else None

    def stored(self, key: RolloutKey, outcome: Outcome, status: Status, again: bool = False) -> None:
        """A row is stored. `again`: it was an error, and its attempt is to be tried once more all the same."""
        group = self.groups.get(key.group)
        if group is None or key.run != self.run or key.attempt >= len(group.attempts):
            raise UnknownTransition(f"{key.rollout_id}: a row of no attempt of this run")
        attempt = group.attempts[key.attempt]
        if attempt.key != key:
            raise UnknownTransition(f"{key.rollout_id}: a row of a try that is not the present one")
        was_queued = attempt.state is State.QUEUED
        if status is Status.RETRIED or again:
            attempt.apply(Event.STORED_RETRIED)
            attempt.key = key.next_try()
            if not was_queued:
                group.queue.appendleft(key.attempt)
            if attempt.cancelled:
                self.cancel(key.group, key.attempt)
        else:
            attempt.apply(Event.STORED_FINAL)
            if was_queued:
                group.queue.remove(key.attempt)
        group.graded += outcome in GRADED_OUTCOMES
        self._close(group)

    def _close(self, group: Group) -> None:
        if group.closed:
            return
        if self.closing is None:
            group.closed = group.ended and group.graded >= self.asked
        elif group.graded >= self.closing:
            group.closed = True
            for attempt in group.attempts:
                attempt.apply(Event.GROUP_CLOSED)
            group.queue.clear()

    def owed(self) -> list[tuple[RolloutKey, Outcome]]:
        """The rows that this side has to write and has not seen stored: lost workers' and skipped attempts'."""
        outcome = {State.LOST: Outcome.WORKER_LOST, State.SKIPPING: Outcome.NOT_STARTED}
        return [
            (attempt.key, outcome[attempt.state])
            for group in self._open()
            for attempt in group.attempts
            if attempt.state in outcome
        ]

    @property
    def ended(self) -> bool:
        """Whether every attempt of every group has its final row."""
        return not any(True for _ in self._open())

    def _open(self) -> list[Group]:
        # Groups end roughly in order, so the ended ones at the front are passed once and for all.
        order = self._order
        while self._first < len(order) and self.groups[order[self._first]].ended:
            self._first += 1
        return [self.groups[name] for name in order[self._first :] if not self.groups[name].ended]
