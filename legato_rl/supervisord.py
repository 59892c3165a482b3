"""What does supervisord run? Renders the configuration of a service's processes. PURE: text out of settings."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from legato_rl.errors import ConfigError

KEY_VARIABLE = "LEGATO_POLICY_KEY"
"""The one variable that holds the model server's key; only the proxy is started with it."""

STARTER_VARIABLE = "LEGATO_STARTER_PID"
"""The variable that holds the pid of who started a process: of `collect` or `serve` for supervisord, of that for its programs.
An operator's own supervisord sets none."""

START_S = 2
"""Seconds that a process must stay up to count as started (supervisord's startsecs)."""
START_TRIES = 3
"""Starts that may fail in a row before a process is FATAL (supervisord's startretries)."""
EXPECTED_EXITS = (0, 2)
"""Exit codes after which a process is not started again: done, which is told to leave, and wrong input (supervisord's
exitcodes)."""
WORKER_MODULE = "legato_rl.workers.main"
"""What another interpreter runs as a worker."""
LOST = "times the disk took nothing: what was said then may be lost"
"""What a log says, behind a number, where lines are missing."""
CHILD_FILES = 16
"""File descriptors that supervisord may need per program."""
INCLUDE_HEAD = f"""\
; Printed by `legato-rl serve --print-supervisord`, to be included in a supervisord of your own ([include] files = ...).
; {KEY_VARIABLE} is taken from supervisord's own environment; all programs but the proxy are started without it.
; It starts and stops these in order of their priority. `supervisorctl stop` takes them as they are named:
;   supervisorctl stop legato-rl-worker:* legato-rl-broker legato-rl-proxy legato-rl-sink
"""


@dataclass(frozen=True)
class Program:
    """One of the four roles as supervisord sees it. Lower priorities start first and stop last."""

    name: str
    priority: int
    stop_s: int
    count: int = 1

    @property
    def script(self) -> str:
        return f"legato-rl-{self.name}"


@dataclass(frozen=True)
class Layout:
    """Where a service's processes find everything. `worker_python` runs the workers where it is not None, as a module: its
    own scripts may be elsewhere."""

    root: Path
    """The service's root, or the run's folder: the one argument of each program."""
    logs: Path
    scripts: Path
    """The folder of the console scripts."""
    folder: Path
    """Where the programs start."""
    worker_python: Path | None = None

    def check(self, *more: Path) -> None:
        """ConfigError for a path, of these or of `more`, that the format cannot hold: it knows no quoting."""
        for path in (self.root, self.logs, self.scripts, self.folder, self.worker_python, *more):
            if path is not None and re.search(r"\s[;#]|[\r\n]", str(path)):
                raise ConfigError(
                    f"the folder {str(path)!r} cannot be used: supervisord reads none with ' ;', ' #' or a line end"
                )


def programs(desktops: int) -> list[Program]:
    """The service's programs, in start order; they stop in the reverse one."""
    return [
        Program("sink", priority=10, stop_s=20),
        Program("proxy", priority=20, stop_s=5),
        Program("broker", priority=30, stop_s=5),
        Program("worker", priority=40, stop_s=40, count=desktops),
    ]


def control_socket(sockets: Path) -> Path:
    """supervisord's own socket."""
    return sockets / "supervisor"


def render(layout: Layout, sockets: Path, desktops: int) -> str:
    """supervisord.conf for a supervisord of its own, with `desktops` workers. ConfigError for a path that it cannot hold."""
    layout.check(sockets)
    return "\n".join([_head(sockets, layout.logs, desktops), *(_program(p, layout) for p in programs(desktops))])


def render_include(layout: Layout, desktops: int) -> str:
    """What an operator's own supervisord includes. ConfigError for a path that it cannot hold.

    No [group:x]: supervisord stops the processes of a group all at once, and programs one after the other, by priority.
    """
    layout.check()
    return "\n".join([INCLUDE_HEAD, *(_program(p, layout, "legato-rl-") for p in programs(desktops))])


def _head(sockets: Path, logs: Path, desktops: int) -> str:
    socket = _escape(control_socket(sockets))
    return f"""; Rendered by legato-rl; made anew each time.
[supervisord]
nodaemon = true
silent = true
logfile = {_escape(logs / "supervisord.log")}
logfile_maxbytes = 64MB
logfile_backups = 3
pidfile = {_escape(sockets / "supervisord.pid")}
childlogdir = {_escape(logs)}
minfds = {1024 + CHILD_FILES * desktops}

[unix_http_server]
file = {socket}
chmod = 0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl = unix://{socket}
"""


def _program(program: Program, layout: Layout, prefix: str = "") -> str:
    # supervisord gives every program its own environment; all but the proxy lose the key before they start.
    command = [str(layout.scripts / program.script), str(layout.root)]
    if program.name == "worker" and layout.worker_python is not None:
        command = [str(layout.worker_python), "-m", WORKER_MODULE, str(layout.root)]
    if program.name != "proxy":
        command = ["/usr/bin/env", "-u", KEY_VARIABLE, *command]
    # A worker beats under its process's name, whoever its supervisord is.
    number = "-%(process_num)03d" if program.name == "worker" else ""
    process = f"{program.name}{number}" if number else f"{prefix}{program.name}"
    # supervisord expands this value twice (process_name is replaced the first time).
    log = f"{_escape(_escape(layout.logs))}/{program.name}{number}.log"
    return f"""[program:{prefix}{program.name}]
command = {_escape(shlex.join(command))}
process_name = {process}
numprocs = {program.count}
directory = {_escape(layout.folder)}
priority = {program.priority}
autostart = true
autorestart = unexpected
exitcodes = {",".join(map(str, EXPECTED_EXITS))}
startsecs = {START_S}
startretries = {START_TRIES}
stopsignal = TERM
stopwaitsecs = {program.stop_s}
stopasgroup = true
killasgroup = true
redirect_stderr = true
stdout_logfile = {log}
stdout_logfile_maxbytes = 64MB
stdout_logfile_backups = 3
"""


def _escape(text: Path | str) -> str:
    """supervisord expands `%`."""
    return str(text).replace("%", "%%")
