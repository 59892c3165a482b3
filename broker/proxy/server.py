"""How does the proxy meet the others? SHELL: polls its sockets and its pool, feeds the core, does what it orders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from secrets import token_hex

from legato_rl.broker.proxy.calls import Call, State, check_ask
from legato_rl.broker.proxy.core import Core
from legato_rl.broker.proxy.fragments import Fragments, check_parts
from legato_rl.broker.proxy.job import IDS_KEY, Job
from legato_rl.broker.proxy.orders import Abort, Completed, Forget, Order, Probe, Start, Tell
from legato_rl.broker.proxy.pool import Ended, Pool, Probed
from legato_rl.clock import Clock
from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError
from legato_rl.faults import Faults
from legato_rl.frames import MOST_IDENT, MOST_REASON
from legato_rl.parts import PauseMode
from legato_rl.policy.verdicts import Action, Verdict
from legato_rl.role import Quit
from legato_rl.service import ServiceFile, origin
from legato_rl.sockets import Bell, Client, Received, Server, wait
from legato_rl.wire import CallAsk, CallCancel, CallGone, CallNeeds, ProxyBeat, ProxyOrder, Refused

log = logging.getLogger("legato_rl.proxy")

TICK_S = 0.25
BEAT_S = 1.0
UNHEALTHY = "the server fails its health check; look at its log"


class Tick:
    """Time has passed."""


class Unfinished:
    """What the broker ordered may have something left to do."""


News = Ended | Probed | Received | Tick | Unfinished
OpenPool = Callable[[str, int, Bell], Pool]
"""Makes a pool of connections to a URL: that, how many, and the bell that it rings."""


class ProxyServer:
    """The proxy's loop over `calls` (endpoint `policy`), its connection to the broker's `orders`, and the pool."""

    def __init__(self, service: ServiceFile, calls: Server, orders: Client, open_pool: OpenPool, clock: Clock) -> None:
        settings = service.settings
        self._service = service
        self._url = settings.policy.url
        self._bell = Bell()
        self._open_pool = open_pool
        self._boot = token_hex(8)
        inflight = self._inflight(settings.max_inflight)
        self._core = Core(inflight, settings.policy.server_wait, self._boot)
        self._fragments = Fragments(settings.fragment_mb * 2**20)
        self._pool = open_pool(self._url, inflight, self._bell)
        self._calls = calls
        self._orders = orders
        self._clock = clock
        self._order: ProxyOrder | None = None
        """The last one that was obeyed: neither refused, nor more than the system allows."""
        self._done = 0
        """Its number, once it is carried out."""
        self._fault = ""
        """Why the last order is refused."""
        self._leaving = False
        self._with_ids = True
        """False once the server refused `return_token_ids` and answered without it."""
        self._beat: ProxyBeat | None = None
        self._beat_at = 0.0
        self._ids_refused: set[str] = set()
        """Rollouts whose call is asked again without ids."""
        self.faults = Faults()

    def run(self, quit_: Quit) -> None:
        """Serve until asked to end."""
        while not (quit_.asked or self._leaving):
            self.step()
            wait([self._calls, self._orders, self._bell, quit_.bell], TICK_S)
        log.info("events out of the ordinary: %s; faults: %d", dict(self._core.counts), self.faults.total)

    def close(self) -> None:
        """End what is in the air."""
        self._pool.close()

    def step(self) -> None:
        """Take in what is here, then do what time asks for."""
        self._bell.clear()
        last: list[News] = [Tick(), Unfinished()]
        for news in chain(self._pool.results(), self._calls.receive(), self._orders.receive(), last):
            self._dispatch(news)
        self._send_beat()

    def _dispatch(self, news: News) -> None:
        # The one place where a fault of a peer, or of a table, is caught: logged, counted, and nothing goes down.
        try:
            orders = list(self._handle(news))
        except Exception as error:
            name = type(news.message if isinstance(news, Received) else news).__name__
            if count := self.faults.note(f"{name}: {type(error).__name__}"):
                log.exception("could not take in a %s (the %d. time)", name, count)
            if isinstance(news, Received) and news.peer:
                refused = Refused(about=name, of=news.message.ident()[:MOST_IDENT], reason=str(error)[:MOST_REASON])
                self._calls.send(news.peer, refused)
            return
        while orders:
            orders += self._carry_out(orders.pop(0))

    def _carry_out(self, order: Order) -> list[Order]:
        """Do one order; a fault stays with it, and an attempt that could not leave is reported as ended."""
        try:
            self._do(order)
        except Exception as error:
            if count := self.faults.note(f"{type(order).__name__}: {type(error).__name__}"):
                log.exception("could not carry out a %s (the %d. time)", type(order).__name__, count)
            if isinstance(order, Start):
                verdict = Verdict(Action.FAIL, "proxy_fault", f"{type(error).__name__}: {error}")
                return self._core.ended(order.token, verdict, self._clock.monotonic())
        return []

    def _handle(self, news: News) -> Iterable[Order]:
        now = self._clock.monotonic()
        match news:
            case Tick():
                return self._core.tick(now)
            case Probed(healthy=healthy):
                return self._core.probed(healthy, UNHEALTHY, now)
            case Ended():
                return self._take_end(news, now)
            case Received(message=CallAsk() as ask):
                return self._take_ask(ask, news, now)
            case Received(message=CallCancel(call=call)):
                orders = self._core.cancel(call, now)
                self._calls.send(news.peer, CallGone(call=call))
                return orders
            case Received(peer=b"", message=ProxyOrder() as order):
                return self._take_order(order, now)
            case Unfinished():
                return self._finish_order(now)
            case Received(message=Refused() as refused):
                if count := self.faults.note("Refused"):
                    log.error("a %s was refused: %s (the %d. refusal)", refused.about, refused.reason, count)
                return []
            case Received(message=other):
                raise ValueError(f"the proxy takes no {type(other).__name__}")

    def _take_order(self, order: ProxyOrder, now: float) -> list[Order]:
        if order.boot != self._boot:
            return []
        self._leaving = order.leave
        fault = self._fault_of(order)
        if fault and fault != self._fault:
            log.error("the broker's order is refused: %s", fault)
        self._fault = fault
        if fault:
            return []
        inflight = self._inflight(order.max_inflight)
        self._pool.grow(inflight)
        # Until calls go to its server none leaves: the old one would answer it under the new one's version.
        held: PauseMode | None = "wait" if self._moves(order) else None
        orders = self._core.obey(order.policies, inflight, order.pause or held, now)
        self._order = order
        return orders

    def _moves(self, order: ProxyOrder) -> bool:
        return order.url not in ("", self._url)

    def _fault_of(self, order: ProxyOrder) -> str:
        """Why an order cannot be obeyed; empty where it can."""
        if not self._moves(order):
            return ""
        try:
            found = origin(PolicyConfig(order.url, "any").url)
        except ConfigError as error:
            return str(error)
        if found not in self._service.origins:
            return f"url is of {found}: this service may only call {', '.join(self._service.origins)}"
        return ""

    def _finish_order(self, now: float) -> list[Order]:
        """Change the server, where that is ordered, once nothing is in the air; only then is the order carried out."""
        order, orders = self._order, list[Order]()
        if order is None:
            return orders
        if self._moves(order):
            if self._core.admission.slots:
                return orders
            inflight = self._inflight(order.max_inflight)
            pool = self._open_pool(order.url, inflight, self._bell)
            self._pool.close()
            self._core.move()
            self._pool, self._url, self._with_ids = pool, order.url, True
            self._ids_refused.clear()
            log.info("calls go to %s from now on", order.url)
            orders = self._core.obey(order.policies, inflight, order.pause, now)
        self._done = order.number
        return orders

    def _inflight(self, asked: int | None) -> int:
        """Attempts in the air at most: a desktop has one call at a time, so more would never be used."""
        most = self._service.most_desktops
        return min(asked or most, most)

    def _take_ask(self, ask: CallAsk, received: Received, now: float) -> Iterator[Order]:
        # Checked before anything is changed, so that a refused ask has done nothing.
        check_ask(ask)
        parts = check_parts(ask.blobs, received.blobs)
        call, orders = self._core.ask(ask, received.peer, now)
        yield from orders
        if call is None:
            return
        rollout = ask.call.rollout
        if call.ask is ask:
            self._ids_refused.discard(rollout)
            self._fragments.hold(rollout, ask.messages)
        if call.state is State.GATHERING:
            self._fragments.feed(rollout, parts)
            missing = self._fragments.missing(rollout)
            if missing:
                self._calls.send(received.peer, CallNeeds(call=call.id, hashes=missing))
                return
            yield from self._core.gathered(call, now)
        if call.answer is None:
            self._calls.send(received.peer, self._core.pending(call, now))
        elif call.ask is not ask:
            self._calls.send(received.peer, call.answer)

    def _take_end(self, ended: Ended, now: float) -> list[Order]:
        job, result = ended.job, ended.result
        rollout = job.call.rollout
        if isinstance(result, Completed):
            if self._with_ids and IDS_KEY not in job.params:
                self._with_ids = False
                log.warning("the server refuses %s: from now on it is not asked for", IDS_KEY)
            return self._core.completed(job.token, result, now)
        if result.action is Action.WITHOUT_IDS:
            if rollout in self._core.calls:
                self._ids_refused.add(rollout)
        elif result.action is not Action.CANCELLED:
            log.warning("%s step %d: %s: %s", rollout, job.call.step, result.action.value, result.message)
        return self._core.ended(job.token, result, now)

    def _do(self, order: Order) -> None:
        match order:
            case Start(call=call, token=token):
                self._pool.start(self._job(call, token))
            case Abort(token=token):
                self._pool.abort(token)
            case Tell(call=call):
                self._fragments.unpin(call.id.rollout)
                if call.answer is not None:
                    self._calls.send(call.peer, call.answer)
            case Forget(rollout=rollout):
                self._fragments.forget(rollout)
                self._ids_refused.discard(rollout)
            case Probe():
                self._pool.probe()

    def _job(self, call: Call, token: int) -> Job:
        name = self._core.name_of(call)
        assert name is not None, "a call is admitted once its policy is known"
        params = {**call.ask.params, "model": name.model}
        if not self._with_ids or call.id.rollout in self._ids_refused:
            params.pop(IDS_KEY, None)
        prompt = self._fragments.prompt(call.id.rollout)
        return Job(token, call.id, params, prompt, call.before, name.version, self._core.policies[call.run].step_timeout)

    def _send_beat(self) -> None:
        now = self._clock.monotonic()
        server = self._core.server
        beat = ProxyBeat(
            boot=self._boot,
            state=server.standing,
            queued=self._core.admission.waiting(),
            running=len(self._core.admission.slots),
            down_s=server.down_s(now),
            message=self._fault or server.message,
            gave_up=server.gave_up(now),
            order=self._done,
            without_model=self._core.without_model(),
        )
        last = self._beat
        changed = last is None or _told(beat) != _told(last)
        if last is not None and beat.state != last.state:
            log.warning("the policy is %s: %s", beat.state, beat.message or "it answers")
        if changed or now - self._beat_at >= BEAT_S:
            self._orders.send(beat)
            self._beat, self._beat_at = beat, now


def _told(beat: ProxyBeat) -> tuple[object, ...]:
    """What is told at once when it changes. That nothing is in the air any more is what a pause is waited for."""
    still = beat.state == "paused" and beat.running == 0
    return beat.state, beat.gave_up, beat.order, beat.message, beat.without_model, still
