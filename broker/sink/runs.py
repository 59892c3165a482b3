"""Which runs does the sink have open? SHELL: folders below the service's root, opened when they are first spoken of.

One with many rows is read beside the loop, and is refused for now meanwhile: the others' rows are stored.

A run that is over is closed when the broker says so. One whose end went by without that word (its broker died, or a late
line opened it again) is closed when nobody has spoken of it for a while.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack

from legato_rl.beside import AT_ONCE_BYTES, Beside
from legato_rl.clock import Clock
from legato_rl.errors import ConfigError, RecordError, SinkError, WireError
from legato_rl.rundir import RunDir, RunFile
from legato_rl.service import ServiceDir, ServiceFile

from .lock import FolderLock
from .run import OpenRun
from .store import explain

QUIET_S = 60.0
"""Seconds after which a run that has ended, and of which nobody spoke, is closed."""

log = logging.getLogger(__name__)


class NotNow(Exception):
    """A run's folder cannot be written now; the message says why, and the same may be accepted later."""


class Runs:
    """The open runs of a service, by id. A service of one run (`once`) has it open from the start."""

    def __init__(self, root: ServiceDir, service: ServiceFile, clock: Clock, at_once: int = AT_ONCE_BYTES) -> None:
        """Lock the service's root. ConfigError where another sink holds it, RecordError or SinkError where a run that must
        be open cannot be. `at_once`: bytes of rows for which no thread is begun."""
        self._root = root
        self._service = service
        self._clock = clock
        self._at_once = at_once
        self._open: dict[str, OpenRun] = {}
        self._opening: dict[str, Beside[OpenRun]] = {}
        """Those that are being read."""
        self._spoken: dict[str, float] = {}
        self._said: dict[str, str] = {}
        """Why a run's folder cannot be opened, as the log has it; by the ids of folders that are there."""
        with ExitStack() as opened:
            try:
                opened.callback(FolderLock(root.lock).close)
                if service.once:
                    self._open[service.once] = self._opened(*self._load(service.once))
                    self._spoken[service.once] = clock.monotonic()
            except OSError as error:
                raise SinkError(f"the sink cannot start: {explain(root.root, error)}") from error
            self._closing = opened.pop_all()

    def get(self, run_id: object) -> OpenRun:
        """The run, opened where it is not. WireError for an id of no run here, NotNow where its folder cannot be used."""
        if not isinstance(run_id, str):
            raise WireError(f"run_id is {run_id!r:.100}: it must be text")
        run = self._open.get(run_id)
        if run is None:
            run = self._open[run_id] = self._try_to_open(run_id)
        self._spoken[run_id] = self._clock.monotonic()
        return run

    def _try_to_open(self, run_id: str) -> OpenRun:
        try:
            run = self._opened_in_time(run_id)
        except OSError as error:
            reason = explain(self._root.run(run_id, self._service).root, error)
        except (ConfigError, RecordError) as error:
            reason = str(error)
        else:
            self._said.pop(run_id, None)
            return run
        if self._said.get(run_id) != reason:
            log.error("%s", reason)
        self._said[run_id] = reason
        raise NotNow(reason)

    def _opened_in_time(self, run_id: str) -> OpenRun:
        """The run, opened. NotNow while its many rows are being read."""
        opening = self._opening.get(run_id)
        if opening is None:
            folder, file = self._load(run_id)
            size = folder.rollouts.stat().st_size if folder.rollouts.exists() else 0
            if size <= self._at_once:
                return self._opened(folder, file)
            opening = self._opening[run_id] = Beside(lambda: self._opened(folder, file), f"opens {run_id}")
        if not opening.done:
            raise NotNow(f"the rows of run {run_id} are still being read")
        del self._opening[run_id]
        return opening.result()

    def _opened(self, folder: RunDir, file: RunFile) -> OpenRun:
        run = OpenRun(folder, file, locked=folder.root == self._root.root)
        log.info("opened %s: %d rows are stored", folder.root, run.index.last)
        return run

    def _load(self, run_id: str) -> tuple[RunDir, RunFile]:
        try:
            folder = self._root.run(run_id, self._service)
            file = folder.load_run()
        except ConfigError as error:
            raise WireError(str(error)) from None
        if file.run_id != run_id:
            raise RecordError(f"{folder.root} holds run {file.run_id!r}: give the folder that name")
        return folder, file

    def close_run(self, run_id: str) -> None:
        """Close a run and unlock its folder. Nothing happens where it is not open; NotNow while it is being opened."""
        if run_id in self._opening:
            self.get(run_id)
        run = self._open.pop(run_id, None)
        self._spoken.pop(run_id, None)
        if run is not None:
            run.close()
            log.info("closed %s: %d rows are stored", run.run.root, run.index.last)

    @property
    def idle(self) -> bool:
        """Whether no run is open, or is being opened."""
        return not self._open and all(opening.done for opening in self._opening.values())

    def close_quiet(self) -> None:
        """Close runs that ended and of which nobody spoke, also while they were opened."""
        for run_id in [run_id for run_id, opening in self._opening.items() if opening.done and not opening.failed]:
            self.get(run_id)
        now = self._clock.monotonic()
        for run_id, run in list(self._open.items()):
            if now - self._spoken[run_id] >= QUIET_S and run.run.end.exists():
                self.close_run(run_id)

    def close(self) -> None:
        """Close all of them and release the service's root."""
        for run_id in list(self._open):
            self.close_run(run_id)
        self._closing.close()
