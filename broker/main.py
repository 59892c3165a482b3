"""`legato-rl-broker RUN_DIR`: the broker of one run, in the foreground."""

from __future__ import annotations

from pathlib import Path

from legato_rl.broker.core import Core
from legato_rl.broker.server import BrokerServer
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.role import Quit, run_folder, run_role
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context

MARK = "broker-was-here"
"""A file in the run's socket folder: whoever finds it is not the run's first broker."""


def serve(root: Path, quit_: Quit) -> None:
    """Be the broker of the run in `root` until asked to end."""
    folder = RunDir(root)
    run = folder.load_run()
    mark = run.sockets / MARK
    restarted = mark.exists()
    mark.touch()
    core = Core(run.run_id, run.settings, folder.load_tasks(), restarted, SYSTEM_CLOCK.monotonic())
    with (
        Context() as context,
        context.server("orders", address(run.sockets, "orders")) as orders,
        context.server("control", address(run.sockets, "control")) as control,
        context.client("rows", address(run.sockets, "rows")) as rows,
    ):
        BrokerServer(core, run, orders, control, rows, SYSTEM_CLOCK).run(quit_)


def main() -> None:
    """The console script."""
    run_role("broker", lambda quit_: serve(run_folder(), quit_))


if __name__ == "__main__":
    main()
