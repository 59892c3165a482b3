"""What starts whole runs in tests: the command line in a process of its own, and what may be said of a finished run."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.records import Outcome
from legato_rl.run.processes import scripts_folder
from legato_rl.rundir import RunDir
from legato_rl.status import decide
from legato_rl.wire import RunStatus

PATIENCE_S = 120.0
"""Seconds after which a test gives up waiting for what must come."""
EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples" / "tasks.json"
SMALL = ("--backend", "fake", "--screen", "320x240")
FAKE = ("--policy-url", "fake", "--model", "fake", "--version", "v1")


def inline_task(name: str, **fields: Any) -> dict[str, Any]:
    """A task that needs no OSWorld; `fields` are laid over the entry."""
    config = {"id": name, "instruction": f"Do what the window of {name} asks.", "evaluator": {"func": "exact_match"}}
    return {"task_id": name, "config": config, **fields}


def tasks_file(folder: Path, *names: str) -> Path:
    """A tasks file of inline tasks."""
    path = folder / "tasks.json"
    path.write_text(json.dumps([inline_task(name) for name in names]))
    return path


class Cli:
    """`legato-rl` in a process of its own; its output (both streams) is read as it comes."""

    def __init__(
        self, *args: object, cwd: Path | None = None, stdin: str | None = None, wrap: Sequence[str] = (), **environment: str
    ) -> None:
        """`wrap` is a command that is given this one as its arguments."""
        self.process = subprocess.Popen(
            [*wrap, str(scripts_folder() / "legato-rl"), *map(str, args)],
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdout = self.process.stdout
        self.process.stdin.write((stdin or "").encode())
        self.process.stdin.close()
        self.output = ""

    def wait_for(self, text: str, seconds: float = PATIENCE_S) -> None:
        """Read the output until it holds `text`."""
        self.wait_until(lambda output: text in output, seconds)

    def wait_until(self, met: Callable[[str], bool], seconds: float = PATIENCE_S) -> None:
        """Read the output until it meets a condition."""
        deadline = SYSTEM_CLOCK.monotonic() + seconds
        while not met(self.output):
            assert self._read(deadline), f"the output ended, and is not what was waited for: {self.output}"

    def end(self, seconds: float = PATIENCE_S) -> int:
        """Read the output to its end; the exit code."""
        deadline = SYSTEM_CLOCK.monotonic() + seconds
        while self._read(deadline):
            continue
        return self.process.wait(max(0.1, deadline - SYSTEM_CLOCK.monotonic()))

    def _read(self, deadline: float) -> bool:
        readable, _, _ = select.select([self._stdout], [], [], max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        assert readable, f"nothing more is said: {self.output}"
        data = os.read(self._stdout.fileno(), 2**16)
        self.output += data.decode()
        return bool(data)

    def stop_reading(self) -> None:
        """Leave the output to nobody, as `| head -1` does once it has its line."""
        self._stdout.close()

    def below(self) -> list[psutil.Process]:
        """Every process that this one started, by whatever way."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def __enter__(self) -> Cli:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self._stdout.close()


def collect(out: Path, tasks: object, *args: object, **kwargs: Any) -> Cli:
    """`legato-rl collect` on small fake desktops, and (unless `args` name another) the bundled server."""
    policy = () if "--policy-url" in args else FAKE
    backend = () if "--backend" in args else SMALL
    return Cli("collect", "--tasks", tasks, "--out", out, *policy, *backend, *args, **kwargs)


def naming(text: str) -> list[str]:
    """The command lines of all processes that name `text`, this one's left out."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if text in line and process.pid != os.getpid():
            found.append(line)
    return found


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run; every line must be whole."""
    data = RunDir(folder).rollouts.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def check_accounts(folder: Path, *, finished: bool = True) -> list[dict[str, Any]]:
    """What must be true of the rows of every run (design, sections 4.2 to 4.6); the rows."""
    run = RunDir(folder)
    about, rows = run.load_run(), rows_of(folder)
    settings = about.settings
    keys = [(row["group_id"], row["attempt"], row["try"]) for row in rows]
    assert len(set(keys)) == len(keys), "a key has one row"
    graded: Counter[str] = Counter()
    for row in rows:
        # `decide` again, from the order of the file alone.
        status = decide(Outcome(row["outcome"]), row["try"], graded[row["group_id"]], settings.closing, settings.env_retries)
        assert row["status"] == status.value, row["rollout_id"]
        assert row["usable"] == (row["status"] in ("ok", "truncated"))
        assert (row["reward"] is not None) == (row["outcome"] in ("graded", "timed_out_graded"))
        graded[row["group_id"]] += row["reward"] is not None
    # After an error that was tried again comes another row.
    final = [row for row in rows if row["status"] != "retried" and row["rollout_id"] not in about.again]
    groups = [task.group_id for task in run.load_tasks()]
    attempts = {(group, attempt) for group in groups for attempt in range(settings.attempts)}
    ended = [(row["group_id"], row["attempt"]) for row in final]
    assert len(set(ended)) == len(ended), "an attempt ends once"
    assert set(ended) <= attempts
    if finished:
        assert set(ended) == attempts, "every attempt has ended"
    last = {(row["group_id"], row["attempt"]): row["try"] for row in final}
    for row in rows:
        key = (row["group_id"], row["attempt"])
        if row["status"] == "retried" and finished:
            assert last[key] > row["try"], "a retried try is followed by another"
    for key, try_ in last.items():
        assert {(*key, earlier) for earlier in range(try_)} <= set(keys), "no try is missing"
    return rows


def wait_for_status(cli: Cli, folder: Path, met: Callable[[RunStatus], bool]) -> RunStatus:
    """Ask a run's broker until its status meets a condition; the status."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    cli.wait_for("desktop")  # the first line comes after run.json
    with ControlClient(folder) as control:
        while SYSTEM_CLOCK.monotonic() < deadline:
            status = control.status(wait_s=5.0)
            if status is not None and met(status):
                return status
            select.select([], [], [], 0.02)
    raise AssertionError(f"the run did not come so far: {cli.output}")
