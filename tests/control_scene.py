"""What surrounds the broker's control in tests? A service on disk, without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driven_clock import DrivenClock

from legato_rl.broker.control import Control
from legato_rl.broker.core import Core
from legato_rl.broker.main import make_core
from legato_rl.broker.told import Told
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.frames import Message
from legato_rl.records import FeedRow
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import (
    Beat,
    Feed,
    Holding,
    Order,
    ProxyBeat,
    RunWithoutModel,
    Submit,
    Submitted,
)

URL = "http://127.0.0.1:8000/v1"


def service(root: Path) -> ServiceFile:
    """A service of two working desktops, and processes for three."""
    return ServiceFile(
        created_at="2030-01-01T00:00:00Z",
        legato_rl="0",
        python="3",
        settings=Settings(
            policy=PolicyConfig(URL, "m", version="v1"), desktop=DesktopConfig(backend="fake"), desktops=2, group=2
        ),
        most_desktops=3,
        origins=["http://127.0.0.1:8000", "http://127.0.0.1:9000"],
        sockets=root,
        control=f"ipc://{root}/control",
        engine={},
    )


class Service:
    """A broker's control without its sockets; `again` is a broker that starts after this one died."""

    def __init__(self, root: Path, restarted: bool = False) -> None:
        self.root = root
        made, folder, told = service(root), ServiceDir(root), Told.load(ServiceDir(root).state)
        self.core: Core = make_core(folder, made, told, restarted, 0.0)
        self.control = Control(self.core, folder, made, told, DrivenClock(), number=0)

    def again(self) -> Service:
        """Its successor."""
        return Service(self.root, restarted=True)

    def ask(self, message: Message) -> Any:
        """The answer."""
        return self.control.answer(message)

    def submit(self, id_: str = "s", **fields: Any) -> Submitted:
        """Submit a run of two tasks."""
        tasks = [{"task_id": name, "config": {"id": name, "instruction": "do", "evaluator": {"func": "f"}}} for name in "ab"]
        return self.ask(Submit(**{"id": id_, "tasks": tasks, **fields}))

    def load(self, run: str, *rows: FeedRow) -> None:
        """The sink has told all rows of a run."""
        self.core.feed(Feed(run=run, rows=list(rows), last=len(rows)), 0.0)

    def beat(self, worker: str, holds: Holding | None = None) -> Order:
        """A worker that could take a try beats."""
        empty: dict[str, Any] = {"holds": holds, "stored": None, "built": 1, "build_failures": 0}
        return self.core.beat(Beat(worker=worker, boot="b", ready=holds is None, phase="idle", **empty), 0.0)

    def lacks_model(self, *runs: str, gave_up: bool = False, obeyed: bool = True) -> None:
        """The proxy says whose model the server does not know."""
        lacking = [RunWithoutModel(run=run, message="model 'x': not there", gave_up=gave_up) for run in runs]
        beat = ProxyBeat(boot="p", state="up", queued=1, running=0, down_s=0.0, without_model=lacking)
        self.core.heard_proxy(beat, 0.0, obeyed)

    def proxy(self, state: Any = "up", running: int = 0) -> None:
        """The proxy has carried the last order out, and says so."""
        order = self.control.proxy_order("p").number
        self.core.heard_proxy(ProxyBeat(boot="p", state=state, queued=0, running=running, down_s=0.0, order=order), 0.0)
