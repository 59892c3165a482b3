"""How are a run's processes started, watched and ended? supervisord as our child, in a session of its own.

It is started by exec alone (no fork of Python code, so a trainer that holds CUDA may call this), and ends when we do,
also after SIGKILL: `setpriv --pdeathsig` tells it, and it ends what it started.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import sysconfig
import xmlrpc.client
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

from legato_rl.clock import Clock
from legato_rl.errors import ConfigError
from legato_rl.supervisord import KEY_VARIABLE, STARTER_VARIABLE, control_socket

STOP_S = 90.0
"""Seconds that supervisord gets to stop its programs, before its session is killed."""
TURN_S = 0.1
"""Seconds between two questions to a supervisord that is stopping."""


def scripts_folder() -> Path:
    """Where this installation keeps its console scripts. ConfigError where they are not installed."""
    for folder in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
        if (folder / "legato-rl-worker").exists():
            return folder
    found = shutil.which("legato-rl-worker")
    if found is None:
        raise ConfigError("legato-rl-worker is not installed beside this Python: install the package, do not just import it")
    return Path(found).parent


def child_command(command: list[str], death_signal: str) -> list[str]:
    """`command` so that it gets `death_signal` when the thread that starts it ends."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ConfigError("setpriv is not installed: install util-linux, which has it")
    return [setpriv, "--pdeathsig", death_signal, *command]


def child_environment(key: str | None) -> dict[str, str]:
    """This process's environment, with the model server's key or without any."""
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    if key is not None:
        environment[KEY_VARIABLE] = key
    return environment


KILL_S = 5.0
"""Seconds that killed processes get to be gone."""


@dataclass(frozen=True)
class ProcessState:
    """A program as supervisord sees it; `state` is its own word (STARTING, RUNNING, BACKOFF, FATAL, EXITED …)."""

    name: str
    state: str
    pid: int
    exit_code: int


class Supervisor:
    """A supervisord and everything below it. `start` once, then `states`, then `stop` or `kill`."""

    def __init__(self, conf: Path, sockets: Path, logs: Path, clock: Clock) -> None:
        self._conf = conf
        self._logs = logs
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._transport = SupervisorTransport(None, None, f"unix://{control_socket(sockets)}")
        self._server = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=self._transport)

    def start(self, key: str | None) -> None:
        """Start supervisord, with the key in its environment."""
        command = [sys.executable, "-m", "legato_rl.run.supervise", "-n", "-c", str(self._conf)]
        with (self._logs / "supervisord.err").open("wb") as log:
            self._process = subprocess.Popen(
                child_command(command, "TERM"),
                env={**child_environment(key), STARTER_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> bool:
        """Whether supervisord itself runs."""
        return self._process is not None and self._process.poll() is None

    def states(self) -> dict[str, ProcessState] | None:
        """Every program by name; None where supervisord does not answer (not up yet, or gone)."""
        try:
            infos: Any = self._server.supervisor.getAllProcessInfo()
        except (OSError, http.client.HTTPException, xmlrpc.client.Error):
            # The connection would refuse every further question.
            self._transport.close()
            return None
        return {info["name"]: ProcessState(info["name"], info["statename"], info["pid"], info["exitstatus"]) for info in infos}

    def stop(self) -> None:
        """End everything in stop order; kill what does not end in STOP_S seconds."""
        if self._process is None:
            return
        if self.alive():
            self._process.terminate()
        give_up = self._clock.monotonic() + STOP_S
        while self.alive() and self._clock.monotonic() < give_up:
            # supervisord ends one priority after the other, each in a turn of its loop; a question gives it a turn at once.
            self.states()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TURN_S)
        if self.alive():
            self.kill()

    def kill(self) -> None:
        """End everything at once. What supervisord cannot be asked for any more ends by its own guard."""
        if self._process is None or not self.alive():
            return
        family = [psutil.Process(self._process.pid)]
        with suppress(psutil.NoSuchProcess):
            # supervisord first: it would start again what ends before it.
            family += family[0].children(recursive=True)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(family, timeout=KILL_S)


def end(supervisor: Supervisor) -> None:
    """Stop the processes; Ctrl-C while that lasts kills them."""
    try:
        supervisor.stop()
    except KeyboardInterrupt:
        supervisor.kill()
        raise


def log_tail(path: Path, lines: int = 5) -> str:
    """The last lines of a log; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
