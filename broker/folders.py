"""Which runs does a broker find, and how does one that stopped go on? DISK: reads run folders, and takes `end.json` away."""

from __future__ import annotations

import json
from pathlib import Path

from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.told import Told
from legato_rl.errors import ConfigError
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
        again=frozenset(told.again.get(file.run_id, ())),
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
    if ask.retry_errors:
        told.again[ask.name] = sorted({*told.again.get(ask.name, ()), *errors(folder)})
    told.stopping.pop(ask.name, None)
    core.runs.pop(ask.name, None)
    folder.end.unlink(missing_ok=True)
    told.answer(ask.id)
    return folder


def errors(folder: RunDir) -> list[str]:
    """The rollouts of a run that ended their attempts as errors of kind env, in groups that are not closed."""
    rows = _rows(folder.rollouts)
    settings = folder.load_run().settings
    graded: dict[str, int] = {}
    last: dict[tuple[str, int], dict[str, object]] = {}
    for row in rows:
        graded[row["group_id"]] = graded.get(row["group_id"], 0) + (row["reward"] is not None)
        last[row["group_id"], row["attempt"]] = row
    return [
        str(row["rollout_id"])
        for (group, _), row in last.items()
        if row["status"] == "error" and row["kind"] == "env" and graded.get(group, 0) < settings.group
    ]


def _rows(path: Path) -> list[dict[str, object]]:
    """Few facts of each whole row, in file order; a torn tail was never acknowledged."""
    rows = []
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                row = json.loads(line)
                facts = {name: row[name] for name in ("group_id", "attempt", "rollout_id", "status", "reward")}
                rows.append({**facts, "kind": (row["error"] or {}).get("kind")})
    except FileNotFoundError:
        return []
    return rows
