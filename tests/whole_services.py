"""What starts whole services in tests: `legato-rl serve` on small fake desktops, in a process of its own, and its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from whole_runs import FAKE, PATIENCE_S, SMALL, Cli

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.errors import ControlError
from legato_rl.wire import RunStatus


def serve(root: Path, *args: object, **kwargs: Any) -> Cli:
    """`legato-rl serve` on small fake desktops, and (unless `args` name another) the bundled server."""
    policy = () if "--policy-url" in args else FAKE
    return Cli("serve", "--dir", root, *policy, *SMALL, *args, **kwargs)


@contextmanager
def serving(root: Path, *args: object) -> Iterator[tuple[Cli, ControlClient]]:
    """A service that is up, and a client of it; shut down at the end."""
    with serve(root, *args) as cli:
        cli.wait_for("no run |")
        with ControlClient(root) as client:
            yield cli, client
            if cli.process.poll() is None:
                client.shutdown()
                cli.end()


def until(client: ControlClient, run: str, met: Callable[[RunStatus], bool]) -> RunStatus:
    """Ask where a run, which may not be submitted yet, stands until that meets a condition."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    status = None
    while SYSTEM_CLOCK.monotonic() < deadline:
        with suppress(ControlError):
            status = client.status(run)
        if status is not None and met(status):
            return status
        SYSTEM_CLOCK.sleep(0.05)
    raise AssertionError(f"the run {run} did not come so far: {status}")
