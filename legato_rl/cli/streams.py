"""What becomes of what is told when nobody reads it any more? On stderr it is dropped; on stdout it ends the command.

stderr has progress and remarks, and work goes on without a listener. stdout has what was asked for: where its reader has
gone, as in `| head`, nothing is left to do. Both hold below everything that writes, so that no writer needs to know.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, TextIO

from legato_rl.errors import ExitCode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Dropping(io.FileIO):
    """The stream of a descriptor; what cannot be written there (no reader, no space, a terminal that is gone) is dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        """How much was written: all of it, where it was dropped."""
        everything = memoryview(data).nbytes
        try:
            # None comes from a descriptor that somebody else made non-blocking, and that is full.
            return super().write(data) or everything
        except OSError:
            return everything


class Ending(io.FileIO):
    """The stream of a descriptor; where its reader has gone the command ends, with `ExitCode.UNREAD`, and says no more."""

    _unread = False

    def write(self, data: ReadableBuffer, /) -> int:
        """SystemExit the first time that nobody reads; what follows, as Python's own flush at its end, is dropped."""
        if self._unread:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            self._unread = True
            raise SystemExit(ExitCode.UNREAD) from None


def guard_streams() -> None:
    """Put both kinds in the place of this process's own stdout and stderr; a stream that is another's is left alone."""
    out, err = sys.__stdout__, sys.__stderr__
    if out is not None and sys.stdout is out:
        sys.stdout = _over(out, Ending)
    if err is not None and sys.stderr is err:
        sys.stderr = _over(err, Dropping, at_once=True)


def _over(stream: TextIO, kind: type[io.FileIO], at_once: bool = False) -> TextIO:
    """A stream that writes as `stream` does, to the same descriptor, through `kind`. `at_once`: each line as it comes."""
    stream.flush()
    raw = kind(stream.fileno(), "w", closefd=False)
    lines = at_once or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=lines)
