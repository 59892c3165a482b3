"""Which calls may be at the server now? PURE: a bound on slots, a queue fair by arrival, and each call's clocks.

A call keeps its place for good: one that comes back, since the server went down or its pause is over, goes before all
that arrived after it. A call that waits for its own pause is not in the queue, so the others pass it. A slot is taken
from the moment an attempt is ordered until its end is reported, also where the call itself is long forgotten: so the
server never sees more than `max_inflight` attempts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from legato_rl.broker.proxy.outage import Outage

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
"""Seconds that a call waits after its first refusal or failure; doubled with each further one up to the longest."""

Clock = Literal["queued", "running", "down", "paused"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)


@dataclass
class Ticket:
    """One call's place and clocks. Seconds in each of the four clocks add up to the time since it came."""

    rollout: str
    arrival: int
    deadline_s: float | None
    """Seconds that the call may run in all, over its attempts: what is left of the rollout's own time."""
    since: float
    retries: int = 0
    """Retries spent: time-outs and failures of a healthy server."""
    pauses: int = 0
    attempts: int = 0
    token: int | None = None
    """The attempt in the air."""
    outages: int = 0
    """The server's outages so far when that attempt left."""
    ran_before: float = 0.0
    """Seconds that the call had run when that attempt left."""
    stood_before: float = 0.0
    """Seconds that the rollout's time had stood still then. It may go on to, under the attempt: in a pause or an outage."""
    pause_until: float | None = None
    clock: Clock = "queued"
    spent: dict[Clock, float] = field(default_factory=lambda: dict.fromkeys(CLOCKS, 0.0))

    def advance(self, now: float) -> None:
        """Count the time up to `now` on the present clock."""
        self.spent[self.clock] += max(0.0, now - self.since)
        self.since = max(now, self.since)

    @property
    def standing_s(self) -> float:
        """Seconds in which the rollout's own time stood still."""
        return self.spent["queued"] + self.spent["down"] + self.spent["paused"]

    @property
    def out_of_time(self) -> bool:
        """Whether the call has run for as long as the rollout had left."""
        return self.deadline_s is not None and self.spent["running"] >= self.deadline_s


@dataclass
class Admission:
    """The queue, the slots and the server's standing. Every method takes `now` in monotonic seconds."""

    max_inflight: int
    server: Outage
    tickets: dict[str, Ticket] = field(default_factory=dict)
    """By rollout: every call that is waiting or in the air."""
    slots: set[int] = field(default_factory=set)
    """Attempts whose end was not reported yet."""
    _queue: dict[int, Ticket] = field(default_factory=dict)
    _arrivals: int = 0
    _tokens: int = 0

    def enter(self, rollout: str, deadline_s: float | None, now: float) -> Ticket:
        """Queue a new call at the end."""
        self._arrivals += 1
        ticket = Ticket(rollout, self._arrivals, deadline_s, since=now)
        self.tickets[rollout] = ticket
        self.requeue(ticket, now)
        return ticket

    def requeue(self, ticket: Ticket, now: float) -> None:
        """Give a call its place in the queue back."""
        ticket.token = ticket.pause_until = None
        self._queue[ticket.arrival] = ticket
        self._set_clock(ticket, now)

    def take_back(self, ticket: Ticket, now: float) -> None:
        """Queue a call whose attempt a pause aborts, as if that had never left: its seconds are the pause's."""
        ticket.advance(now)
        wasted = ticket.spent["running"] - ticket.ran_before
        ticket.spent["running"] -= wasted
        ticket.spent["paused"] += wasted
        ticket.attempts -= 1
        self.requeue(ticket, now)

    def put_off(self, ticket: Ticket, now: float) -> None:
        """Keep a call out of the queue for a while that grows each time."""
        ticket.token = None
        ticket.pause_until = now + min(FIRST_PAUSE_S * 2**ticket.pauses, LONGEST_PAUSE_S)
        ticket.pauses += 1
        self._set_clock(ticket, now)

    def leave(self, ticket: Ticket, now: float) -> None:
        """Take a call out for good, wherever it is; the slot of its attempt stays taken until `free`."""
        ticket.advance(now)
        self._queue.pop(ticket.arrival, None)
        self.tickets.pop(ticket.rollout, None)

    def admit(self, now: float, may_go: Callable[[Ticket], bool]) -> Ticket | None:
        """The next call that goes to the server, with its attempt's new `token`; None where none may.

        Calls that `may_go` refuses keep their places, and the others pass them.
        """
        if self.server.standing != "up" or len(self.slots) >= self.max_inflight:
            return None
        arrival = min((arrival for arrival, ticket in self._queue.items() if may_go(ticket)), default=None)
        if arrival is None:
            return None
        if not self.slots:
            self.server.departure(now)
        ticket = self._queue.pop(arrival)
        self._tokens += 1
        ticket.token = self._tokens
        ticket.attempts += 1
        ticket.outages, ticket.ran_before = self.server.outages, ticket.spent["running"]
        self.slots.add(ticket.token)
        self._set_clock(ticket, now)
        ticket.stood_before = ticket.standing_s
        return ticket

    def free(self, token: int) -> None:
        """An attempt's end was reported."""
        self.slots.discard(token)

    def rested(self, now: float) -> list[Ticket]:
        """The calls whose pause is over."""
        return [t for t in self.tickets.values() if t.pause_until is not None and now >= t.pause_until]

    def expired(self, now: float) -> list[Ticket]:
        """The calls that have used up their rollout's time."""
        for ticket in self.tickets.values():
            ticket.advance(now)
        return [ticket for ticket in self.tickets.values() if ticket.out_of_time]

    def set_clocks(self, now: float) -> None:
        """To be called when the server's standing changed."""
        for ticket in self.tickets.values():
            self._set_clock(ticket, now)

    def waiting(self) -> int:
        """Calls that are not at the server."""
        return sum(ticket.token is None for ticket in self.tickets.values())

    def _set_clock(self, ticket: Ticket, now: float) -> None:
        ticket.advance(now)
        standing = self.server.standing
        at_server: Clock = "queued" if ticket.token is None else "running"
        ticket.clock = at_server if standing == "up" else standing
