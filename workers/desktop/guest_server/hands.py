"""Who holds the prepared interpreter? Starts the hand, gives it one command at a time, starts it anew when it dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from .clock import now
from .identity import User
from .run import Captures, Ended

READY = "ready"
"""What a hand says when it can take commands; anything else is why it cannot."""
TAKE_S = 60.0
"""Seconds in which a hand that is ready must have taken a command, and must have told that a killed one ended."""


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
        if not self._lock.acquire(timeout=-1 if seconds is None else seconds):
            raise OSError(f"the prepared interpreter has not started within {seconds:g} s")
        try:
            self._ready(None if deadline is None else max(deadline - now(), 0.001))
        finally:
            self._lock.release()

    def act(self, code: str, timeout: float) -> Ended:
        """Run `code` in an interpreter that has pyautogui. TimeoutError after `timeout` seconds: then it is killed.

        A command that ends its own interpreter, or the hand, ended by that signal: an answer like any other. OSError where
        a hand must be started first, and is not ready within as many seconds.
        """
        with self._lock, Captures() as captures:
            line = self._ready(timeout)
            try:
                line.settimeout(TAKE_S)
                data = json.dumps({"code": code}).encode() + b"\n"
                # A long message goes in parts, the descriptors with the first.
                line.sendall(data[socket.send_fds(line, [data], [captures.out, captures.err]) :])
                return captures.ended(self._wait(line, code, timeout))
            except (ConnectionError, EOFError):
                return captures.ended(self._drop())
            except BaseException:
                self._drop()
                raise

    def close(self) -> None:
        """Give the hand up."""
        with self._lock:
            self._drop()

    def _ready(self, seconds: float | None) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._drop()
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
                ours.settimeout(seconds)
                said = self._read(ours).decode("utf-8", "replace").strip()
            except TimeoutError:
                self._drop()
                raise OSError(f"the prepared interpreter has not started within {seconds:g} s") from None
            except (OSError, EOFError):
                raise OSError(f"the prepared interpreter did not start: it ended with {self._drop()}") from None
            if said != READY:
                self._drop()
                raise OSError(f"the prepared interpreter did not start: {said}")
        return self._line

    def _wait(self, line: socket.socket, code: str, timeout: float) -> int:
        """The exit code of the command that was just sent."""
        deadline = now() + timeout
        line.settimeout(TAKE_S)
        pid = int(self._read(line))
        try:
            line.settimeout(max(deadline - now(), 0.001))
            return int(self._read(line))
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            line.settimeout(TAKE_S)
            self._read(line)
            raise TimeoutError(f"Command '{code}' timed out after {timeout:g} seconds") from None

    @staticmethod
    def _read(line: socket.socket) -> bytes:
        """One line. EOFError where the hand is gone, TimeoutError by the socket's time-out."""
        data = b""
        while not data.endswith(b"\n"):
            # byte by byte: the next line may already be there
            more = line.recv(1)
            if not more:
                raise EOFError("it ended")
            data += more
        return data

    def _drop(self) -> int:
        """Give the hand up; the exit code that it ended with."""
        process, line, self._process, self._line = self._process, self._line, None, None
        if line is not None:
            line.close()
        if process is None:
            return -signal.SIGKILL
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
