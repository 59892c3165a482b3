"""How many bytes go between the processes? A relay on every connection that counts and forwards; the product sees none.

Each role is started on a view of the run folder with a socket folder of its own; what it would connect to is bound
there by the relay, which connects to the folder of the role that serves it. A client keeps a connection of its own on
the far side, so the server knows its clients apart.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from legato_rl.endpoints import address
from legato_rl.rundir import RunDir, RunFile, TaskSpec

SERVES = {"orders": "broker", "policy": "proxy", "rows": "sink"}
"""Which role binds an endpoint."""
CONNECTS = {"worker": ("orders", "policy", "rows"), "broker": ("rows",), "proxy": ("orders",), "sink": ()}
"""Which endpoints a role connects to."""

OnMessage = Callable[[str, list[bytes]], None]
"""`on_message(connection, frames)`, before a message goes on; `connection` as in `worker > sink`."""


def make_views(folder: Path, run: RunFile, tasks: list[TaskSpec]) -> dict[str, RunDir]:
    """A run folder for each role, all of the same run; the sink's is the one that is written to."""
    views = {}
    for role in CONNECTS:
        view = views[role] = RunDir(folder / role)
        sockets = folder / role[0]
        for path in (view.root, sockets, view.images, view.messages):
            path.mkdir(mode=0o700)
        view.write_tasks(tasks)
        view.write_run(run.model_copy(update={"sockets": sockets}))
    return views


@dataclass
class _Line:
    """One endpoint as one role reaches it."""

    there: str
    back: str
    front: zmq.Socket[bytes]
    server: str


class Relay(threading.Thread):
    """Forwards until `close`. `moved` counts bytes by connection, frames less zmq's own headers."""

    def __init__(self, views: dict[str, RunDir], on_message: OnMessage) -> None:
        super().__init__(name="relay", daemon=True)
        self.moved: Counter[str] = Counter()
        self._on_message = on_message
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._closing = False
        self._lines: dict[Any, _Line] = {}
        self._peers: dict[Any, tuple[_Line, bytes]] = {}
        self._far: dict[tuple[str, bytes], Any] = {}
        folders = {role: view.load_run().sockets for role, view in views.items()}
        for role, endpoints in CONNECTS.items():
            for endpoint in endpoints:
                server = SERVES[endpoint]
                front = self._context.socket(zmq.ROUTER)
                front.bind(address(folders[role], endpoint))
                self._poller.register(front, zmq.POLLIN)
                there, back = f"{role} > {server}", f"{server} > {role}"
                self._lines[front] = _Line(there, back, front, address(folders[server], endpoint))

    def run(self) -> None:
        while not self._closing:
            for source, _ in self._poller.poll(200):
                if source in self._lines:
                    self._forward(self._lines[source], *source.recv_multipart())
                else:
                    line, peer = self._peers[source]
                    frames = source.recv_multipart()
                    self._on_message(line.back, frames)
                    self.moved[line.back] += sum(map(len, frames))
                    line.front.send_multipart([peer, *frames])

    def _forward(self, line: _Line, peer: bytes, *frames: bytes) -> None:
        self._on_message(line.there, list(frames))
        self.moved[line.there] += sum(map(len, frames))
        far = self._far.get((line.there, peer))
        if far is None:
            far = self._far[line.there, peer] = self._context.socket(zmq.DEALER)
            far.connect(line.server)
            self._peers[far] = (line, peer)
            self._poller.register(far, zmq.POLLIN)
        far.send_multipart(frames)

    def close(self) -> None:
        """End the thread and its sockets."""
        self._closing = True
        self.join()
        self._context.destroy(linger=0)
