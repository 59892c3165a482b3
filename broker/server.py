"""How does the broker meet the others? SHELL: polls its sockets, feeds the core, sends its orders. Holds no rule."""

from __future__ import annotations

import logging

from legato_rl.broker.core import Core
from legato_rl.clock import Clock, iso
from legato_rl.records import Draft, Outcome, PolicyStamp, RolloutError, RolloutKey, dump
from legato_rl.role import Quit
from legato_rl.rundir import RunFile
from legato_rl.sockets import Client, Received, Server, wait
from legato_rl.wire import (
    Beat,
    DesktopEventStored,
    DesktopOut,
    Feed,
    FeedAsk,
    Order,
    ProxyBeat,
    ProxyOrder,
    PutDesktopEvent,
    PutRow,
    Refused,
    RowStored,
    RunStatus,
    StatusAsk,
    StopAsk,
)

log = logging.getLogger("legato_rl.broker")

TICK_S = 0.25
ASK_AGAIN_S = 1.0
"""Seconds after which an exchange with the sink is asked again."""
LOST_ERROR = RolloutError(kind="env", phase="unknown", type="worker_lost", message="the worker's process ended or fell silent")


class BrokerServer:
    """The broker's loop over `orders`, `control` and its connection to the sink's `rows`."""

    def __init__(self, core: Core, run: RunFile, orders: Server, control: Server, rows: Client, clock: Clock) -> None:
        self._core = core
        self._run = run
        self._orders = orders
        self._control = control
        self._rows = rows
        self._clock = clock
        self._peers: dict[str, bytes] = {}
        self._asked_at = -ASK_AGAIN_S
        self._events: dict[str, PutDesktopEvent] = {}
        self._tasks = {task.group_id: task for task in core.tasks}
        self.faults = 0

    def run(self, quit_: Quit) -> None:
        """Serve until asked to end."""
        while not quit_.asked:
            wait([self._orders, self._control, self._rows, quit_.bell], TICK_S)
            self.step()

    def step(self) -> None:
        """Take in what is here, then do what time asks for."""
        for socket in (self._rows, self._orders, self._control):
            for received in socket.receive():
                self._dispatch(socket, received)
        now = self._clock.monotonic()
        self._core.tick(now)
        self._take_changes()
        if now - self._asked_at >= ASK_AGAIN_S:
            self._ask_sink(now)

    def _dispatch(self, socket: Server | Client, received: Received) -> None:
        # The one place where a fault of a peer, or of a table, is caught: logged, counted, and nothing goes down.
        try:
            self._handle(received)
        except Exception as error:
            self.faults += 1
            log.exception("could not take in a %s", type(received.message).__name__)
            if isinstance(socket, Server):
                refused = Refused(about=received.message.kind.decode(), of=received.message.ident(), reason=str(error))
                socket.send(received.peer, refused)

    def _handle(self, received: Received) -> None:
        now = self._clock.monotonic()
        match received.message:
            case Beat() as beat:
                self._orders.send(received.peer, self._core.beat(beat, now))
                if self._core.roster.workers[beat.worker].beat.boot == beat.boot:
                    self._peers[beat.worker] = received.peer
            case ProxyBeat() as beat:
                self._core.heard_proxy(beat, now)
                self._orders.send(received.peer, ProxyOrder(boot=beat.boot))
            case Feed() as feed:
                self._take_feed(feed, now)
            case RowStored():
                # The feed tells it too, and in order; asking at once saves the wait.
                self._rows.send(FeedAsk(after=self._core.feed_last))
            case DesktopEventStored(id=id_):
                self._events.pop(id_, None)
            case StatusAsk(id=id_):
                self._control.send(received.peer, self._status(id_))
            case StopAsk(id=id_, reason=reason):
                self._core.stop(reason, now)
                self._control.send(received.peer, self._status(id_))
            case DesktopOut(id=id_, desktop=desktop, reason=reason):
                self._core.lost_desktop(desktop, reason)
                self._control.send(received.peer, self._status(id_))
            case Refused(about=about, reason=reason):
                log.error("a %s was refused: %s", about, reason)
            case other:
                raise ValueError(f"the broker takes no {type(other).__name__}")

    def _take_feed(self, feed: Feed, now: float) -> None:
        before = self._core.feed_last
        for order in self._core.feed(feed, now):
            self._push(order)
        if self._core.feed_last < feed.last:
            self._rows.send(FeedAsk(after=self._core.feed_last))
        elif self._core.feed_last > before:
            self._send_owed()

    def _push(self, order: Order) -> None:
        for worker in self._core.roster.workers.values():
            if worker.beat.boot == order.boot and worker.name in self._peers:
                self._orders.send(self._peers[worker.name], order)

    def _ask_sink(self, now: float) -> None:
        self._asked_at = now
        self._rows.send(FeedAsk(after=self._core.feed_last))
        self._send_owed()
        for event in self._events.values():
            self._rows.send(event)

    def _send_owed(self) -> None:
        for key, outcome in self._core.owed(self._clock.monotonic()):
            self._rows.send(PutRow(row=dump(self._draft(key, outcome))))

    def _draft(self, key: RolloutKey, outcome: Outcome) -> Draft:
        task = self._tasks[key.group]
        policy = self._run.settings.policy
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
            desktop=self._core.roster.holders.get(key) if lost else None,
            meta=task.meta,
            outcome=outcome,
            error=LOST_ERROR if lost else None,
            ended_at=iso(self._clock.wall()),
        )

    def _take_changes(self) -> None:
        for change in self._core.changes:
            log.warning("%s is %s: %s", change.desktop, change.event, change.reason)
            at = iso(self._clock.wall())
            event = PutDesktopEvent(
                id=f"{change.desktop}/{at}/{len(self._events)}",
                desktop=change.desktop,
                event="out" if change.event == "out" else "rebuilt",
                at=at,
                reason=change.reason,
            )
            self._events[event.id] = event
            self._rows.send(event)
        self._core.changes.clear()

    def _status(self, id_: str) -> RunStatus:
        core = self._core
        proxy = core.proxy
        ended = sum(attempt.state.value == "ended" for group in core.groups.groups.values() for attempt in group.attempts)
        return RunStatus(
            id=id_,
            state=core.state,
            reason=core.reason,
            groups=core.group_counts(),
            rows=dict(core.rows),
            attempts_total=sum(len(group.attempts) for group in core.groups.groups.values()),
            attempts_ended=ended,
            desktops=core.desktop_counts(),
            policy=proxy.state if proxy else "unknown",
            policy_message=proxy.message if proxy else "",
            sink_message=core.sink_trouble,
            queued=proxy.queued if proxy else 0,
            running=proxy.running if proxy else 0,
        )
