"""`legato-rl-broker ROOT`: the broker of a service, or of a single run, in the foreground."""

from __future__ import annotations

import secrets
from pathlib import Path

from legato_rl.broker.closing import Closing
from legato_rl.broker.control import Control
from legato_rl.broker.core import Core
from legato_rl.broker.folders import ended_as, open_run, unfinished
from legato_rl.broker.server import BrokerServer
from legato_rl.broker.told import Told
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.role import Quit, raise_file_limit, run_folder, run_role
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.sockets import Context
from legato_rl.wire import PolicyName

MARK = "broker-was-here"
"""A file in the socket folder: whoever finds it is not the first broker there."""


def make_core(root: ServiceDir, service: ServiceFile, told: Told, restarted: bool, now: float) -> Core:
    """The core of a service as its files tell it, with the runs that have not ended."""
    settings = service.settings
    default = told.default or PolicyName(model=settings.policy.model, version=settings.policy.version)
    core = Core(settings.desktops, settings.boots_at_once, default, bool(service.once), restarted, now)
    core.policies.names.update(told.policies)
    for name, reason in told.out.items():
        core.roster.put_out(name, reason)
    for folder in unfinished(root, service):
        run = open_run(folder, told)
        core.begin(run)
        if run.run_id in told.stopping:
            run.stop(told.stopping[run.run_id], now)
    for run_id in [run_id for run_id in core.policies.names if run_id not in core.runs]:
        if ended_as(root.run(run_id, service)) != "stopped":
            core.policies.end(run_id)
    return core


def serve(folder: Path, quit_: Quit) -> None:
    """Be the broker of the service in `folder` until asked to end, or until the service has ended."""
    raise_file_limit()
    root = ServiceDir(folder)
    service, told = root.load(), Told.load(root.state)
    mark = service.sockets / MARK
    restarted = mark.exists()
    if service.once and not restarted and told != told.resumed():
        told = told.resumed()
        told.save(root.state)
    mark.touch()
    core = make_core(root, service, told, restarted, SYSTEM_CLOCK.monotonic())
    desk = Control(core, root, service, told, SYSTEM_CLOCK, secrets.randbits(31))
    closing = Closing(core, root, service, told, SYSTEM_CLOCK)
    with (
        Context() as context,
        context.server("orders", address(service.sockets, "orders")) as orders,
        context.server("control", service.control, service.keys) as control,
        context.client("rows", address(service.sockets, "rows")) as rows,
    ):
        mark.touch()
        BrokerServer(core, desk, closing, orders, control, rows, SYSTEM_CLOCK).run(quit_)
    closing.summaries.finish()


def main() -> None:
    """The console script."""
    run_role("broker", lambda quit_: serve(run_folder(), quit_))


if __name__ == "__main__":
    main()
