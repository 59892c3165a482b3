"""Which runs does a broker find, and how does one that stopped go on? DISK: reads run folders, and takes away how one ended."""

from __future__ import annotations

import logging

from legato_rl.broker.again import Again
from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.told import Told
from legato_rl.errors import ConfigError, LegatoError
from legato_rl.records import is_id
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import Submit

log = logging.getLogger("legato_rl.broker")


def open_run(folder: RunDir, told: Told) -> Run:
    """A run as its folder and state.json tell it; its rows are still to come from the sink."""
    file = folder.load_run()
    run = Run(
        file.run_id,
        file.settings,
        folder.load_tasks(),
        today=file.today,
        priority=file.priority,
        again=frozenset(file.again),
    )
    for group, number in told.cancelled.get(file.run_id, ()):
        run.groups.cancel(group, number)
    return run


def unfinished(root: ServiceDir, service: ServiceFile) -> list[RunDir]:
    """The runs that a broker which starts has to go on with, the first to be submitted first."""
    if service.once:
        return [RunDir(root.root)]
    found = [RunDir(path) for path in root.runs.iterdir() if is_id(path.name)] if root.runs.is_dir() else []
    open_ones = [folder for folder in found if folder.run_file.exists() and not folder.end.exists() and _is_whole(folder)]
    return sorted(open_ones, key=lambda folder: (folder.load_run().created_at, folder.root.name))


def _is_whole(folder: RunDir) -> bool:
    """Whether a run's files can be read; one folder that cannot must not keep the others' runs from going on."""
    try:
        run_id = folder.load_run().run_id
        folder.load_tasks()
    except (LegatoError, OSError, ValueError) as error:
        log.error("the run in %s is left alone: %s", folder.root, error)
        return False
    if run_id != folder.root.name:
        log.error("the run in %s is left alone: it is run %r; give the folder that name", folder.root, run_id)
    return run_id == folder.root.name


def reopen(ask: Submit, root: ServiceDir, service: ServiceFile, core: Core, told: Told, again: Again) -> RunDir:
    """Have a run that stopped go on; one that goes on is left alone.

    ConfigError where there is no such run, StillReading while its errors are looked for.
    """
    folder = root.run(ask.name, service)
    if not folder.run_file.exists():
        raise ConfigError(f"name is {ask.name!r}: the service has no run of that name to resume")
    run = core.runs.get(ask.name)
    if ask.id in told.answered or (run is not None and run.state == "running"):
        return folder
    if run is not None and run.state == "stopping":
        raise ConfigError(f"name is {ask.name!r}: that run is still stopping; resume it once it has stopped")
    if ask.retry_errors:
        file = folder.load_run()
        retried = sorted({*file.again, *again.of(folder, file.settings)})
        folder.write_run(file.model_copy(update={"again": retried}))
    # Last, so that a run which cannot be read, or a broker that dies here, leaves it stopped.
    folder.forget_end()
    told.stopping.pop(ask.name, None)
    core.runs.pop(ask.name, None)
    told.answer(ask.id)
    return folder


def ended_as(folder: RunDir) -> str:
    """How a run ended: `finished`, `stopped`; empty where it has not, or where that cannot be read."""
    try:
        end = folder.load_end()
    except (LegatoError, OSError):
        return ""
    return str(end["state"]) if end else ""
