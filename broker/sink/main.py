"""How does a sink start? `legato-rl-sink RUN_DIR`, in the foreground."""

from __future__ import annotations

import logging

from legato_rl.endpoints import address
from legato_rl.role import Quit, run_folder, run_role
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context

from .server import Sink, serve

log = logging.getLogger(__name__)


def main() -> None:
    """Store the rows and blobs of the run folder that is the one argument, until SIGTERM or SIGINT."""
    run_role("sink", lambda quit_: run_sink(RunDir(run_folder().resolve()), quit_))


def run_sink(run: RunDir, quit_: Quit) -> None:
    """Serve the run folder until asked to quit."""
    sockets = run.load_run().sockets
    sink = Sink(run)
    try:
        # Bound after the lock is held: binding an ipc address takes it from whoever had it.
        with Context() as context, context.server("rows", address(sockets, "rows")) as server:
            log.info("ready: %d rows are stored in %s", sink.index.last, run.root)
            serve(sink, server, quit_)
    finally:
        sink.close()


if __name__ == "__main__":
    main()
