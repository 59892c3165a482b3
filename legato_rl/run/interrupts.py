"""Was the command told to end, though nobody heard it? Counts Ctrl-C and SIGTERM, for a loop to look at.

A KeyboardInterrupt is lost without a word where it falls into the finalizer of a file or an HTTP answer (CPython's
`iobase_finalize` clears whatever `close` raises), and every look at supervisord ends in one.
"""

from __future__ import annotations

import signal
from types import FrameType

from legato_rl.errors import Terminated

RAISED: dict[int, type[KeyboardInterrupt]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}


class Interrupts:
    """How often the command was told to end; nothing without `listen`, since a library's caller has handlers of its own."""

    def __init__(self) -> None:
        self.count = 0
        self._last: type[KeyboardInterrupt] = KeyboardInterrupt

    def listen(self) -> None:
        """Count from now on (main thread only); a signal that is ignored, as SIGINT in a background job, stays so."""
        for number in RAISED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def check(self, seen: int) -> None:
        """KeyboardInterrupt, or Terminated, where the command was told more often than `seen`."""
        if self.count > seen:
            raise self._last

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._last = RAISED[number]
        raise self._last


INTERRUPTS = Interrupts()
"""The process's: its signals are one."""
