"""How is a line appended so that it is there or not, whatever dies? DISK: one append-only file of JSON lines.

What was acknowledged is a prefix of the file that ends in a newline. Anything behind it is cut: after a failed write at
once, after a crash at the next start.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from legato_rl.errors import RecordError, SinkError
from legato_rl.rundir import write_file

log = logging.getLogger(__name__)


class Lines:
    """An append-only file of JSON objects, one a line; opened by one process at a time (store.py holds the lock)."""

    def __init__(self, path: Path, on_line: Callable[[dict[str, Any]], object], keep_torn: Path) -> None:
        """Open or make `path`, hand each whole line to `on_line`, and cut a torn tail.

        What is cut was never acknowledged; it is logged and kept as a file in the folder `keep_torn`. RecordError for a
        damaged line with others behind it; OSError where the folder cannot be written.
        """
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self.size = self._read(on_line)
            self._keep_tail(keep_torn)
            self._cut()
            # A predecessor may have died between its write and its fsync; what stands is about to be told as stored.
            os.fsync(self._fd)
        except BaseException:
            os.close(self._fd)
            raise

    def _read(self, on_line: Callable[[dict[str, Any]], object]) -> int:
        """Bytes of the whole lines at the start of the file."""
        good, total = 0, os.fstat(self._fd).st_size
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                value = _object(line)
                if value is None:
                    # A crash of the machine may also leave a tail with its newline but without all of its bytes.
                    if good + len(line) < total:
                        raise RecordError(f"{self._path} is damaged: its line {number} is no JSON object")
                    break
                on_line(value)
                good += len(line)
        return good

    def _keep_tail(self, folder: Path) -> None:
        torn = os.fstat(self._fd).st_size - self.size
        if not torn:
            return
        log.warning("cut a torn tail of %s: %d bytes from byte %d on, never acknowledged", self._path, torn, self.size)
        try:
            folder.mkdir(exist_ok=True)
            write_file(folder / f"{self._path.name}.torn-{self.size}", os.pread(self._fd, torn, self.size))
        except OSError as error:
            log.warning("the torn tail could not be kept in %s: %s", folder, error)

    def append(self, value: dict[str, Any]) -> None:
        """Write `value` as one line and fsync. On return it is stored.

        ValueError where `value` is no JSON (NaN); OSError where it could not be written, and then the file is what it
        was. SinkError where the fsync failed: what is on the disk is then unknown, so the process must end, and the
        next start looks at the tail anew.
        """
        line = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
        self._cut()
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._fd, memoryview(line)[written:], self.size + written)
        except OSError:
            # Where this fails too, the next append tries it again before it writes.
            with suppress(OSError):
                self._cut()
            raise
        try:
            os.fsync(self._fd)
        except OSError as error:
            # The kernel may now hold the line as clean without having written it: the next start must not find it.
            with suppress(OSError):
                self._cut()
            raise SinkError(f"fsync of {self._path} failed ({error.strerror}): check the disk, then resume") from error
        self.size += len(line)

    def _cut(self) -> None:
        """Go back to the last acknowledged byte."""
        if os.fstat(self._fd).st_size != self.size:
            os.ftruncate(self._fd, self.size)

    def fileno(self) -> int:
        """The open file's descriptor."""
        return self._fd

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object in `line`; None where it is none, or has no newline."""
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
