"""A desktop dies, hangs or is taken away in the middle of a run: is no reward written for it, and the next try right?

`legato-rl collect` on container desktops; the first try of each task meets its own fault, at a known point.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from bad.policy_server import BadServer, Habit, answer
from docker.errors import APIError, NotFound
from model_server import Answer, Body, ModelServer, completion
from scripted_policy import SCREEN, SCRIPTS, response
from whole_runs import Cli, check_accounts, collect, naming

from legato_rl.errors import ExitCode
from legato_rl.workers.desktop.owners import DESKTOP, OWNER, ours

pytestmark = pytest.mark.desktop

NOTE = "write-a-line"
TASKS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "container_tasks.json"
GOLD = b"Buy milk\nPost the letter\nCall the plumber\n"
ACT_S, LOOK_S = 40, 40
"""Deadlines of an action and of a look, for a desktop that hangs; an action takes a second, and a busy machine may stand
still for a quarter of a minute."""
RUN_S = 600.0
LOST = ("answer_lost", "guest_unreachable")
"""How a guest that is gone is met: whoever forwards its port may take the connection first."""
WORKER_LOST = ("worker_lost",)
SERVER = "'[g]uest_server'"
"""The guest server's processes, and not the shell that names them."""


def remove(container: Any) -> None:
    """Somebody takes the container away."""
    container.remove(force=True)


def kill_server(container: Any) -> None:
    """The guest server is killed, and nobody starts it again."""
    in_guest(container, f"pkill -STOP -x desktop-session && pkill -KILL -f {SERVER}")


def stop_server(container: Any) -> None:
    """The guest server takes connections and says nothing."""
    in_guest(container, f"pkill -STOP -f {SERVER}")


def restart_server(container: Any) -> None:
    """The guest server is killed and comes back, before anybody asks it something."""
    wait = "until curl -sf http://127.0.0.1:5000/legato/health; do :; done"
    in_guest(container, f"pkill -KILL -f {SERVER} && timeout 60 sh -c '{wait}'")


def pause(container: Any) -> None:
    """The whole desktop stands still."""
    container.pause()


def kill_worker(container: Any) -> None:
    """The process that the desktop belongs to is killed; the container lives."""
    os.kill(int(container.labels[OWNER].split(" ")[2]), signal.SIGKILL)


def in_guest(container: Any, command: str) -> None:
    """A shell's command, as root."""
    ended = container.exec_run(["sh", "-c", command])
    assert ended.exit_code == 0, ended


def has(container: Any, path: str) -> bool:
    """Whether there is such a file; in one that does not run there is none."""
    try:
        return bool(container.exec_run(["test", "-e", path]).exit_code == 0)
    except APIError:
        return False


@dataclass(frozen=True)
class Fault:
    """What is done to a desktop, when, and what the row must say: the types that it may have, and its phase.

    `graded`: while the evaluator waits for its gold file, in place of before the second action. `script`: which of the
    task's scripts is played, in every try. No `types`: nothing was lost, and the first try counts.
    """

    do: Callable[[Any], None]
    types: tuple[str, ...]
    phase: str
    graded: bool = False
    script: str = "solution"


FAULTS = {
    "server-restarted": Fault(restart_server, (), "", graded=True),
    "removed": Fault(remove, LOST, "act"),
    "removed-at-the-verdict": Fault(remove, LOST, "evaluate", graded=True),
    "server-killed": Fault(kill_server, LOST, "act", script="failure"),
    "server-stopped": Fault(stop_server, WORKER_LOST, "unknown"),
    "paused-at-the-verdict": Fault(pause, ("guest_timeout",), "evaluate", graded=True),
    "worker-killed": Fault(kill_worker, WORKER_LOST, "unknown", script="failure"),
}
"""By task."""


@dataclass
class Strikes:
    """Does each task's fault once. `struck`: the container of each, as it was; `tries`: which try it is in."""

    engine: Any
    struck: dict[str, Any] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    """Left as it was when the fault was done."""
    run: str = ""
    """The run's id, as the policy's first request names it."""
    _lock: Lock = field(default_factory=Lock)

    def strike(self, task: str) -> None:
        """Do the fault of a task to the desktop that plays it, unless that was done before."""
        with self._lock:
            if task in self.struck:
                return
            here = (one for one in ours(self.engine) if one.labels[DESKTOP].startswith(f"{self.run}-"))
            (container,) = (one for one in here if has(one, note(task)))
            self.struck[task] = container
            FAULTS[task].do(container)

    def gold(self, task: str) -> Habit:
        """Give the gold file of a task, after its fault where that belongs here."""

        def habit(server: BadServer, client: socket.socket) -> None:
            if FAULTS[task].graded:
                self.strike(task)
            answer(200, GOLD)(server, client)

        return habit


class Policy(ModelServer):
    """Plays every rollout by its task's script, and does the task's fault before its second action."""

    def __init__(self, strikes: Strikes) -> None:
        self._strikes = strikes
        super().__init__()

    def complete(self, body: Body, headers: dict[str, str], connection: socket.socket) -> Answer | None:
        """The next action."""
        run, _, rollout = headers.get("X-Session-ID", "").partition(":")
        task, _, which = rollout.partition(":")
        if task not in FAULTS:  # asked before the run
            return 200, completion()
        self._strikes.run = run
        if task not in self._strikes.struck:
            self._strikes.tries[task] = int(which.rpartition(":")[2])
        said = sum(message["role"] == "assistant" for message in body["messages"])
        if said == 1 and not FAULTS[task].graded:
            self._strikes.strike(task)
        return 200, completion(response(SCRIPTS[NOTE][FAULTS[task].script][said]))


def note(task: str) -> str:
    """The file that the task is about; no other desktop of the run has it."""
    return f"/home/user/Documents/{task}.txt"


def entry(task: str, web: str) -> dict[str, Any]:
    """A task of the set on a file of its own, whose gold file comes from `web`."""
    (usual,) = (one for one in json.loads(TASKS.read_text()) if one["task_id"] == NOTE)
    one = deepcopy(usual)
    one["task_id"] = one["config"]["id"] = task
    setup = json.dumps(one["config"]["config"])
    one["config"]["config"] = json.loads(setup.replace("/home/user/Documents/todo.txt", note(task)))
    evaluator = one["config"]["evaluator"]
    del evaluator["postconfig"]
    evaluator["result"]["path"] = note(task)
    evaluator["expected"] = {"type": "cloud_file", "path": f"{web}/{task}", "dest": "gold.txt"}
    return one


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its rows as they were stored, and the faults that were done in it."""

    folder: Path
    rows: list[dict[str, Any]]
    strikes: Strikes

    def met(self, task: str) -> dict[str, Any]:
        """The row of the try that met the task's fault. Where the machine is busy, another may have been lost before."""
        (row,) = (row for row in self.rows if row["task_id"] == task and self.is_struck(row))
        return row

    def is_struck(self, row: dict[str, Any]) -> bool:
        """Whether the try met its task's fault."""
        return bool(row["try"] == self.strikes.tries[row["task_id"]])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, engine: Any, desktop_image: str) -> Run:
    """One run of all of them, on two desktops."""
    folder = tmp_path_factory.mktemp("faults") / "run"
    strikes = Strikes(engine)
    policy = Policy(strikes)
    with BadServer([], gets={f"/v1/{task}": strikes.gold(task) for task in FAULTS}) as web:
        tasks = json.dumps([entry(task, web.url) for task in FAULTS])
        desktops = ("--backend", "container", "--image", desktop_image, "--screen", f"{SCREEN[0]}x{SCREEN[1]}", "--ram-gb", 2)
        limits = ("--deadline", f"act={ACT_S}", "--deadline", f"observe={LOOK_S}", "--env-retries", 3, "--stop-failures", 1)
        more = ("--desktops", 2, "--cpus", 2, "--group", 1, "--max-steps", 10, "--cache", folder.parent / "cache")
        told = ("--policy-url", policy.url, "--model", "m", "--version", "v1")
        try:
            with collect(folder, "-", *desktops, *limits, *more, *told, stdin=tasks) as cli:
                assert cli.end(RUN_S) == ExitCode.DONE, cli.output
        finally:
            policy.stop()
    return Run(folder, check_accounts(folder), strikes)


@pytest.mark.parametrize("task", [task for task, fault in FAULTS.items() if fault.types])
def test_a_fault(run: Run, task: str) -> None:
    """No reward and an error of the right kind for the try that met it; the next one is graded right.

    Where the machine is so busy that a further try is lost, that one has no reward either.
    """
    fault, met = FAULTS[task], run.met(task)
    *lost, last = sorted((row for row in run.rows if row["task_id"] == task), key=lambda row: int(row["try"]))
    assert task in run.strikes.struck
    assert met in lost
    assert [(row["status"], row["reward"]) for row in lost] == [("retried", None)] * len(lost)
    assert met["error"]["kind"] == "env"
    assert met["error"]["type"] in fault.types, met["error"]
    assert met["error"]["phase"] == fault.phase, met["error"]
    assert (last["status"], last["reward"]) == ("ok", 1.0 if fault.script == "solution" else 0.0)


def test_a_server_that_comes_back(run: Run) -> None:
    """It was killed while nobody asked it anything: nothing is lost, and the verdict stands."""
    assert "server-restarted" in run.strikes.struck
    row = run.met("server-restarted")
    assert (row["status"], row["reward"]) == ("ok", 1.0)


def test_what_a_dead_worker_left(run: Run) -> None:
    """Its container is taken away by the worker that starts in its place."""
    container, worker = run.strikes.struck["worker-killed"], run.met("worker-killed")["desktop"]
    said = (run.folder / "logs" / f"{worker}.log").read_text()
    assert f"removed what dead runs left: {container.labels[DESKTOP]}" in said


def test_the_next_rollout_on_that_desktop(run: Run) -> None:
    """It begins on a fresh one, also where the server came back: what clean is, that one no longer knows."""
    desktops = {row["desktop"] for row in run.rows}
    for desktop in desktops:
        rows = [row for row in run.rows if row["desktop"] == desktop]
        for before, after in pairwise(rows):
            if run.is_struck(before):
                assert after["reset"] != "fast", after["rollout_id"]


def test_nothing_is_left(run: Run, engine: Any) -> None:
    """No container that was struck, none of the run's, and no process."""
    for container in run.strikes.struck.values():
        with pytest.raises(NotFound):
            engine.containers.get(container.id)
    run_id = json.loads((run.folder / "run.json").read_text())["run_id"]
    assert [one for one in ours(engine) if one.labels[DESKTOP].startswith(run_id)] == []
    assert naming(str(run.folder)) == []


def test_the_folder_is_true(run: Run) -> None:
    """`legato-rl verify` finds nothing."""
    with Cli("verify", run.folder) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
