"""How is one chaos run carried through? Starts commands, kills what its plan says, starts again, until the run has finished."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil
from chaos_checks import Findings, check_folder, check_logs
from chaos_plan import Blow, Outage, Plan
from chaos_server import Server

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.errors import ControlError, ExitCode, LegatoError
from legato_rl.run.prepare import SOCKETS_PREFIX
from legato_rl.run.processes import child_command, log_tail, scripts_folder
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

TURN_S = 0.05
PATIENCE_S = 300.0
"""Seconds that a command may take; these runs take less than half a minute on a machine that is free."""
GONE_S = 30.0
"""Seconds after a command's end, by whatever way, in which everything below it must have ended."""
MOST_COMMANDS = 15
FINISHED = (ExitCode.DONE, ExitCode.SHORT)
MARKS = {
    **{role: f"legato-rl-{role}" for role in ("worker", "broker", "proxy", "sink")},
    "supervisord": "legato_rl.run.supervise",
}
"""What a role's command line holds."""
OF_A_COMMAND = ("collect", "serve", "--connect", "--resume")
"""Words by which commands are counted."""
OF_SERVICE = ("a", "b")
"""The runs that a service does at once."""


@dataclass
class Bout:
    """One chaos run below `root`, a new folder of a short name. `fight()` once."""

    plan: Plan
    root: Path
    findings: Findings = field(default_factory=Findings)
    told: Counter[str] = field(default_factory=Counter)
    """How often what was done: commands, kills by role, rows by outcome."""
    gone_s: float = 0.0
    """The longest that anything lived on after its command."""

    def __post_init__(self) -> None:
        self._dice = Random(f"victims {self.plan.seed}")
        self._left: list[Blow | Outage] = [*self.plan.blows, *self.plan.outages]
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._clients: dict[str, psutil.Popen] = {}
        """By run: the last `collect --connect` that was to submit it."""
        (self.root / "t").mkdir()
        self._environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        self._environment["TMPDIR"] = str(self.root / "t")
        self._tasks = self.root / "tasks.json"
        self._tasks.write_text(json.dumps(self.plan.tasks))

    def fight(self) -> None:
        """Carry the run to its end, and look at what is there then."""
        self._server = Server(self.plan)
        try:
            folders = self._as_service() if self.plan.service else self._alone()
        finally:
            self._server.close()
        for folder in folders:
            for row in check_folder(folder, self.plan.server, self.findings):
                self.told[row["outcome"]] += 1
                self.told["resampled"] += sum(step["model"].get("resampled", 0) for step in row["steps"])
            check_logs(folder / "logs", self.findings)
        for logs in (self.root, self.root / "d" / "logs"):
            check_logs(logs, self.findings)
        for left in (self.root / "t").glob(f"{SOCKETS_PREFIX}*"):
            self.findings.found("sockets_left", left.name)

    # --- a run of its own --------------------------------------------------------------------------------------------

    def _alone(self) -> list[Path]:
        out = self.root / "run"
        new = ["--tasks", self._tasks, *self._place(), *self.plan.of_run]
        for _ in range(MOST_COMMANDS):
            started = _has_begun(RunDir(out).run_file)
            command = self._start("collect", "--out", out, *(["--resume"] if started else new))
            code = self._watch(command, out)
            if code in FINISHED:
                if self.plan.again:
                    self._resume_again(out)
                return [out]
            self._judge(code)
        self.findings.found("stuck", f"not finished after {MOST_COMMANDS} commands")
        return [out]

    def _resume_again(self, out: Path) -> None:
        self._left.clear()
        before = _contents(out)
        code = self._watch(self._start("collect", "--out", out, "--resume"), out)
        if code not in FINISHED or _contents(out) != before:
            self.findings.found("changed", f"exit code {code}: {log_tail(self.root / 'commands.log')}")

    # --- a service ---------------------------------------------------------------------------------------------------

    def _as_service(self) -> list[Path]:
        service = ServiceDir(self.root / "d")
        folders = [service.runs / name for name in OF_SERVICE]
        for _ in range(MOST_COMMANDS):
            command = self._start("serve", "--dir", service.root, *self._place(), "--seed", self.plan.seed)
            code = self._watch(command, service.root, folders)
            if code == ExitCode.DONE:
                return folders
            self._judge(code)
        self.findings.found("stuck", f"not finished after {MOST_COMMANDS} starts of the service")
        return folders

    def _tend(self, service: Path, folders: list[Path]) -> None:
        """Submit what is not there, have go on what stopped, shut down when all is done."""
        ends = [RunDir(folder).load_end() for folder in folders]
        for folder, end in zip(folders, ends, strict=True):
            self._tend_client(service, RunDir(folder))
            if end is not None and end["state"] != "finished":
                with suppress(LegatoError), ControlClient(service) as control:
                    control.resume_run(folder.name)
        if all(end is not None and end["state"] == "finished" for end in ends):
            with suppress(ControlError), ControlClient(service) as control:
                control.shutdown()

    def _tend_client(self, service: Path, run: RunDir) -> None:
        """Have a client submit the run until it is there. One that was killed is started again, and follows what is there."""
        name, submitted = run.root.name, run.run_file.exists()
        client = self._clients.get(name)
        code = None if client is None else client.poll()
        if client is not None and code is None:
            return
        self._clients.pop(name, None)
        if code not in (None, -9, ExitCode.BAD_INPUT, ExitCode.STOPPED, *FINISHED):
            self.findings.found("bugs", f"a client ended with {code}: {log_tail(self.root / 'clients.log', lines=1)}")
        if not submitted or code == -9:
            new = ("--tasks", self._tasks, *_of_connection(self.plan))
            which = ("--connect", service, "--name", name)
            self._clients[name] = self._start("collect", *which, *(["--resume"] if submitted else new))

    # --- commands ----------------------------------------------------------------------------------------------------

    def _place(self) -> list[str]:
        policy = ["--policy-url", self._server.url, "--model", "fake", "--version", "v1"]
        return [*policy, "--backend", "fake", "--screen", "320x240", "--desktops", str(self.plan.desktops), *self.plan.of_place]

    def _start(self, *arguments: object) -> psutil.Popen:
        self.told[" ".join(["command", *(str(word) for word in arguments if word in OF_A_COMMAND)])] += 1
        command = [str(scripts_folder() / "legato-rl"), *map(str, arguments)]
        with (self.root / ("clients.log" if "--connect" in arguments else "commands.log")).open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            return psutil.Popen(
                child_command(command, "KILL"), env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _watch(self, command: psutil.Popen, folder: Path, of_service: list[Path] | None = None) -> int:
        """Let the command run to its end, hitting what is due; its exit code. Everything below it must be gone then."""
        clock = SYSTEM_CLOCK
        began = clock.monotonic()
        while command.poll() is None:
            seconds = clock.monotonic() - began
            self._server.turn(clock.monotonic())
            rows = sum(self._rows(each) for each in of_service or [folder])
            for due in [each for each in self._left if rows >= each.after_rows and seconds >= each.wait_s]:
                self._left.remove(due)
                self._hit(command, due)
            if of_service is not None:
                self._tend(folder, of_service)
            if seconds > PATIENCE_S:
                self.findings.found("stuck", f"a command took over {PATIENCE_S:.0f} s: {log_tail(self.root / 'commands.log')}")
                command.kill()
            clock.sleep(TURN_S)
        self._server.turn(float("inf"))
        for client in self._clients.values():
            client.kill()
            client.wait()
        self._clients.clear()
        self._wait_for_all_to_go()
        return int(command.wait())

    def _hit(self, command: psutil.Popen, due: Blow | Outage) -> None:
        if isinstance(due, Outage):
            self.told["server outages"] += 1
            self._server.die(SYSTEM_CLOCK.monotonic() + due.down_s)
            return
        with suppress(psutil.NoSuchProcess):
            below = [(process, " ".join(_command_line(process))) for process in command.children(recursive=True)]
            victims: list[tuple[str, psutil.Process]] = []
            for role in due.victims:
                mark = MARKS.get(role)
                these = [process for process, line in below if mark and mark in line and process not in dict(victims).values()]
                if role == "client":
                    these = [client for client in self._clients.values() if client.poll() is None]
                if role == "command":
                    victims.append((role, command))
                elif these:
                    victims.append((role, self._dice.choice(these)))
            # Found first, then hit: what is below a dead one is hard to find.
            for role, process in victims:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    self.told[f"kill {role}"] += 1
            self.told["two at once"] += len(victims) == 2

    def _judge(self, code: int) -> None:
        """A command ended early: after a kill, or resumable, or since the server refused it; nothing else."""
        last = log_tail(self.root / "commands.log", lines=1)
        if code == ExitCode.BAD_INPUT and "policy-url" in last:
            self.told["refused by the server"] += 1
        elif code not in (ExitCode.STOPPED, -9):
            self.findings.found("bugs", f"a command ended with {code}: {last}")

    def _wait_for_all_to_go(self) -> None:
        began = SYSTEM_CLOCK.monotonic()
        while left := _naming(str(self.root)):
            if SYSTEM_CLOCK.monotonic() - began > GONE_S:
                for process in left:
                    self.findings.found("processes_left", " ".join(_command_line(process)))
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            SYSTEM_CLOCK.sleep(0.2)
        self.gone_s = max(self.gone_s, SYSTEM_CLOCK.monotonic() - began)

    def _rows(self, folder: Path) -> int:
        with suppress(FileNotFoundError):
            path = RunDir(folder).rollouts
            size = path.stat().st_size
            if self._sizes.get(path, (-1, 0))[0] != size:
                self._sizes[path] = (size, path.read_bytes().count(b"\n"))
            return self._sizes[path][1]
        return 0


def _has_begun(file: Path) -> bool:
    """Whether a `collect` wrote its file. One that was killed before it started anything must be given a new folder."""
    if not file.exists():
        shutil.rmtree(file.parent, ignore_errors=True)
    return file.exists()


def _of_connection(plan: Plan) -> tuple[str, ...]:
    return ("--version", "v1", *plan.of_run)


def _contents(out: Path) -> dict[str, bytes]:
    """What a resume of a finished run must not change: everything but the locks, and the moment of its end."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and "lock" not in path.name and path.name != "end.json"
    }


def _command_line(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _naming(text: str) -> list[psutil.Process]:
    """The processes whose command line names `text`, this one left out."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and any(text in part for part in _command_line(process))
    ]
