"""How does a sink start? `legato-rl-sink ROOT`, in the foreground."""

from __future__ import annotations

import logging

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.role import Quit, raise_file_limit, run_folder, run_role
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context

from .runs import Runs
from .server import Sink, serve

log = logging.getLogger(__name__)


def main() -> None:
    """Store the rows and blobs of the runs of the root that is the one argument, until SIGTERM or SIGINT."""
    run_role("sink", lambda quit_: run_sink(ServiceDir(run_folder().resolve()), quit_))


def run_sink(root: ServiceDir, quit_: Quit) -> None:
    """Serve the service's runs until asked to quit."""
    raise_file_limit()
    service = root.load()
    runs = Runs(root, service, SYSTEM_CLOCK)
    try:
        # Bound after the lock is held: binding an ipc address takes it from whoever had it.
        with Context() as context, context.server("rows", address(service.sockets, "rows")) as server:
            log.info("ready: what lies below %s is stored here", root.root)
            serve(Sink(runs, server), server, quit_)
    finally:
        runs.close()


if __name__ == "__main__":
    main()
