"""How does the broker meet the others? SHELL: polls its sockets, feeds the core, sends its orders. Holds no rule."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from legato_rl.broker.again import StillReading
from legato_rl.broker.closing import Closing
from legato_rl.broker.control import Control
from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.told import NotSaved
from legato_rl.clock import Clock, iso
from legato_rl.errors import LegatoError
from legato_rl.faults import Faults
from legato_rl.records import Draft, Outcome, PolicyStamp, RolloutError, RolloutKey, dump
from legato_rl.role import Quit
from legato_rl.service import SHUTDOWN
from legato_rl.sockets import Client, Received, Server, wait
from legato_rl.wire import (
    Beat,
    DesktopEventStored,
    EventsAsk,
    Feed,
    FeedAsk,
    Leave,
    Message,
    Order,
    ProxyBeat,
    PutDesktopEvent,
    PutRow,
    Refused,
    RowStored,
    RunClosed,
)

log = logging.getLogger("legato_rl.broker")

TICK_S = 0.25
ASK_AGAIN_S = 1.0
"""Seconds after which an exchange with the sink is asked again."""
LEAVE_S = 5.0
"""Seconds in which a service that ends tells everybody to leave, before the broker leaves itself."""
MOST_WAITING = 256
"""Asks for events that wait; beyond, the oldest is answered with what there is."""
LOST_ERROR = RolloutError(kind="env", phase="unknown", type="worker_lost", message="the worker's process ended or fell silent")


@dataclass
class BrokerServer:
    """The broker's loop over `orders`, `control` and its connection to the sink's `rows`."""

    core: Core
    control_desk: Control
    closing: Closing
    orders: Server
    control: Server
    rows: Client
    clock: Clock
    faults: Faults = field(default_factory=Faults)
    _peers: dict[str, bytes] = field(default_factory=dict)
    _proxy: tuple[bytes, str] | None = None
    """Who the proxy is, and its boot."""
    _told_proxy: int = -1
    _asked_at: float = -ASK_AGAIN_S
    _events: dict[tuple[str, str], PutDesktopEvent] = field(default_factory=dict)
    _waiting: dict[tuple[bytes, str], tuple[EventsAsk, float]] = field(default_factory=dict)
    """Asks for events that are not there yet, by peer and run, and until when they wait."""
    _leave_at: float | None = None

    def run(self, quit_: Quit) -> None:
        """Serve until asked to end, or until the service has ended."""
        while not quit_.asked and not self._left():
            wait([self.orders, self.control, self.rows, quit_.bell], TICK_S)
            self.step()

    def step(self) -> None:
        """Take in what is here, then do what time asks for."""
        for socket in (self.rows, self.orders, self.control):
            for received in socket.receive():
                self._dispatch(socket, received)
        now = self.clock.monotonic()
        self.core.tick(now)
        self._take_changes()
        self._tell_proxy()
        self._tell_waiting(now)
        if now - self._asked_at >= ASK_AGAIN_S:
            self._ask_sink(now)

    def _dispatch(self, socket: Server | Client, received: Received) -> None:
        # The one place where a fault of a peer, or of a table, is caught: logged, counted, and nothing goes down.
        message = received.message
        try:
            self._handle(received, socket)
        except Exception as error:
            if socket is not self.control or not isinstance(error, LegatoError | ValueError):
                name = type(message).__name__
                if count := self.faults.note(f"{name}: {type(error).__name__}"):
                    log.exception("could not take in a %s (the %d. time)", name, count)
            if isinstance(socket, Server):
                of = message.ident() or str(getattr(message, "id", ""))
                about, again = message.kind.decode(), isinstance(error, StillReading | NotSaved)
                socket.send(received.peer, Refused(about=about, of=of[:200], reason=str(error)[:2000], again=again))

    def _handle(self, received: Received, socket: Server | Client) -> None:
        # What a message says holds from whom it may come alone: rows are the sink's word, and no worker's.
        now = self.clock.monotonic()
        match received.message:
            case EventsAsk() as ask if socket is self.control:
                self._take_events_ask(ask, received.peer, now)
            case ask if socket is self.control:
                self.control.send(received.peer, self.control_desk.answer(ask))
            case answer if socket is self.rows:
                self._take_answer(answer, now)
            case Beat() as beat:
                self.orders.send(received.peer, self.core.beat(beat, now))
                if self.core.roster.workers[beat.worker].beat.boot == beat.boot:
                    self._peers[beat.worker] = received.peer
            case ProxyBeat() as beat:
                self._proxy = received.peer, beat.boot
                self.core.heard_proxy(beat, now, obeyed=beat.order == self.control_desk.proxy_order("").number)
                self.orders.send(received.peer, self.control_desk.proxy_order(beat.boot))
            case other:
                raise TypeError(f"the broker takes no {type(other).__name__} from a worker or the proxy")

    # --- the sink ----------------------------------------------------------------------------------------------------

    def _take_answer(self, answer: Message, now: float) -> None:
        match answer:
            case Feed() as feed:
                self._take_feed(feed, now)
            case RowStored(row=row):
                # The feed tells it too, and in order; asking at once saves the wait.
                self._ask_feed(row.key.run)
            case DesktopEventStored(run=run, id=id_):
                self._events.pop((run, id_), None)
                self._ask_feed(run)
            case RunClosed(run=run_id):
                self.closing.done(run_id)
            case Refused() as refused:
                self._take_refusal(refused)
            case other:
                raise TypeError(f"the broker takes no {type(other).__name__} from the sink")

    def _take_feed(self, feed: Feed, now: float) -> None:
        run = self.core.runs.get(feed.run)
        if run is None:
            return
        before = run.feed_last, run.events_last
        for order in self.core.feed(feed, now):
            self._push(order)
        if run.feed_last < feed.last or run.events_last < feed.events_last:
            if (run.feed_last, run.events_last) != before or not feed.rows:
                self._ask_feed(feed.run)
        elif run.feed_last > before[0]:
            self._send_owed()

    def _ask_feed(self, run_id: str) -> None:
        run = self.core.runs.get(run_id)
        if run is not None and run_id not in self.core.closed:
            self.rows.send(FeedAsk(run=run_id, after=run.feed_last, events_after=run.events_last))

    def _ask_sink(self, now: float) -> None:
        self._asked_at = now
        workers = self.core.roster.workers
        # The next broker would begin with a desktop that is back as out, and whoever looks meanwhile is told why.
        if self.control_desk.unsaved or any(workers[name].out is None for name in self.control_desk.told.out):
            self.control_desk.save()
        for run in self._open_runs():
            self._ask_feed(run.run_id)
        self._send_owed()
        for event in self._events.values():
            self.rows.send(event)
        for close in self.closing.due():
            self.rows.send(close)
        self.closing.summaries.step()

    def _take_refusal(self, refused: Refused) -> None:
        run = self.core.runs.get(refused.of) if refused.about == "FeedAsk" else None
        if run is not None and run.trouble == refused.reason:
            return
        if count := self.faults.note("Refused"):
            level = logging.WARNING if refused.again else logging.ERROR
            log.log(level, "a %s was refused: %s (the %d. refusal)", refused.about, refused.reason, count)
        if run is not None:
            run.trouble = refused.reason
        if refused.about == "PutDesktopEvent" and not refused.again:
            for name in [name for name in self._events if name[1] == refused.of]:
                del self._events[name]

    def _open_runs(self) -> list[Run]:
        """The runs whose folder is not closed."""
        return [run for run_id, run in self.core.runs.items() if run_id not in self.core.closed]

    def _send_owed(self) -> None:
        for key, outcome in self.core.owed(self.clock.monotonic()):
            self.rows.send(PutRow(row=dump(self._draft(self.core.runs[key.run], key, outcome))))

    def _draft(self, run: Run, key: RolloutKey, outcome: Outcome) -> Draft:
        task, policy = run.by_group[key.group], self.core.policies.current(key.run)
        lost = outcome is Outcome.WORKER_LOST
        return Draft(
            run_id=key.run,
            rollout_id=key.rollout_id,
            task_id=task.task_id,
            domain=task.domain,
            group_id=key.group,
            attempt=key.attempt,
            try_=key.try_,
            policy=PolicyStamp(model=policy.model, version=policy.version, versions=[]),
            desktop=self.core.roster.holders.get(key) if lost else None,
            meta=task.meta,
            outcome=outcome,
            cancel_reason=None if lost else run.groups.stop_of(key),
            error=LOST_ERROR if lost else None,
            ended_at=iso(self.clock.wall()),
        )

    # --- workers, the proxy, trainers --------------------------------------------------------------------------------

    def _push(self, order: Order) -> None:
        for worker in self.core.roster.workers.values():
            if worker.beat.boot == order.boot and worker.name in self._peers:
                self.orders.send(self._peers[worker.name], order)

    def _take_changes(self) -> None:
        for change in self.core.changes:
            log.warning("%s is %s: %s", change.desktop, change.event, change.reason)
            at = iso(self.clock.wall())
            if change.event == "out":
                self.control_desk.save()
            for run in self._open_runs():
                event = PutDesktopEvent(
                    run=run.run_id,
                    id=f"{change.desktop}/{at}/{len(self._events)}",
                    desktop=change.desktop,
                    event="out" if change.event == "out" else "rebuilt",
                    at=at,
                    reason=change.reason,
                )
                self._events[run.run_id, event.id] = event
                self.rows.send(event)
        self.core.changes.clear()

    def _tell_proxy(self) -> None:
        """A changed order leaves at once; the answers to its beats repeat it."""
        if self._proxy is None:
            return
        peer, boot = self._proxy
        order = self.control_desk.proxy_order(boot)
        if order.number != self._told_proxy:
            self._told_proxy = order.number
            self.orders.send(peer, order)

    def _take_events_ask(self, ask: EventsAsk, peer: bytes, now: float) -> None:
        answer = self.control_desk.events(ask)
        if answer.events or ask.wait_s == 0:
            self.control.send(peer, answer)
            return
        ask = ask.model_copy(update={"run": answer.run})
        waiting = self._waiting.pop((peer, answer.run), None)
        until = waiting[1] if waiting is not None and waiting[0].id == ask.id else now + ask.wait_s
        self._waiting[peer, answer.run] = ask, until
        if len(self._waiting) > MOST_WAITING:
            (oldest, _), (old, _) = next(iter(self._waiting.items()))
            self.control.send(oldest, self.control_desk.events(old))
            del self._waiting[next(iter(self._waiting))]

    def _tell_waiting(self, now: float) -> None:
        for (peer, run_id), (ask, until) in list(self._waiting.items()):
            run = self.core.runs.get(run_id)
            if run is None or len(run.happenings.events) > ask.after or now >= until:
                del self._waiting[peer, run_id]
                if run is not None:
                    self.control.send(peer, self.control_desk.events(ask))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _left(self) -> bool:
        """Whether the service was shut down, and all was told so."""
        if not self.control_desk.told.leaving or not self.closing.all_done:
            return False
        now = self.clock.monotonic()
        if self._leave_at is None:
            self._leave_at = now + LEAVE_S
            self.core.leaving = True
        if now < self._leave_at:
            return False
        self.rows.send(Leave(reason=SHUTDOWN))
        self.control_desk.told.leaving = False
        self.control_desk.save()
        return True
