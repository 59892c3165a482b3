"""How is a command run in the guest? As the user, and until the command ends: its pipes may live on in a background child."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from .identity import User


@dataclass(frozen=True)
class Ended:
    """What a command left: text of both outputs, and its exit code (minus the signal's number where one ended it)."""

    output: str
    error: str
    returncode: int

    def json(self) -> dict[str, Any]:
        """As /execute tells it."""
        return {"status": "success", **asdict(self)}


class Captures:
    """Files in memory that a command writes to. Unlike pipes they make nobody wait for who else holds them."""

    def __init__(self) -> None:
        self.out = os.memfd_create("out")
        self.err = os.memfd_create("err")

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.out)
        os.close(self.err)

    def ended(self, returncode: int) -> Ended:
        """What was written until now."""
        return Ended(self._text(self.out), self._text(self.err), returncode)

    @staticmethod
    def _text(fd: int) -> str:
        return os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")


def run(user: User, command: list[str] | str, *, shell: bool, timeout: float, merged: bool = False, **how: Any) -> Ended:
    """Run `command` as `user` and wait for it, not for its background children.

    OSError where it cannot be started, TimeoutError after `timeout` seconds: then its process group is killed.
    """
    with Captures() as captures:
        errors = captures.out if merged else captures.err
        process = subprocess.Popen(
            command,
            shell=shell,
            stdin=subprocess.DEVNULL,
            stdout=captures.out,
            stderr=errors,
            start_new_session=True,
            **{**user.popen(), **how},
        )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise TimeoutError(f"Command '{command}' timed out after {timeout:g} seconds") from None
        return captures.ended(process.returncode)


def launch(user: User, command: list[str] | str, *, shell: bool) -> subprocess.Popen[bytes]:
    """Start `command` as `user` and leave it alone. OSError where it cannot be started."""
    process = subprocess.Popen(
        command,
        shell=shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **user.popen(),
    )
    # somebody must wait for it, else its zombie stays
    threading.Thread(target=process.wait, name="wait", daemon=True).start()
    return process
