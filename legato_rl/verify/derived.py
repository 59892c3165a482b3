"""Is what was made from the rows what they give? The summary, and the exports that lie in the folder. DISK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from legato_rl.config import Settings
from legato_rl.export.groups import Group, RowFacts, fold_groups
from legato_rl.export.profile import profile_run
from legato_rl.export.reader import RowFile
from legato_rl.export.steps import step_lines
from legato_rl.records import RolloutKey
from legato_rl.rundir import RunDir
from legato_rl.verify.report import Report

ABOUT_TAIL = "are no whole row and were left out"
"""How the notice about a torn tail ends: it names a path, and what it tells of is gone after a resume."""


def check_summary(run: RunDir, report: Report) -> None:
    """`summary.json` against one computed from the rows now. The run has ended."""
    try:
        stored = json.loads(run.summary.read_bytes())
    except FileNotFoundError:
        report.fault("summary-missing", "summary.json", "it is not there: `legato-rl profile DIR --json` prints it")
        return
    except ValueError as error:
        report.fault("summary-differs", "summary.json", f"it is no JSON ({error})")
        return
    computed = json.loads(json.dumps(profile_run(run.root)))
    if not isinstance(stored, dict):
        report.fault("summary-differs", "summary.json", "it is no JSON object")
        return
    for summary in (stored, computed):
        notices = summary.get("notices")
        if isinstance(notices, list):
            summary["notices"] = [notice for notice in notices if not str(notice).endswith(ABOUT_TAIL)]
    names = [name for name in sorted({*stored, *computed}) if _get(stored, name) != _get(computed, name)]
    if names:
        report.fault("summary-differs", "summary.json", f"of another value than computed: {', '.join(names)}")


def _get(summary: dict[str, Any], name: str) -> tuple[bool, Any]:
    """A value and whether it is there, so that null is not the same as none."""
    return name in summary, summary.get(name)


def check_exports(run: RunDir, facts: Sequence[RowFacts], settings: Settings, group_ids: Sequence[str], report: Report) -> None:
    """Every export that lies in the folder, against what `export` would write of the same rollouts now."""
    paths = [path for path in sorted(run.root.glob("*.jsonl")) if path not in (run.rollouts, run.tasks, run.desktop_events)]
    exports = [path for path in paths if _is_export(path)]
    if not exports:
        return
    again = run.load_run().again
    groups = [group for group in fold_groups(facts, settings, group_ids, again) if group.state != "open"]
    with RowFile(run) as file:
        due = _Due(run, file, groups)
        for path in exports:
            seen: set[str] = set()
            for rollout_id, given in groupby(_lines(path), lambda line: str(line[1].get("rollout_id"))):
                numbered = list(given)
                fault = "it is there twice" if rollout_id in seen else due.fault(rollout_id, [line for _, line in numbered])
                seen.add(rollout_id)
                if fault:
                    report.fault("export-differs", f"{path.name}:{numbered[0][0]}", f"{rollout_id:.200}: {fault}")


class _Due:
    """What `export` would write now: of every usable rollout of the groups that have ended."""

    def __init__(self, run: RunDir, file: RowFile, groups: Sequence[Group]) -> None:
        self._run = run
        self._file = file
        run_id = run.load_run().run_id
        self._usable = {
            RolloutKey(run=run_id, group=row.group_id, attempt=row.attempt, try_=row.try_).rollout_id: (row, group)
            for group in groups
            for row in group.usable
        }

    def fault(self, rollout_id: str, given: list[dict[str, Any]]) -> str | None:
        """Why `given` are not the lines of this rollout; None where they are."""
        if rollout_id not in self._usable:
            return "it is no usable rollout of a group that has ended"
        row, group = self._usable[rollout_id]
        due = list(step_lines(self._run, self._file.row(row), row, group, _inlined(given[0])))
        if len(given) != len(due):
            return f"there are {len(given)} lines, it has {len(due)} steps"
        for index, (is_, should) in enumerate(zip(given, due, strict=True)):
            names = [name for name in sorted({*is_, *should}) if _get(is_, name) != _get(should, name)]
            if names:
                return f"step {index} has another {', '.join(names)}"
        return None


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number from 1, object) of each line; what is none is an empty one."""
    with path.open("rb") as file:
        for number, data in enumerate(file, start=1):
            try:
                line = json.loads(data)
            except ValueError:
                line = None
            yield number, line if isinstance(line, dict) else {}


def _is_export(path: Path) -> bool:
    """Whether the first line is one of an export."""
    first = next(_lines(path), (0, {}))[1]
    return {"rollout_id", "step", "advantage"} <= first.keys()


def _inlined(line: dict[str, Any]) -> bool:
    """Whether the export was made with --inline-images."""
    return '"data:image/' in json.dumps(line.get("messages"))
