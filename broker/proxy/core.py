"""What is to be done about the calls? PURE: asks, ends of attempts, the broker's word and the time in; orders out.

`calls.py` says what may follow what, `admission.py` who may go, `outage.py` whether the server is there. This joins
them: what is aborted and forgotten when a call ends, and which end of an attempt spends a retry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from legato_rl.broker.proxy.admission import Admission, Ticket
from legato_rl.broker.proxy.calls import IN_WORK, Call, Event, State, next_state
from legato_rl.broker.proxy.models import Models
from legato_rl.broker.proxy.orders import Abort, Completed, Forget, Order, Probe, Start, Tell
from legato_rl.broker.proxy.outage import Outage
from legato_rl.parts import PauseMode, RunWithoutModel
from legato_rl.policy.verdicts import SERVER_WIDE, UNKNOWN_MODEL, Action, Verdict
from legato_rl.prompt_ids import NO_HISTORY
from legato_rl.wire import CallAsk, CallFailed, CallId, CallPending, PolicyName, RunPolicy

SILENCE_S = 10.0
"""Seconds after which a call in work that nobody repeats is dropped or aborted."""
KEEP_S = 1800.0
"""Seconds that an answer is kept for a next step: more than the deadlines between two steps add up to."""

RETRY_FREE = frozenset({Action.RETRY_FRESH, Action.WITHOUT_IDS, Action.DOWN, Action.CANCELLED})
"""The ends after which a call takes its place in the queue back and no retry is spent."""


class Core:
    """All calls of all runs. Every method takes `now` in monotonic seconds and returns what the shell has to do.

    A call goes once its run's policy is known, so none does before `obey`. `boot` is this process's own word.
    """

    def __init__(self, max_inflight: int, server_wait: float, boot: str = "") -> None:
        self.server = Outage(server_wait)
        self.models = Models(server_wait)
        self.admission = Admission(max_inflight, self.server)
        self.calls: dict[str, Call] = {}
        self.policies: dict[str, RunPolicy] = {}
        """By run."""
        self.counts: Counter[str] = Counter()
        """Late, outdated and silent events, and failed attempts by type: for the log."""
        self._attempts: dict[int, tuple[Call, str]] = {}
        """By attempt: its call, and the model that it asks for."""
        self._boot = boot
        self._taken = 0

    def obey(self, policies: Sequence[RunPolicy], max_inflight: int, pause: PauseMode | None, now: float) -> list[Order]:
        """How calls are to be made from now on. `pause` admits none; `abort` also takes back what is in the air, for free."""
        self.policies = {policy.run: policy for policy in policies}
        self.admission.max_inflight = max_inflight
        if self.server.paused and pause is None:
            self.models.look(now)
        self.server.pause(pause is not None, now)
        self.admission.set_clocks(now)
        recalled = self._recall(self.admission.take_back, now) if pause == "abort" else []
        return [*recalled, *self._admit(now)]

    def move(self) -> None:
        """Calls go to another server from now on, of which nothing is known. ValueError with an attempt in the air."""
        if self.admission.slots:
            raise ValueError(f"{len(self.admission.slots)} attempts are at the old server: wait for their ends")
        self.server = self.admission.server = Outage(self.server.server_wait, paused=self.server.paused)
        self.models = Models(self.server.server_wait, self.models.known)

    def name_of(self, call: Call) -> PolicyName | None:
        """The policy that an attempt at `call` would ask for now; None where its run or its number is not known yet."""
        policy, number = self.policies.get(call.run), call.ask.policy
        return policy.names[number] if policy is not None and 0 <= number < len(policy.names) else None

    def ask(self, ask: CallAsk, peer: bytes, now: float) -> tuple[Call | None, list[Order]]:
        """The call that is held after this ask; None where the ask is outdated and gets no answer."""
        call = self.calls.get(ask.call.rollout)
        event = Event.ASKED if call is None else call.event_of(ask.call)
        if call is not None and event is Event.OUTDATED:
            call.apply(event)
            self.counts[event.value] += 1
            return None, []
        orders = self._moved_on(ask.call.rollout, peer, now)
        if call is not None and event is Event.REPEATED:
            call.apply(event)
            call.peer, call.seen = peer, now
            return call, [*orders, *self._admit(now)]
        before = NO_HISTORY
        if call is not None:
            before = call.history_for(ask)
            orders += self._drop(call, event, now)
        self._taken += 1
        midway = call is None and ask.call.step > 0
        call = Call(ask, peer, now, taken=f"{self._boot}-{self._taken}", before=before, midway=midway)
        call.apply(Event.ASKED)
        self.calls[ask.call.rollout] = call
        return call, [*orders, *self._admit(now)]

    def gathered(self, call: Call, now: float) -> list[Order]:
        """All of the call's prompt is here."""
        call.apply(Event.GATHERED)
        call.ticket = self.admission.enter(call.id.rollout, call.ask.deadline_s, now)
        return [*self._expire(now), *self._admit(now)]

    def cancel(self, call_id: CallId, now: float) -> list[Order]:
        """Forget the rollout of `call_id`, unless another lease holds it by now."""
        call = self.calls.get(call_id.rollout)
        if call is None:
            next_state(State.NOT_HELD, Event.CANCELLED, call_id.rollout)
            return []
        if call.id.lease != call_id.lease:
            call.apply(Event.OUTDATED)
            self.counts["outdated"] += 1
            return []
        return [*self._drop(call, Event.CANCELLED, now), Forget(call_id.rollout), *self._admit(now)]

    def completed(self, token: int, done: Completed, now: float) -> list[Order]:
        """Attempt `token` brought a usable completion."""
        call, model = self._current(token)
        self.models.answered(model)
        self.server.completion(now)
        if call is None or call.ticket is None:
            return self._admit(now)
        call.apply(Event.COMPLETED)
        ticket = call.ticket
        self.admission.leave(ticket, now)
        use = done.reply.model.model_copy(update={"queued_s": ticket.stood_before, "attempts": ticket.attempts})
        call.answer = done.reply.model_copy(update={"model": use, "stood_s": ticket.standing_s})
        call.after = done.after
        return [Tell(call), *self._admit(now)]

    def ended(self, token: int, verdict: Verdict, now: float) -> list[Order]:
        """Attempt `token` ended without a usable completion."""
        self.counts[verdict.type] += 1
        call, model = self._current(token)
        if verdict.type in SERVER_WIDE:
            # A server that lost its key in mid-run would fail every attempt; it is waited for instead.
            verdict = replace(verdict, action=Action.DOWN)
        self.models.failed(model, verdict, now)
        if verdict.type == UNKNOWN_MODEL:
            # So it is with a model; but only by those who name it.
            verdict = replace(verdict, action=Action.RETRY_FRESH)
        if verdict.action is Action.BACK_OFF:
            self.server.put_off(verdict.message, now)
        if verdict.action is Action.DOWN:
            self.server.lost(verdict.message, now)
            self.admission.set_clocks(now)
        if call is None or call.ticket is None:
            return self._admit(now)
        ticket = call.ticket
        if verdict.action is Action.FAIL or (verdict.action is Action.RETRY and self._spent(ticket)):
            call.apply(Event.REFUSED)
            return [*self._fail(call, ticket, verdict.type, verdict.message, now), *self._admit(now)]
        if verdict.action in RETRY_FREE:
            call.apply(Event.RETURNED)
            self.admission.requeue(ticket, now)
        else:
            call.apply(Event.DELAYED)
            self.admission.put_off(ticket, now)
        return self._admit(now)

    def probed(self, healthy: bool, why: str, now: float) -> list[Order]:
        """What the server's health is.

        A second bad sign in a row means that what is in the air will not be answered; one alone may be a busy server.
        """
        was_down = self.server.down
        self.server.probed(healthy, why, now)
        self.admission.set_clocks(now)
        if healthy:
            return self._admit(now)
        return self._recall(self.admission.requeue, now) if was_down else []

    def tick(self, now: float) -> list[Order]:
        """What time alone asks for."""
        orders: list[Order] = []
        for call in list(self.calls.values()):
            if now - call.seen >= (SILENCE_S if call.state in IN_WORK else KEEP_S):
                self.counts["silent"] += 1
                orders += [*self._drop(call, Event.SILENT, now), Forget(call.id.rollout)]
        orders += self._expire(now)
        waiting = [(call.midway, name.model) for call, name in self._waiting()]
        self.models.known.update(model for midway, model in waiting if midway)
        asked = {model for _, model in self._attempts.values()}
        self.models.tick({model for _, model in waiting}, asked, self.server.standing == "up", now)
        for ticket in self.admission.rested(now):
            self.calls[ticket.rollout].apply(Event.RESTED)
            self.admission.requeue(ticket, now)
        if self.server.probe_due(now, bool(self.admission.slots)):
            orders.append(Probe())
        return [*orders, *self._admit(now)]

    def pending(self, call: Call, now: float) -> CallPending:
        """Where a call in work stands."""
        ticket = call.ticket
        if ticket is None:
            raise ValueError(f"{call.id.rollout} is {call.state.value}: it has no ticket yet")
        ticket.advance(now)
        spent = {f"{clock}_s": seconds for clock, seconds in ticket.spent.items()}
        return CallPending(call=call.id, state=ticket.clock, taken=call.taken, **spent)

    def without_model(self) -> list[RunWithoutModel]:
        """The runs whose calls wait for a model that the server does not know."""
        found: dict[str, RunWithoutModel] = {}
        for call, name in self._waiting() if self.models.away else ():
            if (absence := self.models.away.get(name.model)) and not (call.run in found and found[call.run].gave_up):
                gave_up = self.models.gave_up(name.model)
                found[call.run] = RunWithoutModel(run=call.run, message=absence.why, gave_up=gave_up)
        return [found[run] for run in sorted(found)]

    def _waiting(self) -> list[tuple[Call, PolicyName]]:
        """The calls in work, with the policy that each asks for."""
        named = [(call, self.name_of(call)) for call in self.calls.values() if call.state in IN_WORK]
        return [(call, name) for call, name in named if name is not None]

    def _moved_on(self, rollout: str, peer: bytes, now: float) -> list[Order]:
        """Forget what `peer` held before it came to `rollout`."""
        orders: list[Order] = []
        for call in [call for call in self.calls.values() if call.peer == peer and call.id.rollout != rollout]:
            orders += [*self._drop(call, Event.MOVED_ON, now), Forget(call.id.rollout)]
        return orders

    def _drop(self, call: Call, event: Event, now: float) -> list[Order]:
        """Let go of a call; its attempt, if one is in the air, is aborted."""
        token = call.ticket.token if call.ticket is not None and call.state is State.RUNNING else None
        if call.ticket is not None and call.state in IN_WORK:
            self.admission.leave(call.ticket, now)
        call.apply(event)
        del self.calls[call.id.rollout]
        return [] if token is None else [Abort(token)]

    def _expire(self, now: float) -> list[Order]:
        orders: list[Order] = []
        for ticket in self.admission.expired(now):
            call = self.calls[ticket.rollout]
            if ticket.token is not None:
                orders.append(Abort(ticket.token))
            call.apply(Event.EXPIRED)
            orders += self._fail(call, ticket, "rollout_timeout", "the rollout's time ended during this call", now)
        return orders

    def _fail(self, call: Call, ticket: Ticket, type_: str, message: str, now: float) -> list[Order]:
        self.admission.leave(ticket, now)
        call.answer = CallFailed(call=call.id, type=type_, message=message, queued_s=ticket.standing_s)
        return [Tell(call)]

    def _spent(self, ticket: Ticket) -> bool:
        """Whether a failure of a healthy server finds no retry left. One that overlapped an outage spends none."""
        if ticket.outages == self.server.outages and not self.server.down:
            ticket.retries += 1
        policy = self.policies.get(self.calls[ticket.rollout].run)
        return policy is not None and ticket.retries > policy.retries

    def _recall(self, requeue: Callable[[Ticket, float], None], now: float) -> list[Order]:
        """Abort what is in the air and queue it again, each call in its place."""
        orders: list[Order] = []
        for ticket in list(self.admission.tickets.values()):
            if ticket.token is not None:
                orders.append(Abort(ticket.token))
                self.calls[ticket.rollout].apply(Event.RETURNED)
                requeue(ticket, now)
        return orders

    def _current(self, token: int) -> tuple[Call | None, str]:
        """The call whose attempt `token` is, where it still waits for it, and the model. Frees the attempt's slot."""
        self.admission.free(token)
        call, model = self._attempts.pop(token, (None, ""))
        if call is None or call.ticket is None:
            raise ValueError(f"attempt {token} ended, but was never ordered or ended before")
        if self.calls.get(call.id.rollout) is call and call.state is State.RUNNING and call.ticket.token == token:
            return call, model
        self.counts["late"] += 1
        holder = self.calls.get(call.id.rollout)
        if holder is None:
            next_state(State.NOT_HELD, Event.LATE, call.id.rollout)
        else:
            holder.apply(Event.LATE)
        return None, model

    def _admit(self, now: float) -> list[Order]:
        orders: list[Order] = []
        may_go = partial(self.may_go, now=now)
        while (ticket := self.admission.admit(now, may_go)) is not None and ticket.token is not None:
            call = self.calls[ticket.rollout]
            call.apply(Event.ADMITTED)
            name = self.name_of(call)
            assert name is not None, "a call is admitted once its policy is known"
            self.models.left(name.model, now)
            self._attempts[ticket.token] = call, name.model
            orders.append(Start(call, ticket.token))
        return orders

    def may_go(self, ticket: Ticket, now: float) -> bool:
        """Whether a queued call may be sent: its policy is known, here and, as far as was told, at the server."""
        name = self.name_of(self.calls[ticket.rollout])
        return name is not None and self.models.may_go(name.model, now)
