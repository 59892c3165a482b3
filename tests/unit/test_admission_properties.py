"""Do a call's clocks, attempts and retries add up, whatever the server, the broker and the workers do in whatever order?"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_on_paper import RUNS, Harness, call_id, run_policy

from legato_rl.broker.proxy.admission import Ticket
from legato_rl.broker.proxy.core import Core
from legato_rl.broker.proxy.orders import Order, Start, Tell
from legato_rl.parts import PauseMode
from legato_rl.policy.verdicts import Action
from legato_rl.wire import CallReply

EVENTS = 200
RETRIES = 2
ENDS = [None, *[Action.RETRY] * 5, Action.RETRY_FRESH, Action.BACK_OFF, Action.DOWN, Action.WITHOUT_IDS, Action.FAIL]


class Accounts(Harness):
    """A core on paper, and books of its own about each ticket: since when, how many attempts left, how many of them count."""

    def __init__(self, slots: int) -> None:
        super().__init__(Core(slots, 600.0, "boot"), [run_policy(run, RETRIES) for run in RUNS])
        self.since: dict[int, float] = {}
        self.sent: dict[int, int] = {}
        """Attempts by ticket."""
        self.left: dict[int, int] = {}
        """The same, less those that a pause took back."""
        self.tickets: list[Ticket] = []
        """Kept, so that no two of them have the same id()."""
        self.tokens: set[int] = set()
        self.obey()

    def take(self, orders: list[Order]) -> None:
        """Carry orders out; each attempt is told apart from all before it, and each answer has its attempts."""
        for order in orders:
            match order:
                case Start(call=call, token=token):
                    assert token not in self.tokens, "no attempt leaves twice"
                    self.tokens.add(token)
                    assert call.ticket is not None
                    self.sent[id(call.ticket)] = self.sent.get(id(call.ticket), 0) + 1
                    self.left[id(call.ticket)] = self.left.get(id(call.ticket), 0) + 1
                case Tell(call=call) if isinstance(call.answer, CallReply):
                    assert call.ticket is not None
                    assert call.answer.model.attempts == self.left[id(call.ticket)]
                    self.check_answer(call.answer, call.ticket)
        super().take(orders)
        for ticket in self.core.admission.tickets.values():
            if id(ticket) not in self.since:
                self.since[id(ticket)] = self.now
                self.tickets.append(ticket)

    def check_answer(self, answer: CallReply, ticket: Ticket) -> None:
        """What it waited for and what it took do not overlap; the rollout's time stood still with the ticket's."""
        use, whole = answer.model, self.now - self.since[id(ticket)]
        assert use.seconds + use.queued_s <= whole + 1e-6
        if self.sent[id(ticket)] == 1:
            assert use.seconds + use.queued_s == pytest.approx(whole)
        assert answer.stood_s == pytest.approx(ticket.standing_s)

    def obey(self, pause: PauseMode | None = None, max_inflight: int | None = None) -> None:
        """What a pause takes back counts as no attempt."""
        if pause == "abort":
            for ticket in self.core.admission.tickets.values():
                if ticket.token is not None:
                    self.left[id(ticket)] -= 1
        super().obey(pause, max_inflight)

    def check(self) -> None:
        """What is always true, and that every ticket's clocks add up to the time since it came."""
        super().check()
        for ticket in self.core.admission.tickets.values():
            ticket.advance(self.now)
            assert sum(ticket.spent.values()) == pytest.approx(self.now - self.since[id(ticket)])
            assert ticket.retries <= RETRIES, "one that had its last retry is answered"
            assert ticket.attempts == self.left.get(id(ticket), 0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_clocks_attempts_and_retries_add_up(seed: int) -> None:
    """Over time-outs, outages, full queues, pauses of both kinds, and calls that are replaced or cancelled."""
    rng = Random(seed)
    h = Accounts(rng.randint(1, 3))
    for _ in range(EVENTS):
        match rng.choice(["ask", "ask", "ask", "end", "end", "end", "wait", "cancel", "probed", "pause", "resume", "bound"]):
            case "ask":
                call = call_id(rng.choice(RUNS), rng.choice([1, 1, 1, 2]), rng.randint(0, 2), rng.choice("dde"))
                h.ask(call, rng.choice([None, None, 5.0]))
            case "end" if h.air:
                h.end(rng.choice(sorted(h.air)), rng.choice(ENDS))
            case "wait":
                h.wait(rng.choice([0.0, 0.3, 1.0, 6.0, 11.0]))
            case "cancel":
                h.take(h.core.cancel(call_id(rng.choice(RUNS)), h.now))
            case "probed":
                h.probed(rng.random() < 0.7)
            case "pause":
                h.obey(rng.choice(["abort", "wait"]))
            case "resume":
                h.obey()
            case "bound":
                h.obey(max_inflight=rng.randint(1, 3))
        h.check()
    while h.air:
        h.end(min(h.air))
    assert h.core.admission.slots == set()
    assert h.core._attempts == {}
