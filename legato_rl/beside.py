"""How does a loop have long work done without standing still? In a thread, whose end it looks at when it comes by."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")

AT_ONCE_BYTES = 2**20
"""Bytes of rows for which no thread is begun: they are read in some 10 ms."""


class Beside(Generic[T]):
    """`work` in a thread of its own, which ends with the process at the latest. What it touches is its own until `done`."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._result: T | None = None
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            # Also what no handler of the loop would catch: `result` raises it there.
            self._error = error

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether it has ended by an exception."""
        return self.done and self._error is not None

    def result(self) -> T:
        """Wait for the end: what the work gave, or raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]
