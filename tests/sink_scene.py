"""What the sink's in-process tests share: a sink in this thread, over real sockets and a real folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driven_clock import DrivenClock
from sink_client import Asker
from sink_rows import make_run, make_service

from legato_rl.beside import AT_ONCE_BYTES
from legato_rl.broker.sink.runs import Runs
from legato_rl.broker.sink.server import Sink
from legato_rl.endpoints import address
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context, Server


class House:
    """A service's root, or a run folder, with a sink in this thread, and clients of it."""

    def __init__(self, root: Path) -> None:
        self.root = ServiceDir(root)
        self.service = self.root.load()
        self.clock = DrivenClock()
        self.context = Context()
        self.server: Server = self.context.server("rows", address(self.service.sockets, "rows"))
        self.askers: list[Asker] = []
        self.start()

    @property
    def run(self) -> RunDir:
        """The folder, where the sink is of a single run."""
        return self.root.run(self.service.once, self.service)

    def start(self, at_once: int = AT_ONCE_BYTES) -> None:
        """Another sink over the same folder, as a new process would make it; `at_once` is its runs'."""
        self.runs = Runs(self.root, self.service, self.clock, at_once)
        self.sink = Sink(self.runs, self.server)

    def restart(self, at_once: int = AT_ONCE_BYTES) -> None:
        """The sink's process ends and comes again."""
        self.runs.close()
        self.start(at_once)

    def asker(self) -> Asker:
        """A new client."""
        self.askers.append(Asker(self.context, self.service.sockets, self.turn))
        return self.askers[-1]

    def turn(self) -> None:
        """Let the sink answer what is here."""
        for received in self.server.receive():
            self.sink.handle(received)

    def close(self) -> None:
        """Close everything."""
        for asker in self.askers:
            asker.close()
        self.server.close()
        self.context.close()
        self.runs.close()


@contextmanager
def sink_of_a_run(folder: Path) -> Iterator[House]:
    """A sink over an empty run alone. Its sockets have a short path."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        house = House(make_run(folder / "run", Path(sockets)).root)
        try:
            yield house
        finally:
            house.close()


@contextmanager
def sink_of_a_service(folder: Path, *runs: str) -> Iterator[House]:
    """A sink over a service with these runs, all empty."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        house = House(make_service(folder / "service", Path(sockets), *runs).root)
        try:
            yield house
        finally:
            house.close()


@contextmanager
def device(fd: int, path: str) -> Iterator[None]:
    """Put a device in the place of an open file: /dev/full has no space, /dev/null takes all and refuses fsync."""
    kept, failing = os.dup(fd), os.open(path, os.O_RDWR)
    os.dup2(failing, fd)
    os.close(failing)
    try:
        yield
    finally:
        os.dup2(kept, fd)
        os.close(kept)


def lines(run: RunDir) -> list[dict[str, Any]]:
    """The stored rows of a run."""
    return [json.loads(line) for line in run.rollouts.read_bytes().splitlines()]
