"""Which runs lie below a service's root, and how did each end? DISK, reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legato_rl.errors import LegatoError
from legato_rl.records import is_id
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir


@dataclass(frozen=True)
class StoredRun:
    """A run of a service, as its folder tells it."""

    folder: RunDir
    state: str
    """`finished`, `stopped`; empty for one that has not ended."""
    reason: str
    at: str
    """When it ended."""

    @property
    def run(self) -> str:
        return self.folder.root.name


def stored_runs(root: ServiceDir) -> Iterator[StoredRun]:
    """Every run whose end, or that it has none yet, can be read; in no order."""
    for path in root.runs.iterdir() if root.runs.is_dir() else ():
        folder = RunDir(path)
        if is_id(path.name) and folder.run_file.exists():
            try:
                end = folder.load_end()
            except (LegatoError, OSError):
                continue
            if end is None or isinstance(end, dict):
                said = {name: str((end or {}).get(name, "")) for name in ("state", "reason", "at")}
                yield StoredRun(folder, **said)


def unfinished(root: ServiceDir) -> list[StoredRun]:
    """The runs that go on when the service starts, the first to be submitted first."""
    open_ones = [(_created(run.folder), run.run, run) for run in stored_runs(root) if not run.state]
    return [run for _, _, run in sorted(open_ones, key=lambda one: one[:2])]


def stopped(root: ServiceDir) -> list[StoredRun]:
    """The runs that ended early and may be resumed, the last to end first."""
    return sorted((run for run in stored_runs(root) if run.state == "stopped"), key=lambda run: (run.at, run.run), reverse=True)


def _created(folder: RunDir) -> str:
    try:
        return folder.load_run().created_at
    except (LegatoError, OSError):
        return ""
