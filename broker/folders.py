"""Which runs does a broker find, and how does one that stopped go on? DISK: reads run folders, and takes `end.json` away."""

from __future__ import annotations

from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.told import Told
from legato_rl.config import Settings
from legato_rl.errors import ConfigError
from legato_rl.export.groups import env_errors
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.records import is_id
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import Submit


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
    open_ones = [folder for folder in found if folder.run_file.exists() and not folder.end.exists()]
    return sorted(open_ones, key=lambda folder: (folder.load_run().created_at, folder.root.name))


def reopen(ask: Submit, root: ServiceDir, service: ServiceFile, core: Core, told: Told) -> RunDir:
    """Have a run that stopped go on; one that goes on is left alone. ConfigError where there is no such run."""
    folder = root.run(ask.name, service)
    if not folder.run_file.exists():
        raise ConfigError(f"name is {ask.name!r}: the service has no run of that name to resume")
    run = core.runs.get(ask.name)
    if (run is not None and not run.over) or ask.id in told.answered:
        return folder
    told.stopping.pop(ask.name, None)
    core.runs.pop(ask.name, None)
    folder.end.unlink(missing_ok=True)
    if ask.retry_errors:
        file = folder.load_run()
        again = sorted({*file.again, *errors(folder, file.settings)})
        folder.write_run(file.model_copy(update={"again": again}))
    told.answer(ask.id)
    return folder


def errors(folder: RunDir, settings: Settings) -> list[str]:
    """The rollouts of a run that ended their attempts as errors of kind env, in groups that are not closed."""
    with RowFile(folder) as file:
        return env_errors(list(file.facts()), settings, load_group_ids(folder))
