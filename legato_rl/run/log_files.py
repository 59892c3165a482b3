"""What becomes of supervisord when its disk takes no log line? DISK: its log files, its own and its programs'.

supervisord prints the error that a log file gives it, to a file on the same disk, and ends of the error that it gets there.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from supervisor.loggers import LevelsByName, LogRecord, RotatingFileHandler

from legato_rl.supervisord import LOST


class LogFile(RotatingFileHandler):  # type: ignore[misc]
    """A log file that goes on when it can be written again; what is said until then is lost, and how much it says then."""

    _lost = 0

    def emit(self, record: Any) -> None:
        """Write a line, and begin a new file where this one is full of them."""
        if lost := self._lost:
            self._lost = 0
            self._write(LogRecord(LevelsByName.WARN, f"{lost} {LOST}\n"))
            if self._lost:
                self._lost = lost
        self._write(record)

    def _write(self, record: Any) -> None:
        try:
            if self.stream.closed:
                # The disk failed it between the old file and the new one.
                self.closed = True
                self.reopen()
        except OSError:
            self._lost += 1
            return
        with suppress(OSError):
            super().emit(record)

    def close(self) -> None:
        """Close the file; what it still holds back is lost where it cannot be written."""
        with suppress(OSError):
            super().close()

    def handleError(self) -> None:
        """Print what a line failed of, unless that is the disk, which the sink tells of."""
        if isinstance(sys.exc_info()[1], OSError):
            self._lost += 1
        else:
            super().handleError()
