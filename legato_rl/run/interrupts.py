"""Was Ctrl-C pressed, though nobody was told? Counts it, for a loop to look at.

A KeyboardInterrupt is lost without a word where it falls into the finalizer of a file or an HTTP answer (CPython's
`iobase_finalize` clears whatever `close` raises), and every look at supervisord ends in one.
"""

from __future__ import annotations

import signal
from types import FrameType


class Interrupts:
    """How often Ctrl-C was pressed. Without `listen` (a library's caller has handlers of its own) it counts nothing."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Count from now on (main thread only); where SIGINT is ignored, as in a background job, it stays so."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)

    def check(self, seen: int) -> None:
        """KeyboardInterrupt where there were more than `seen`."""
        if self.count > seen:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        raise KeyboardInterrupt


INTERRUPTS = Interrupts()
"""The process's: it has one SIGINT."""
