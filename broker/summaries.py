"""Which runs' summaries are still to be written? SHELL: one is written at a time, in a thread beside the broker's loop.

One that could not be written (a full disk) is tried again; what a broker that died left unwritten its successor finds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from legato_rl.beside import Beside
from legato_rl.clock import Clock
from legato_rl.errors import LegatoError
from legato_rl.export.profile import write_summary
from legato_rl.records import is_id
from legato_rl.rundir import RunDir

log = logging.getLogger("legato_rl.broker")

AGAIN_S = 60.0
"""Seconds after which a summary that could not be written is tried again: all rows are read for it."""


@dataclass(frozen=True)
class _Writing:
    folder: RunDir
    fresh: bool
    """Whether the run has ended since this process began, so that a shutdown waits for it."""
    thread: Beside[None]


@dataclass
class Summaries:
    """Summaries to be written: of runs that end (`add`), and those `left` by an earlier broker. `step` often."""

    clock: Clock
    left: Iterable[RunDir] = ()
    _fresh: list[RunDir] = field(default_factory=list)
    _later: dict[RunDir, float] = field(default_factory=dict)
    """When those are due that nobody waits for."""
    _said: set[RunDir] = field(default_factory=set)
    """Those of which the log has that they cannot be written."""
    _writing: _Writing | None = None

    def __post_init__(self) -> None:
        self._later = {folder: self.clock.monotonic() for folder in self.left}

    def add(self, folder: RunDir) -> None:
        """A run has ended."""
        self._later.pop(folder, None)
        self._fresh.append(folder)
        self.step()

    def step(self) -> None:
        """See what came of the one that is being written, and begin the next."""
        self._step_fresh()
        now = self.clock.monotonic()
        while self._writing is None and (due := next((each for each, at in self._later.items() if at <= now), None)):
            del self._later[due]
            self._begin(due, fresh=False)

    def finish(self) -> None:
        """Wait for the end of the one that is being written."""
        if self._writing is not None:
            self._take(self._writing)
            self._writing = None

    @property
    def settled(self) -> bool:
        """Whether every run that has ended since this process began is summed up, as far as the disk let it.

        To ask begins none of the others: a shutdown asks again and again, and would wait for one after the other.
        """
        self._step_fresh()
        return not self._fresh and (self._writing is None or not self._writing.fresh)

    def _step_fresh(self) -> None:
        if self._writing is not None and self._writing.thread.done:
            self.finish()
        while self._writing is None and self._fresh:
            self._begin(self._fresh.pop(0), fresh=True)

    def _begin(self, folder: RunDir, fresh: bool) -> None:
        # One that was resumed is summed up at its next end, one that was moved away no more.
        if folder.end.exists():
            self._writing = _Writing(folder, fresh, Beside(partial(_sum_up, folder), f"summary-{folder.root.name}"))

    def _take(self, writing: _Writing) -> None:
        folder = writing.folder
        try:
            writing.thread.result()
        except OSError as error:
            if folder not in self._said:
                log.error("%s cannot be written (%s): it is tried again", folder.summary, error.strerror)
            self._said.add(folder)
            self._later[folder] = self.clock.monotonic() + AGAIN_S
        except LegatoError as error:
            log.error("%s cannot be written: %s", folder.summary, error)
        except Exception:
            log.exception("%s cannot be written", folder.summary)
        else:
            self._said.discard(folder)


def _sum_up(folder: RunDir) -> None:
    try:
        write_summary(folder.root)
    finally:
        # It may have been resumed meanwhile, and what goes on has no summary. Nothing slips through between the two:
        # `forget_end` takes the end away first, and the summary then.
        if not folder.end.exists():
            folder.summary.unlink(missing_ok=True)


def without_summary(runs: Path) -> list[RunDir]:
    """The runs below `runs` that have ended and whose summary is not there, or is of before that end. Reads no file."""
    found = [RunDir(path) for path in sorted(runs.iterdir()) if is_id(path.name)] if runs.is_dir() else []
    ended = [folder for folder in found if _written_at(folder.summary) < _written_at(folder.end)]
    return [folder for folder in ended if folder.run_file.exists()]


def _written_at(path: Path) -> int:
    """When a file was written, in ns; -1 where it cannot be found."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1
