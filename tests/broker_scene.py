"""What surrounds the broker in tests? The real shell on real sockets, its workers, its clients and its sink scripted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from legato_rl.broker.closing import Closing
from legato_rl.broker.control import Control
from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.server import BrokerServer
from legato_rl.broker.told import Told
from legato_rl.clock import SYSTEM_CLOCK, SystemClock
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.records import GRADED_OUTCOMES, Draft, FeedRow, Outcome, RolloutKey
from legato_rl.rundir import RunFile, TaskSpec
from legato_rl.service import ServiceDir, of_run
from legato_rl.sockets import Client, Context, Server, wait
from legato_rl.status import decide
from legato_rl.wire import (
    Beat,
    DesktopEventStored,
    Feed,
    FeedAsk,
    Holding,
    Message,
    Order,
    PolicyName,
    PutDesktopEvent,
    PutRow,
    RowStored,
    RunStatus,
    StatusAsk,
)

PATIENCE_S = 60.0
RUN = "r1"
M = TypeVar("M", bound=Message)


class Shifted(SystemClock):
    """The machine's clock, `ahead` seconds ahead: a test lets time pass by setting it."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@dataclass
class Sink:
    """A sink that keeps its rows in a list. `mute`: takes everything in and answers nothing."""

    socket: Server
    settings: Settings
    rows: list[FeedRow] = field(default_factory=list)
    puts: list[dict[str, Any]] = field(default_factory=list)
    """Every row that the broker sent, repeats too."""
    events: list[PutDesktopEvent] = field(default_factory=list)
    mute: bool = False
    _broker: bytes = b""

    def turn(self) -> None:
        """Answer what is here."""
        for received in self.socket.receive():
            self._broker = received.peer
            answer = self._answer(received.message)
            if not self.mute:
                self.socket.send(received.peer, answer)

    def _answer(self, message: Message) -> Message:
        match message:
            case FeedAsk(after=after):
                return Feed(run=RUN, rows=self.rows[after:], last=len(self.rows))
            case PutDesktopEvent(id=id_) as event:
                self.events.append(event)
                return DesktopEventStored(run=RUN, id=id_)
            case PutRow(row=row):
                self.puts.append(row)
                draft = Draft.model_validate(row)
                held = [stored for stored in self.rows if stored.key == draft.key]
                if self.mute:
                    return Feed(run=RUN, rows=[], last=0)
                return RowStored(row=held[0] if held else self.append(draft.key, draft.outcome), duplicate=bool(held))
        raise AssertionError(f"the sink takes no {type(message).__name__}")

    def append(self, key: RolloutKey, outcome: Outcome, reward: float | None = None) -> FeedRow:
        """Store a row, as the design's table has it."""
        graded = sum(row.key.group == key.group and row.outcome in GRADED_OUTCOMES for row in self.rows)
        status = decide(outcome, key.try_, graded, self.settings.closing, self.settings.env_retries)
        self.rows.append(FeedRow(n=len(self.rows) + 1, key=key, outcome=outcome, status=status, reward=reward))
        return self.rows[-1]

    def push(self) -> None:
        """Tell the broker its last row at once, as a sink does."""
        self.socket.send(self._broker, Feed(run=RUN, rows=self.rows[-1:], last=len(self.rows)))


class Scene:
    """A broker of a run with `groups` tasks, played turn by turn in this thread."""

    def __init__(self, context: Context, sockets: Path, groups: int, settings: dict[str, Any]) -> None:
        self._context, self._sockets = context, sockets
        self.clock = Shifted()
        made = {"group": 2, "desktops": 2, **settings}
        self.settings = Settings(policy=PolicyConfig("fake", "m"), desktop=DesktopConfig(backend="fake"), **made)
        names = [f"g{i}" for i in range(groups)]
        self.tasks = [TaskSpec(task_id=n, group_id=n, domain=None, config={"id": n}, max_steps=5) for n in names]
        self.sink = Sink(context.server("rows", address(sockets, "rows")), self.settings)
        self.control = context.client("control", address(sockets, "control"))
        self._workers: dict[str, Client] = {}
        self._sockets_of_broker: list[Any] = []
        self.start(restarted=False)

    def start(self, restarted: bool) -> None:
        """A broker process begins; the one before is gone with everything that it knew."""
        for socket in self._sockets_of_broker:
            socket.close()
        orders = self._context.server("orders", address(self._sockets, "orders"))
        control = self._context.server("control", address(self._sockets, "control"))
        rows = self._context.client("rows", address(self._sockets, "rows"))
        self._sockets_of_broker = [orders, control, rows]
        file = RunFile(
            run_id=RUN,
            created_at="2030-01-01T00:00:00Z",
            today="2030-01-01",
            legato_rl="0",
            python="3",
            settings=self.settings,
            sockets=self._sockets,
            engine={},
        )
        root, service, told = ServiceDir(self._sockets), of_run(file), Told()
        name = PolicyName(model=self.settings.policy.model, version=self.settings.policy.version)
        self.core = Core(self.settings.desktops, self.settings.boots_at_once, name, True, restarted, self.clock.monotonic())
        self.run = Run(RUN, self.settings, self.tasks)
        self.core.begin(self.run)
        desk = Control(self.core, root, service, told, self.clock, number=0)
        closing = Closing(self.core, root, service, told, self.clock)
        self.broker = BrokerServer(self.core, desk, closing, orders, control, rows, self.clock)

    def turn(self) -> None:
        """Everybody takes in what is there."""
        wait([*self._sockets_of_broker, self.sink.socket], 0.02)
        self.broker.step()
        self.sink.turn()

    def until(self, met: Callable[[], Any], what: str) -> None:
        """Take turns until a condition is met."""
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while not met():
            assert SYSTEM_CLOCK.monotonic() < deadline, f"{what} did not come"
            self.turn()

    def loaded(self) -> None:
        """Wait until the broker knows all rows of the sink."""
        self.until(lambda: self.run.loaded and self.run.feed_last == len(self.sink.rows), "the feed")

    def client(self, worker: str) -> Client:
        """A worker's connection."""
        if worker not in self._workers:
            self._workers[worker] = self._context.client("orders", address(self._sockets, "orders"))
        return self._workers[worker]

    def beat(self, worker: str = "w0", **changes: Any) -> Order:
        """Send a beat; the order that answers it (orders sent before are passed over)."""
        client = self.client(worker)
        list(client.receive())
        client.send(beat(worker, **changes))
        return self.hear(client, Order)

    def hear(self, client: Client, kind: type[M]) -> M:
        """The next message of this kind."""
        heard: list[M] = []

        def listen() -> bool:
            heard.extend(r.message for r in client.receive() if isinstance(r.message, kind))
            return bool(heard)

        self.until(listen, kind.__name__)
        return heard[-1]

    def ask(self, message: Message, kind: type[M]) -> M:
        """Ask the broker on its control socket."""
        self.control.send(message)
        return self.hear(self.control, kind)

    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.ask(StatusAsk(id="s"), RunStatus)


def key(attempt: int = 0, try_: int = 0, group: str = "g0") -> RolloutKey:
    """A key of this run."""
    return RolloutKey(run=RUN, group=group, attempt=attempt, try_=try_)


def holding(held: RolloutKey, past_actions: bool = False) -> Holding:
    """What a worker says that it holds."""
    return Holding(key=held, lease=1, phase="act", step=1, past_actions=past_actions)


def beat(worker: str = "w0", **changes: Any) -> Beat:
    """An idle worker's beat; `changes` are laid over it."""
    idle = {"ready": "holds" not in changes, "phase": "idle", "holds": None, "stored": None, "built": 1, "build_failures": 0}
    return Beat(**{"worker": worker, "boot": f"{worker}-boot", **idle, **changes})


@contextmanager
def scene(groups: int = 1, **settings: Any) -> Iterator[Scene]:
    """A run of `groups` groups of two attempts on two desktops, unless `settings` say otherwise."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        yield Scene(context, Path(sockets), groups, settings)
