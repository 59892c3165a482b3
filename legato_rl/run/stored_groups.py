"""Which groups of a run have closed, and has it finished, by its stored rows alone? DISK, reads only; no process is asked."""

from __future__ import annotations

from typing import Any

from legato_rl.errors import LegatoError
from legato_rl.export.groups import fold_groups
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.happenings import Happenings
from legato_rl.records import FeedRow
from legato_rl.rundir import RunDir


def closed_groups(folder: RunDir) -> list[dict[str, Any]]:
    """The data of each event `group_closed`, in the order of these. Raises what reading the folder does."""
    settings = folder.load_run().settings
    tasks = {task.group_id: task for task in folder.load_tasks()}
    closing = settings.group if settings.close == "first" else None
    happened = Happenings(settings.group, closing, settings.attempts, tasks)
    with RowFile(folder) as file:
        for facts, row in file.rows():
            happened.row(
                FeedRow(
                    n=facts.line,
                    key=row.key,
                    outcome=row.outcome,
                    status=row.status,
                    reward=row.reward,
                    versions=row.policy.versions,
                )
            )
    return [event.data for event in happened.events if event.kind == "group_closed"]


def has_finished(folder: RunDir) -> bool:
    """Whether every attempt has its final row. A folder that cannot be read says so of none."""
    try:
        run, group_ids = folder.load_run(), load_group_ids(folder)
        with RowFile(folder) as file:
            groups = fold_groups(list(file.facts()), run.settings, group_ids, run.again)
    except (LegatoError, OSError):
        return False
    return all(group.ended == run.settings.attempts for group in groups)
