"""Which runs' summaries are still to be written? SHELL: one is written at a time, in a thread beside the broker's loop.

One that could not be written (a full disk) is tried again; what a broker that died left unwritten its successor finds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from legato_rl.beside import Beside
from legato_rl.clock import Clock
from legato_rl.errors import LegatoError
from legato_rl.export.profile import write_summary
from legato_rl.records import is_id
from legato_rl.rundir import RunDir

log = logging.getLogger("legato_rl.broker")

AGAIN_S = 60.0
"""Seconds after which a summary that could not be written is tried again: all rows are read for it."""


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
    _writing: tuple[RunDir, Beside[dict[str, Any]]] | None = None

    def __post_init__(self) -> None:
        self._later = {folder: self.clock.monotonic() for folder in self.left}

    def add(self, folder: RunDir) -> None:
        """A run has ended."""
        self._later.pop(folder, None)
        self._fresh.append(folder)
        self.step()

    def step(self) -> None:
        """See what came of the one that is being written, and begin the next."""
        if self._writing is not None and self._writing[1].done:
            self._take(*self._writing)
            self._writing = None
        while self._writing is None and (folder := self._next()) is not None:
            # One that was resumed is summed up at its next end, one that was moved away no more.
            if folder.end.exists():
                self._writing = folder, Beside(partial(write_summary, folder.root), f"summary-{folder.root.name}")

    def finish(self) -> None:
        """Wait for the end of the one that is being written."""
        if self._writing is not None:
            self._take(*self._writing)
            self._writing = None

    @property
    def settled(self) -> bool:
        """Whether every run that has ended since this process began is summed up, as far as the disk let it."""
        self.step()
        return self._writing is None and not self._fresh

    def _next(self) -> RunDir | None:
        if self._fresh:
            return self._fresh.pop(0)
        now = self.clock.monotonic()
        due = next((folder for folder, at in self._later.items() if at <= now), None)
        if due is not None:
            del self._later[due]
        return due

    def _take(self, folder: RunDir, writing: Beside[dict[str, Any]]) -> None:
        try:
            writing.result()
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
