"""What do the run's small files say? Those that are read whole: run.json, tasks.jsonl, end.json, desktops.jsonl. DISK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from legato_rl.bad_input import one_sentence, told
from legato_rl.errors import RecordError
from legato_rl.export.instants import instant
from legato_rl.export.reader import load_desktop_events
from legato_rl.parts import DesktopEvent
from legato_rl.records import is_id
from legato_rl.rundir import RUN_SCHEMA, RunDir, RunFile, TaskSpec
from legato_rl.verify.report import Report

END_STATES = ("finished", "stopped", "interrupted")


@dataclass(frozen=True)
class Asked:
    """What was asked for: the run's settings, and its tasks by group."""

    file: RunFile
    tasks: Mapping[str, TaskSpec]


def read_asked(run: RunDir, report: Report) -> Asked | None:
    """`run.json` and `tasks.jsonl`; None where one is damaged, which is then told. ConfigError where there is no run."""
    try:
        file = run.load_run()
        if file.schema_ != RUN_SCHEMA or not is_id(file.run_id):
            raise RecordError(f"it is of run {file.run_id!r:.80} in the format {file.schema_!r:.80}")
    except RecordError as error:
        report.fault("run-file", "run.json", str(error))
        return None
    try:
        return Asked(file, _tasks(run))
    except RecordError as error:
        report.fault("tasks-file", "tasks.jsonl", str(error))
        return None


def _tasks(run: RunDir) -> dict[str, TaskSpec]:
    """The tasks by group. RecordError where they are not what a run can have."""
    try:
        tasks = run.load_tasks()
    except OSError as error:
        raise RecordError(f"it cannot be read ({error.strerror})") from None
    by_group = {task.group_id: task for task in tasks}
    if not tasks or len(by_group) < len(tasks):
        raise RecordError(f"it has {len(tasks)} tasks in {len(by_group)} groups")
    ids = [word for task in tasks for word in (task.group_id, task.task_id)]
    wrong = next((word for word in ids if not is_id(word)), None)
    if wrong is not None:
        raise RecordError(f"{wrong!r:.80} is no id")
    return by_group


def read_end(run: RunDir, report: Report) -> str | None:
    """How the run ended: a word of END_STATES; None where it did not, or where that cannot be read, which is told."""
    try:
        end: Any = run.load_end()
        if end is None:
            return None
        if not isinstance(end, dict) or end.get("state") not in END_STATES or not isinstance(end.get("reason"), str):
            raise RecordError(f"it must have a state ({', '.join(END_STATES)}) and a reason")
        instant(str(end.get("at")))
    except RecordError as error:
        report.fault("end-file", "end.json", str(error))
        return None
    return str(end["state"])


def check_events(run: RunDir, report: Report) -> None:
    """The lines of `desktops.jsonl`. A torn last one was never acknowledged and is none."""
    try:
        events = load_desktop_events(run)
    except RecordError as error:
        report.fault("desktop-events", "desktops.jsonl", str(error))
        return
    seen: set[str] = set()
    rows = 0
    for number, line in enumerate(events, start=1):
        try:
            event = DesktopEvent.model_validate({name: value for name, value in line.items() if name != "id"})
            if event.n != number or event.after < rows:
                raise RecordError(
                    f"n is {event.n}, after is {event.after}: it is event {number}, and {rows} rows came before it"
                )
            if not isinstance(line.get("id"), str) or line["id"] in seen:
                raise RecordError(f"id is {told(line.get('id'))}: it must be text that no earlier line has")
        except ValidationError as error:
            report.fault("desktop-events", f"desktops.jsonl:{number}", one_sentence(error))
        except RecordError as error:
            report.fault("desktop-events", f"desktops.jsonl:{number}", str(error))
        else:
            seen.add(line["id"])
            rows = event.after
