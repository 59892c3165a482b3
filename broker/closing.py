"""What is left to do for a run of a service that is over? SHELL: its folder is closed, its end and its summary are written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from legato_rl.broker.core import Core
from legato_rl.broker.summaries import Summaries, without_summary
from legato_rl.broker.told import Told
from legato_rl.clock import Clock, iso
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import CloseRun

log = logging.getLogger("legato_rl.broker")

MOST_KEPT = 16
"""Runs that are over and whose events and counts are still told."""


@dataclass
class Closing:
    """The runs that are over. A `collect` of its own closes its one run itself."""

    core: Core
    root: ServiceDir
    service: ServiceFile
    told: Told
    clock: Clock

    def __post_init__(self) -> None:
        # A broker may die between a run's end and its summary.
        self.summaries = Summaries(self.clock, [] if self.service.once else without_summary(self.root.runs))

    def due(self) -> Iterator[CloseRun]:
        """What is to be asked of the sink, until it has answered."""
        if not self.service.once and self.core.reconciled(self.clock.monotonic()):
            for run in self.core.runs.values():
                if run.over and run.run_id not in self.core.closed and not self.core.roster.holds(run.run_id):
                    yield CloseRun(run=run.run_id)

    def done(self, run_id: str) -> None:
        """The sink has closed a run's folder."""
        run = self.core.runs.get(run_id)
        if run is None or not run.over or run_id in self.core.closed:
            return
        folder = self.root.run(run_id, self.service)
        try:
            folder.write_end(run.state, run.reason, iso(self.clock.wall()))
        except OSError as error:
            log.error("%s cannot be written (%s): it is tried again", folder.end, error.strerror)
            return
        log.info("%s is %s", run_id, run.state)
        self.core.closed.add(run_id)
        if run.state == "finished":
            # One that stopped may be resumed, and is then what it was.
            self.told.forget(run_id)
        self.summaries.add(folder)
        self._forget_old()

    @property
    def all_done(self) -> bool:
        """Whether every run is over, closed and summed up."""
        return self.summaries.settled and all(run.over and name in self.core.closed for name, run in self.core.runs.items())

    def _forget_old(self) -> None:
        over = [run_id for run_id in self.core.runs if run_id in self.core.closed]
        for run_id in over[:-MOST_KEPT]:
            self.core.forget(run_id)
