"""What speaks to a sink in its tests: a client over real sockets, and a real sink process."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from sink_rows import RUN, blob_name

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.sockets import Client, Context, wait
from legato_rl.wire import BlobsNeeded, BlobsStored, Message, PutBlobs, PutRow, Refused, RowStored

PATIENCE_S = 60.0
"""Seconds after which a test gives up waiting for what must come."""


class Asker:
    """A client of the sink that asks again until it is answered. `turn` lets a sink in this thread do its work."""

    def __init__(self, context: Context, sockets: Path, turn: Callable[[], None] = lambda: None) -> None:
        self.client: Client = context.client("rows", address(sockets, "rows"))
        self._turn = turn
        self.early: list[Message] = []
        """What came and was not an answer, in order."""

    def ask(self, message: Message, *kinds: type[Message], blobs: list[bytes] | None = None) -> Any:
        """The first answer of one of `kinds`."""
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while SYSTEM_CLOCK.monotonic() < deadline:
            self.client.send(message, blobs)
            # Asked once as a rule: the answer to a question that was asked again would be taken for that to the next one.
            answer = self.hear(PATIENCE_S / 3, *kinds)
            if answer is not None:
                return answer
        raise AssertionError(f"no answer to {message.kind!r}")

    def hear(self, seconds: float, *kinds: type[Message]) -> Any:
        """The next message of one of `kinds`; None where none comes in time."""
        deadline = SYSTEM_CLOCK.monotonic() + seconds
        while SYSTEM_CLOCK.monotonic() < deadline:
            self._turn()
            wait([self.client], 0.02)
            for received in self.client.receive():
                if isinstance(received.message, kinds):
                    return received.message
                self.early.append(received.message)
        return None

    def put(self, *blobs: bytes, run: str = RUN) -> BlobsStored | Refused:
        """Send blobs and return the answer."""
        message = PutBlobs(run=run, blobs=[blob_name(blob) for blob in blobs])
        return self.ask(message, BlobsStored, Refused, blobs=list(blobs))  # type: ignore[no-any-return]

    def row(self, row: dict[str, Any]) -> RowStored | BlobsNeeded | Refused:
        """Send a row and return the answer."""
        return self.ask(PutRow(row=row), RowStored, BlobsNeeded, Refused)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the socket."""
        self.client.close()


class SinkProcess:
    """A real sink process, ready when made. `within` starts it, as `unshare` does."""

    def __init__(self, root: Path, within: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen([*within, *command(root)], stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self._stderr: IO[bytes] = self.process.stderr
        self.log = ""
        self.wait_for("ready:")

    def wait_for(self, text: str) -> None:
        """Read the log until a line of it holds `text`."""
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while text not in self.log:
            ready, _, _ = select.select([self._stderr], [], [], max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
            data = self._stderr.read1() if ready else b""  # type: ignore[attr-defined]
            assert data, f"{text!r} is not in the sink's log: {self.log}"
            self.log += data.decode()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.log += self._stderr.read().decode()
        self._stderr.close()
        return code

    def __enter__(self) -> SinkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def command(root: Path) -> list[str]:
    """The command line of a sink."""
    return [sys.executable, "-m", "legato_rl.broker.sink.main", str(root)]
