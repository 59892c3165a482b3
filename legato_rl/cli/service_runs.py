"""What does a person hear of a service's runs? A line as each begins and ends, from the broker's word and the run's files."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import Any

from legato_rl.errors import LegatoError
from legato_rl.export.groups import fold_groups
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.run.follow import OVER
from legato_rl.run.stored_runs import stopped, unfinished
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir
from legato_rl.wire import RunStatus

MOST_NAMED = 5
"""Runs that stopped earlier and are named at the start; of more, their number is told."""


class RunLines:
    """The lines of one `serve`. A run that has ended is told once its summary is there, which comes a moment later."""

    def __init__(self, root: ServiceDir) -> None:
        self._root = root
        self._live: set[str] = set()
        self._ending: list[str] = []
        self._over: set[str] = set()

    def at_start(self) -> list[str]:
        """What goes on by itself and where it stands, and what could go on."""
        lines = []
        for run in unfinished(self._root):
            self._live.add(run.run)
            lines.append(f"{run.run} goes on: {_standing(run.folder)}")
        early = [run.run for run in stopped(self._root)]
        if early:
            named = ", ".join(early[:MOST_NAMED]) + (f" and {len(early) - MOST_NAMED} more" if early[MOST_NAMED:] else "")
            lines.append(f"stopped earlier, and may go on: {named} ({self._resume('RUN')})")
        return lines

    def hear(self, status: RunStatus) -> list[str]:
        """What has begun and ended since the last word of the broker."""
        live = {brief.run for brief in status.runs}
        began = live - self._live
        if status.state in OVER and status.run not in self._over:
            # It may have come and gone between two looks.
            began |= {status.run} - self._live
        ended = (self._live | began) - live
        self._live, self._over = live, (self._over | ended) - live
        self._ending = [run for run in self._ending if run not in live] + sorted(ended)
        told = [run for run in self._ending if _summary(self._folder(run)) is not None]
        self._ending = [run for run in self._ending if run not in told]
        return [*map(self._begun, sorted(began)), *map(self._ended, told)]

    def at_end(self) -> list[str]:
        """What became of the runs that nothing has been told of yet. No process of the service is up."""
        return [self._ended(run) for run in [*self._ending, *sorted(self._live)]]

    def _begun(self, run: str) -> str:
        folder = self._folder(run)
        if folder.rollouts.exists() and folder.rollouts.stat().st_size:
            return f"{run} goes on: {_standing(folder)}"
        try:
            about, groups = folder.load_run(), len(load_group_ids(folder))
        except (LegatoError, OSError, ValueError):
            return f"{run} was submitted"
        settings = about.settings
        priority = f", priority {about.priority}" if about.priority else ""
        return f"{run} was submitted: {groups} groups of {settings.group}, version {settings.policy.version}{priority}"

    def _ended(self, run: str) -> str:
        folder = self._folder(run)
        try:
            end = folder.load_end()
        except (LegatoError, OSError):
            end = None
        if end is None:
            return f"{run} was cut: it goes on when the service is started again"
        summary = _summary(folder)
        told = f"{run} {end['state']}" + (f" ({end['reason']})" if end["reason"] else "")
        told += f": {_delivered(summary)}" if summary else ""
        return told if end["state"] == "finished" else f"{told}; go on with: {self._resume(run)}"

    def _resume(self, run: str) -> str:
        return f"legato-rl control resume-run {shlex.quote(str(self._root.root))} {run}"

    def _folder(self, run: str) -> RunDir:
        return RunDir(self._root.runs / run)


def _standing(folder: RunDir) -> str:
    """Where a run stands, from what it has stored."""
    try:
        about = folder.load_run()
        with RowFile(folder) as file:
            groups = fold_groups(file.facts(), about.settings, load_group_ids(folder), about.again)
    except (LegatoError, OSError, ValueError) as error:
        return f"what is stored cannot be read ({error})"
    states = Counter(group.state for group in groups)
    short = f" {states['short']} short" if states["short"] else ""
    ended, attempts = sum(group.ended for group in groups), len(groups) * about.settings.attempts
    return f"groups {states['closed']}/{len(groups)} closed{short}, {ended} of {attempts} attempts ended"


def _summary(folder: RunDir) -> dict[str, Any] | None:
    """The summary of how a run ended; None until it is written, after `end.json`."""
    try:
        if folder.summary.stat().st_mtime_ns < folder.end.stat().st_mtime_ns:
            return None
        summary: dict[str, Any] = json.loads(folder.summary.read_bytes())
    except (OSError, ValueError):
        return None
    return summary


def _delivered(summary: dict[str, Any]) -> str:
    """What came of a run, in words."""
    groups, rewards, attempts = summary["groups"], summary["rewards"], summary["attempts"]
    mean = "" if rewards["mean"] is None else f", mean reward {rewards['mean']:.3f}"
    cut = f", {attempts['unfinished']} of {attempts['asked']} attempts unfinished" if attempts["unfinished"] else ""
    return f"{groups['closed']} of {groups['asked']} groups closed, {rewards['usable']} usable rollouts{mean}{cut}"
