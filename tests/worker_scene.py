"""What surrounds a worker in tests? Its two threads, on real sockets, between a scripted desktop, broker, proxy and sink."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from scripted_desktop import SIZE, Gate, WordAgent

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.records import FeedRow, ModelUse, Outcome, RolloutKey, Status, StepResponse
from legato_rl.role import Quit
from legato_rl.rundir import RunFile
from legato_rl.sockets import Context, Received, Server, wait
from legato_rl.wire import (
    Assignment,
    Beat,
    BlobsStored,
    CallAsk,
    CallCancel,
    CallGone,
    CallReply,
    Message,
    Order,
    PutBlobs,
    PutRow,
    Refused,
    RowStored,
)
from legato_rl.workers.link import Dropped, Link, Stopped
from legato_rl.workers.policy import PolicyLine
from legato_rl.workers.rows import RowLine
from legato_rl.workers.worker import Worker

PATIENCE_S = 60.0
"""Seconds after which a test gives up waiting for what must come."""
KEY = RolloutKey(run="r1", group="g1", attempt=0, try_=0)
CLICK = """Action: Click.
<tool_call>
<function=computer_use>
<parameter=action>
left_click
</parameter>
<parameter=coordinate>
[500, 300]
</parameter>
</function>
</tool_call>"""
DONE = """Action: Done.
<tool_call>
<function=computer_use>
<parameter=action>
terminate
</parameter>
<parameter=status>
success
</parameter>
</function>
</tool_call>"""


def run_file(sockets: Path, **settings: Any) -> RunFile:
    """`run.json` of a run; `settings` are laid over those of a small one."""
    return RunFile(
        run_id=KEY.run,
        created_at="2030-01-01T00:00:00Z",
        today="Tuesday, January 01, 2030",
        legato_rl="0",
        python="3",
        settings=Settings(
            **{
                "policy": PolicyConfig("fake", "m", version="v1", seed=7),
                "desktop": DesktopConfig(backend="fake", screen_size=SIZE),
                **settings,
            }
        ),
        sockets=sockets,
        engine={},
    )


@dataclass
class Stage:
    """The broker, the proxy and the sink of one worker, played by the test.

    Every beat is answered by `order` (assignments repeat until they are held), blobs are stored, and a cancel is answered;
    the test answers calls and rows.
    """

    orders: Server
    policy: Server
    rows: Server
    link: Link
    assign: Assignment | None = None
    order: Callable[[Beat], dict[str, Any]] = lambda beat: {}
    """Further fields of the answer to a beat."""
    answers_beats: bool = True
    stores_blobs: bool = True
    settings: Settings | None = None
    """What the run of a try asks for."""
    refuses_blobs: str = ""
    """Why the sink will never take a blob; empty where it does."""
    beats: list[Beat] = field(default_factory=list)
    calls: list[Received] = field(default_factory=list)
    cancels: list[CallCancel] = field(default_factory=list)
    drafts: list[Received] = field(default_factory=list)
    agents: list[tuple[Settings, str]] = field(default_factory=list)
    """What each agent was built for."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """What the sink was sent."""
    blob_runs: dict[str, str] = field(default_factory=dict)
    """By hash: the run that a blob was last sent for."""
    _peer: bytes = b""

    def turn(self, seconds: float = 0.05) -> None:
        """Take in what is here, waiting for it a moment."""
        wait([self.orders, self.policy, self.rows], seconds)
        for socket in (self.orders, self.policy, self.rows):
            for received in socket.receive():
                self._take(received)

    def _take(self, received: Received) -> None:
        match received.message:
            case Beat() as beat:
                self.beats.append(beat)
                self._peer = received.peer
                if not self.answers_beats:
                    return
                self.push(assign=self.assign if beat.ready and beat.holds is None else None, **self.order(beat))
            case CallAsk():
                self.calls.append(received)
            case CallCancel(call=call) as cancel:
                self.cancels.append(cancel)
                self.policy.send(received.peer, CallGone(call=call))
            case PutBlobs(run=run, blobs=names):
                self.blob_runs.update((name.sha256, run) for name in names)
                self.blobs.update((name.sha256, bytes(data)) for name, data in zip(names, received.blobs, strict=True))
                if self.refuses_blobs:
                    refused = Refused(about="PutBlobs", of=received.message.ident(), reason=self.refuses_blobs)
                    self.rows.send(received.peer, refused)
                elif self.stores_blobs:
                    self.rows.send(received.peer, BlobsStored(hashes=[name.sha256 for name in names]))
            case PutRow():
                self.drafts.append(received)

    def until(self, met: Callable[[], Any], what: str) -> None:
        """Take turns until a condition is met."""
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while not met():
            assert SYSTEM_CLOCK.monotonic() < deadline, f"{what} did not come"
            self.turn()

    def push(self, **fields: Any) -> None:
        """Send the worker an order of its present process."""
        self.orders.send(self._peer, Order(boot=fields.pop("boot", self.beats[-1].boot), **fields))

    def give(self, key: RolloutKey = KEY, max_steps: int = 5, **fields: Any) -> None:
        """Hand out a try, and wait until it is held."""
        self.assign = self.assignment(key, max_steps, **fields)
        if self.beats and self.beats[-1].ready:
            self.push(assign=self.assign)
        self.until(lambda: self.beats and self.beats[-1].holds and self.beats[-1].holds.key == key, "the held try")
        self.assign = None

    def assignment(self, key: RolloutKey, max_steps: int = 5, **fields: Any) -> Assignment:
        """A try at a task of the group's name; `fields` are laid over those of the scene's run."""
        assert self.settings is not None
        task = {"id": key.group, "instruction": "do it", "evaluator": {"func": "f"}}
        usual = {
            "task_id": key.group,
            "domain": None,
            "task": task,
            "settings": self.settings.model_dump(mode="json"),
            "today": "Tuesday, January 01, 2030",
        }
        return Assignment(key=key, max_steps=max_steps, **(usual | fields))

    def stop(self, **order: Any) -> None:
        """Order an end of the held try, and wait until the worker has heard it."""
        self.push(held=KEY, **order)
        self.until(lambda: ended(self.link), "the stop")

    def call(self) -> tuple[CallAsk, Received]:
        """The next model call; repeats of answered ones are passed over by the caller."""
        self.until(lambda: self.calls, "a model call")
        received = self.calls.pop(0)
        assert isinstance(received.message, CallAsk)
        return received.message, received

    def answer(self, text: str, **use: Any) -> CallAsk:
        """Complete the next model call with `text`; returns what was asked."""
        ask, received = self.call()
        self.policy.send(received.peer, reply(ask, text, **use))
        return ask

    def tell(self, received: Received, message: Message) -> None:
        """Answer a model call otherwise."""
        self.policy.send(received.peer, message)

    def row(self) -> tuple[dict[str, Any], Received]:
        """The next row that the worker sends."""
        self.until(lambda: self.drafts, "a row")
        received = self.drafts.pop(0)
        assert isinstance(received.message, PutRow)
        return received.message.row, received

    def store(self, status: Status = Status.OK, duplicate: bool = False) -> dict[str, Any]:
        """Take the next row as stored; the row."""
        row, received = self.row()
        key = RolloutKey(run=row["run_id"], group=row["group_id"], attempt=row["attempt"], try_=row["try"])
        stood = FeedRow(n=1, key=key, outcome=Outcome(row["outcome"]), status=status, reward=row["reward"])
        self.rows.send(received.peer, RowStored(row=stood, duplicate=duplicate))
        self.until(lambda: self.beats[-1].stored == key, "the beat that tells the stored row")
        return row


def ended(link: Link) -> bool:
    """Whether the held try was told to end."""
    try:
        link.check()
    except (Stopped, Dropped):
        return True
    return False


def reply(
    ask: CallAsk, text: str, *, model: str = "m", version: str = "v1", queued_s: float = 0.0, stood_s: float = 0.0
) -> CallReply:
    """A completion of `ask`, one token a character."""
    ids = list(text.encode())
    return CallReply(
        call=ask.call,
        response=StepResponse(
            content=text, reasoning=None, token_ids=ids, logprobs=[-0.5] * len(ids), tokens=None, finish_reason="stop"
        ),
        params={**ask.params, "model": model},
        body_sha256="0" * 64,
        prompt=None,
        model=ModelUse(
            seconds=0.1,
            queued_s=queued_s,
            attempts=1,
            prompt_tokens=9,
            completion_tokens=len(ids),
            cached_tokens=None,
            version=version,
            server_version=None,
        ),
        stood_s=stood_s,
    )


@contextmanager
def stage(desktop: Any, build_agent: Callable[[], Any] = WordAgent, **settings: Any) -> Iterator[Stage]:
    """A worker on `desktop` (or on what it builds, where it is callable), at work until the block ends."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder, Context() as context:
        sockets, quit_ = Path(folder), Quit()
        resolved = run_file(sockets, **settings).settings
        link = Link("worker-000", "boot-1", resolved.desktop, SYSTEM_CLOCK, quit_)
        servers = (context.server(name, address(sockets, name)) for name in ("orders", "policy", "rows"))
        scene = Stage(*servers, link, settings=resolved)
        policy, rows, orders = (context.client(name, address(sockets, name)) for name in ("policy", "rows", "orders"))
        lines = PolicyLine(policy, link, SYSTEM_CLOCK), RowLine(rows, link, SYSTEM_CLOCK)
        build = desktop if callable(desktop) else lambda: desktop

        def agent(run: Settings, today: str) -> Any:
            scene.agents.append((run, today))
            return build_agent()

        worker = Worker("worker-000", resolved, build, agent, *lines, link, SYSTEM_CLOCK)
        threads = [Thread(target=link.serve, args=(orders,)), Thread(target=worker.run, args=(quit_,))]
        for thread in threads:
            thread.start()
        try:
            yield scene
        finally:
            Gate.open_all()
            quit_.ask()
            deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
            while threads[1].is_alive() and SYSTEM_CLOCK.monotonic() < deadline:
                scene.turn(0.01)
            link.quit()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert not any(thread.is_alive() for thread in threads)
