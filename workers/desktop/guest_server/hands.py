"""Who holds the prepared interpreter? Starts the hand, gives it one command at a time, starts it anew when it dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .clock import now
from .identity import User
from .run import Captures, Ended

READY = "ready"
"""What a hand says when it can take commands; anything else is why it cannot."""
END_S = 5.0
"""Seconds beyond its time that a command takes at most: in them the hand must have told that the killed one ended."""
GONE_S = 1.0
"""Seconds in which a hand that hung up must have ended."""


class Hands:
    """The hand of the desktop's user. `act` may be called from any thread; commands are done one after another."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The hand's process, which a reset leaves alone."""
        return self._process.pid if self._process else None

    def start(self, seconds: float | None) -> None:
        """Have a hand ready. OSError, which says why, where it does not come up, or not within `seconds`; None: however long.

        On a busy machine a hand takes its time. One that is killed for that begins anew, and takes even longer.
        """
        deadline = None if seconds is None else now() + seconds
        try:
            with self._alone(deadline):
                self._ready(deadline)
        except TimeoutError:
            raise OSError(f"the prepared interpreter has not started within {seconds:g} s") from None

    def act(self, code: str, timeout: float) -> Ended:
        """Run `code` in an interpreter that has pyautogui, which is started first where a policy ended the last one.

        TimeoutError after `timeout` seconds, in which all must be done: an earlier command, that start, and this one, which
        is killed then. Answer or error are there END_S + GONE_S seconds later at most, whatever a policy did to the hand.
        A command that ends its own interpreter, or the hand, ended by that signal: an answer like any other, and it does
        not go on. OSError where the hand says that it cannot start.
        """
        deadline = now() + timeout
        with suppress(TimeoutError), self._alone(deadline), Captures() as captures:
            returncode = self._do(self._ready(deadline), code, captures, deadline)
            if returncode is not None:
                return captures.ended(returncode)
        raise TimeoutError(f"Command '{code}' timed out after {timeout:g} seconds")

    def close(self) -> None:
        """Give the hand up."""
        with self._lock:
            self._drop(GONE_S)

    @contextmanager
    def _alone(self, deadline: float | None) -> Iterator[None]:
        """Hold the hand, which one thread does at a time. TimeoutError where another still does at the deadline."""
        if not self._lock.acquire(timeout=-1 if deadline is None else max(deadline - now(), 0.0)):
            raise TimeoutError
        try:
            yield
        finally:
            self._lock.release()

    def _ready(self, deadline: float | None) -> socket.socket:
        """The line to a hand that is ready. TimeoutError where a new one is not by the deadline: it is given up then."""
        if self._process is not None and self._process.poll() is not None:
            self._drop(GONE_S)
        if self._line is None:
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", f"{__package__}.hand", str(theirs.fileno())]
            how = self._user.popen()
            how["env"] = {**how["env"], "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
            with theirs:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True, **how
                )
            self._line = ours
            try:
                said = _read(ours, deadline).decode("utf-8", "replace").strip()
            except TimeoutError:
                self._drop(0.0)
                raise
            except (OSError, EOFError):
                raise OSError(f"the prepared interpreter did not start: it ended with {self._drop(GONE_S)}") from None
            if said != READY:
                self._drop(GONE_S)
                raise OSError(f"the prepared interpreter did not start: {said}")
        return self._line

    def _do(self, line: socket.socket, code: str, captures: Captures, deadline: float) -> int | None:
        """The exit code of `code`; None where it was killed at the deadline.

        TimeoutError where the hand has not told so END_S later: it is given up then.
        """
        end = deadline + END_S
        data = json.dumps({"code": code}).encode() + b"\n"
        pid: int | None = None
        try:
            # A long message goes in parts, the descriptors with the first.
            _limit(line, end)
            sent = socket.send_fds(line, [data], [captures.out, captures.err])
            _limit(line, end)
            # To send nothing fails too where the command has ended its hand by now, and then nobody would ask who it is.
            if sent < len(data):
                line.sendall(data[sent:])
            # not by the deadline: who is not known cannot be killed, and would act when nobody expects it
            what, number = _read(line, end).split()
            if what == b"ended":  # killed before it could say that it began
                return int(number)
            pid = int(number)
            try:
                return int(_read(line, deadline).split()[1])
            except TimeoutError:
                _kill(pid)
                _read(line, end)
                return None
        except (ConnectionError, EOFError):
            if pid is not None:
                _kill(pid)
            return self._drop(GONE_S)
        except BaseException:
            self._drop(0.0)
            raise

    def _drop(self, seconds: float) -> int:
        """Give the hand up; the exit code that it ended with. It is killed where it has not ended within `seconds`."""
        process, line, self._process, self._line = self._process, self._line, None, None
        if line is not None:
            line.close()
        if process is None:
            return -signal.SIGKILL
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _kill(pid: int) -> None:
    """End a command's process and its group, which it leads since before its pid was known."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _limit(line: socket.socket, deadline: float | None) -> None:
    """Have the next call on `line` end by the deadline. TimeoutError where that is over."""
    left = None if deadline is None else deadline - now()
    if left is not None and left <= 0:
        raise TimeoutError
    line.settimeout(left)


def _read(line: socket.socket, deadline: float | None) -> bytes:
    """One line. EOFError where the hand is gone, TimeoutError where the line is not there by the deadline."""
    data = b""
    while not data.endswith(b"\n"):
        _limit(line, deadline)
        # byte by byte: the next line may already be there
        more = line.recv(1)
        if not more:
            raise EOFError("it ended")
        data += more
    return data
