"""How close does a run come to what its waits allow? A real run's makespan against a simulated one. JSON out.

32 fake desktops with small screens, 16 groups of 8, and waits of seconds with a long tail: those of the desktop (reset,
action, screen, evaluation) and those of the bundled policy server. With and without `--oversample 0.25`. Every wait is
drawn from (seed, group, attempt, try, step), so the simulation (simulate.py) has the very same ones without being told:
it plays each attempt with the product's own try, agent, desktop and policy against a clock that only counts
(courses.py), and hands the attempts out by the product's own core. `courses_agree` says how many graded rows tell the
same moves and reward as the play.

A makespan is from the first assignment (the earliest `started_at`) to the last stored row (the file's mtime). Two
simulations: in `simulated_s` a desktop is ready when it was in the run (its first `started_at`), since the start of 32
Pythons is a wait of this machine's, not of the run's; in `simulated_at_once_s` all are ready at the first assignment.
Each has its ratio.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from courses import Course, play
from simulate import Simulation

from legato_rl.config import DesktopConfig, FakeConfig, PolicyConfig
from legato_rl.fake.chat import Chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.records import GRADED_OUTCOMES, RolloutKey
from legato_rl.run.api import collect
from legato_rl.rundir import RunDir, RunFile, TaskSpec

SEED = 1
DESKTOPS, GROUPS, GROUP = 32, 16, 8
WAITS = FakeConfig(reset_s=4.0, act_s=0.7, settle_s=0.7, eval_s=2.0, tail=1.0)
SERVER = FakePolicyConfig(latency=1.5, tail=1.0, seed=SEED)
OVERSAMPLES = (0.0, 0.25)
EVALUATOR = {"func": "exact_match"}
"""Of every task; the fake desktop grades by its own state."""


def tasks() -> list[dict[str, Any]]:
    """The groups' tasks: the window that the fake desktop draws for each."""
    instruction = "Do what the window asks."
    return [
        {"task_id": f"form-{i:02}", "config": {"id": f"form-{i:02}", "instruction": instruction, "evaluator": EVALUATOR}}
        for i in range(GROUPS)
    ]


class Server:
    """The bundled policy server as a process."""

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "legato_rl", "fake-policy", "--port", "0", "--seed", str(SERVER.seed)]
        command += ["--latency", str(SERVER.latency), "--tail", str(SERVER.tail)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()


def run(out: Path, oversample: float) -> dict[str, float]:
    """A real run. Seconds of the whole call, CPU seconds of all its processes, and how busy the machine was."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    psutil.cpu_percent()
    with Server() as url:
        collect(
            tasks(),
            PolicyConfig(url, "fake", version="bench", seed=SEED),
            out,
            desktop=DesktopConfig(backend="fake", screen_size=(320, 240), seed=SEED, fake=WAITS),
            desktops=DESKTOPS,
            group=GROUP,
            oversample=oversample,
        )
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "machine_cpu_share": psutil.cpu_percent() / 100}


def rows_of(folder: RunDir) -> list[dict[str, Any]]:
    """The run's rows."""
    return [json.loads(line) for line in folder.rollouts.read_bytes().splitlines()]


def seconds(moment: str) -> float:
    """A row's moment in seconds since the epoch."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def handovers(rows: list[dict[str, Any]]) -> list[float]:
    """Seconds from the end of a try to the start of the next on its desktop: stored, told, assigned, begun."""
    by_desktop: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["started_at"]:
            by_desktop.setdefault(row["desktop"], []).append((seconds(row["started_at"]), seconds(row["ended_at"])))
    return [after[0] - before[1] for tries in by_desktop.values() for before, after in pairwise(sorted(tries))]


class Courses:
    """The courses of a run's attempts, each played once."""

    def __init__(self, run_file: RunFile, specs: list[TaskSpec]) -> None:
        self._run = run_file
        self._tasks = {spec.group_id: spec for spec in specs}
        self._chat = Chat(SERVER)
        self._played: dict[RolloutKey, Course] = {}

    def of(self, key: RolloutKey) -> Course:
        """The course of a try."""
        if key not in self._played:
            self._played[key] = play(self._run, self._tasks[key.group], key, self._chat)
        return self._played[key]


def compare(folder: RunDir, spent: dict[str, float]) -> dict[str, Any]:
    """The run in `folder` against both simulations of it."""
    run_file, specs, rows = folder.load_run(), folder.load_tasks(), rows_of(folder)
    started: dict[str, float] = {}
    for row in rows:
        if row["started_at"]:
            at = seconds(row["started_at"])
            started[row["desktop"]] = min(at, started.get(row["desktop"], at))
    first = min(started.values())
    real = folder.rollouts.stat().st_mtime - first

    courses = Courses(run_file, specs)
    as_it_was = Simulation(run_file, specs, courses.of, sorted(at - first for at in started.values()))
    simulated = as_it_was.makespan()
    at_once = Simulation(run_file, specs, courses.of, [0.0] * len(started)).makespan()
    graded = [row for row in rows if row["outcome"] in {outcome.value for outcome in GRADED_OUTCOMES}]
    played = [courses.of(RolloutKey(run=r["run_id"], group=r["group_id"], attempt=r["attempt"], try_=0)) for r in graded]
    longer = [row["timing"]["total_s"] / course.seconds for row, course in zip(graded, played, strict=True)]
    steps = sum(row["n_steps"] for row in rows)
    return {
        "oversample": run_file.settings.oversample,
        "real_s": round(real, 2),
        "simulated_s": round(simulated, 2),
        "ratio": round(real / simulated, 4),
        "simulated_at_once_s": round(at_once, 2),
        "ratio_at_once": round(real / at_once, 4),
        "desktops": len(started),
        "last_desktop_ready_s": round(max(started.values()) - first, 2),
        "command_wall_s": round(spent["wall_s"], 2),
        "command_cpu_s": round(spent["cpu_s"], 2),
        "own_cpu_share": round(spent["cpu_s"] / spent["wall_s"] / (psutil.cpu_count() or 1), 3),
        "machine_cpu_share": round(spent["machine_cpu_share"], 3),
        "cpu_ms_per_step": round(1000 * spent["cpu_s"] / steps, 1),
        "steps": steps,
        "rows": dict(sorted(Counter(row["status"] for row in rows).items())),
        "rows_simulated": dict(sorted(as_it_was.statuses.items())),
        "courses_agree": f"{sum(c.agrees(r) for r, c in zip(graded, played, strict=True))} of {len(graded)}",
        "rollout_over_its_waits": round(statistics.median(longer), 4),
        "handover_ms": round(1000 * statistics.median(handovers(rows)), 1),
        "rollout_waits_s": round(statistics.median(course.seconds for course in played), 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="legato-bench-") as name:
        for number in range(options.rounds):
            for oversample in OVERSAMPLES:
                folder = RunDir(Path(name) / f"run-{number}-{oversample}")
                found.append(compare(folder, run(folder.root, oversample)))
                print(f"oversample {oversample}: ratio {found[-1]['ratio']}", file=sys.stderr)
    medians = {
        str(oversample): {
            figure: statistics.median(run[figure] for run in found if run["oversample"] == oversample)
            for figure in ("real_s", "simulated_s", "ratio", "ratio_at_once", "command_wall_s", "command_cpu_s")
        }
        for oversample in OVERSAMPLES
    }
    setting = {"desktops": DESKTOPS, "groups": GROUPS, "group": GROUP, "waits": WAITS.model_dump(exclude_defaults=True)}
    setting |= {"latency": SERVER.latency, "latency_tail": SERVER.tail, "cores": psutil.cpu_count()}
    print(json.dumps({"bench": "efficiency", "setting": setting, "median": medians, "runs": found}, indent=1))


if __name__ == "__main__":
    main()
