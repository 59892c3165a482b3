"""Whose turn is it? A bounded number of running requests, the others waiting in order, until their client hangs up."""

from __future__ import annotations

import math
import os
import select
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class QueueFull(Exception):
    """More requests are waiting than are allowed to."""


class HungUp(Exception):
    """The client closed its connection; nobody waits for this answer."""


class Slots:
    """At most `running` requests at once, at most `queued` behind them (None: no bound), first come, first served."""

    def __init__(self, running: int, queued: int | None = None) -> None:
        self._size = running
        self._bound = queued
        self._lock = Lock()
        self._turns: deque[int] = deque()
        self.running = 0
        """Requests that hold a slot."""

    @property
    def waiting(self) -> int:
        """Requests that wait for one."""
        return len(self._turns)

    @contextmanager
    def slot(self, client: socket.socket) -> Iterator[None]:
        """Hold a slot. QueueFull at once where the queue is; HungUp where the client leaves while it waits."""
        self._enter(client)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, client: socket.socket) -> None:
        with self._lock:
            if self.running < self._size:
                self.running += 1
                return
            if self._bound is not None and len(self._turns) >= self._bound:
                raise QueueFull
            turn = os.eventfd(0)
            self._turns.append(turn)
        try:
            _watch(client, turn, None)
        except HungUp:
            with self._lock:
                queued = turn in self._turns
                if queued:
                    self._turns.remove(turn)
            if not queued:  # its turn had come in the same moment
                self._leave()
            raise
        finally:
            os.close(turn)

    def _leave(self) -> None:
        """Hand the slot to the first that waits, or give it back."""
        with self._lock:
            if self._turns:
                os.eventfd_write(self._turns.popleft(), 1)
            else:
                self.running -= 1


def pause(client: socket.socket, seconds: float) -> None:
    """Let seconds pass. HungUp as soon as the client leaves."""
    _watch(client, None, seconds)


def _watch(client: socket.socket, turn: int | None, seconds: float | None) -> None:
    """Sleep until `turn` is signalled or the seconds are over, without waking between. HungUp if the client left."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    if turn is not None:
        poll.register(turn, select.POLLIN)
    events = poll.poll(None if seconds is None else math.ceil(seconds * 1000))
    if any(fd == client.fileno() for fd, _ in events):
        raise HungUp
