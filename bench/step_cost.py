"""What does one step cost of its own, and does that grow with the history? CPU seconds and bytes. JSON out.

Rollouts of 60 steps on one fake desktop of 1920 × 1080 whose screenshots weigh about 1 MB, with up to 20 of them in the
prompt, by the real processes. A relay (relay.py) stands on every connection between them: it counts the bytes, and when
it sees a step's first CallAsk it reads each process's CPU clock (CLOCK_PROCESS_CPUTIME_ID of that pid, all threads). A
step is the span between two such moments: the answer, its action, the next screenshot and the next prompt. The policy
server (endless_policy.py) is not counted: it stands for a GPU box. Nor is the relay.

The fake desktop draws in the worker's process, which a real one does not. `worker_parts_ms` tells where the worker's CPU
goes, by timers that are put around its functions from outside (timed_worker.py); `rest_ms` is what no timer saw: the link
thread, zmq's threads that move the bytes, the loop and its records. `worker_own_ms` is the worker less `fake_desktop_ms`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay import CONNECTS, Relay, make_views
from timed_worker import NAMES

from legato_rl.config import DesktopConfig, FakeConfig, PolicyConfig, Settings
from legato_rl.control import ControlClient
from legato_rl.frames import decode
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.wire import CallAsk, CallReply

STEPS = 60
LATENCY_S, ACT_S, SETTLE_S = 0.3, 0.2, 0.2
WINDOWS = {"early": range(2, 10), "full": range(20, 40), "late": range(40, STEPS - 1)}
"""Steps by number from 0. From step 19 on a prompt holds 11 to 20 screenshots, as they fold."""
SIZE = (1920, 1080)
DESKTOP = DesktopConfig(
    backend="fake", screen_size=SIZE, seed=1, fake=FakeConfig(photo_kb=1000, act_s=ACT_S, settle_s=SETTLE_S)
)
MODULES = {
    "sink": "legato_rl.broker.sink.main",
    "proxy": "legato_rl.broker.proxy.main",
    "broker": "legato_rl.broker.main",
}
TODAY = "Sunday, November 29, 2026"
CONFIG = {"id": "form", "instruction": "Do what the window asks.", "evaluator": {"func": "exact_match"}}


@dataclass(frozen=True)
class Mark:
    """What was spent when a step's model call left: CPU seconds by role; and bytes by connection."""

    rollout: str
    step: int
    at: float
    cpu: dict[str, float]
    moved: Counter[str]
    """As of the step's answer: what was sent with the call has arrived by then."""


class Meter:
    """Reads the clocks at each step."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.marks: list[Mark] = []
        self.parts: dict[tuple[str, int], dict[str, float]] = {}
        """The worker's CPU seconds by part at each mark's (rollout, step)."""
        self.relay: Relay

    def hear(self, connection: str, frames: list[bytes]) -> None:
        """A message is about to go on."""
        if connection == "proxy > worker" and frames[1] == CallReply.kind:
            self.marks[-1].moved.update(self.relay.moved)
        if connection != "worker > proxy" or frames[1] != CallAsk.kind:
            return
        ask, _ = decode(frames)
        assert isinstance(ask, CallAsk)
        if not self.marks or (self.marks[-1].rollout, self.marks[-1].step) != (ask.call.rollout, ask.call.step):
            cpu = {role: cpu_s(pid) for role, pid in self.pids.items()}
            self.marks.append(Mark(ask.call.rollout, ask.call.step, time.perf_counter(), cpu, Counter()))

    def read_parts(self, path: Path) -> None:
        """Take in what the timed worker wrote: a line for each mark, in order."""
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        for mark, line in zip(self.marks, lines, strict=True):
            self.parts[mark.rollout, mark.step] = dict(zip(NAMES, line, strict=True))

    def part(self, name: str, begin: Mark, end: Mark) -> float:
        """CPU seconds of a worker's part in a step."""
        return self.parts[end.rollout, end.step][name] - self.parts[begin.rollout, begin.step][name]

    def steps(self, window: range) -> list[tuple[Mark, Mark]]:
        """The steps in `window`, each as its begin and end."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [(a, b) for a, b in pairs if a.rollout == b.rollout and b.step == a.step + 1 and a.step in window]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, all its threads, by its own clock (clock_getcpuclockid, as the kernel encodes it)."""
    return time.clock_gettime((~pid << 3) | 2)


def timed_worker(root: str, folder: Path) -> list[str]:
    """The command of the worker."""
    return [sys.executable, str(Path(__file__).with_name("timed_worker.py")), root, str(folder / "parts")]


def run(folder: Path, rollouts: int) -> tuple[Meter, list[dict[str, Any]], float]:
    """A run of `rollouts` attempts at one task: the meter, the rows, and the bytes of the rows' file."""
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("endless_policy.py"), str(LATENCY_S)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    processes = [server]
    meter = Meter()
    try:
        url = server.stdout.readline().strip()
        settings = Settings(
            policy=PolicyConfig(url, "fake", seed=1), desktop=DESKTOP, desktops=1, group=rollouts, max_steps=STEPS
        )
        moment = {"created_at": "2026-11-29T00:00:00Z", "today": TODAY, "legato_rl": "0", "python": "3"}
        run_file = RunFile(run_id="bench", settings=settings, sockets=folder, engine={}, **moment)  # type: ignore[arg-type]
        task = TaskSpec(task_id="form", group_id="form", domain=None, config=CONFIG, max_steps=STEPS)
        views = make_views(folder, run_file, [task])
        meter.relay = Relay(views, meter.hear)
        for role in ("sink", "proxy", "broker", "worker"):
            root = str(views[role].root)
            command = [sys.executable, "-m", MODULES[role], root] if role in MODULES else timed_worker(root, folder)
            with (folder / f"{role}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stderr=log))
            meter.pids[role] = processes[-1].pid
        meter.relay.start()
        with ControlClient(views["broker"].root) as control:
            while (status := control.status(wait_s=60.0)) is not None and status.state == "running":
                time.sleep(0.5)
        if status is None or status.state != "finished":
            raise SystemExit(f"the run did not finish: {status}; see the logs in {folder}")
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
    meter.relay.close()
    meter.read_parts(folder / "parts")
    lines = RunDir(views["sink"].root).rollouts.read_bytes().splitlines()
    return meter, [json.loads(line) for line in lines], sum(map(len, lines))


def ms(values: list[float]) -> float:
    """The mean of seconds, in milliseconds."""
    return round(1000 * statistics.fmean(values), 2)


def window_of(meter: Meter, rows: list[dict[str, Any]], window: range) -> dict[str, Any]:
    """The figures of one window of steps."""
    pairs = meter.steps(window)
    cpu = {role: ms([b.cpu[role] - a.cpu[role] for a, b in pairs]) for role in CONNECTS}
    part = {f"{name}_ms": ms([meter.part(name, a, b) for a, b in pairs]) for name in NAMES}
    part["rest_ms"] = round(cpu["worker"] - sum(part.values()), 2)
    kinds = sorted(meter.marks[-1].moved)
    moved = {kind: round(statistics.fmean(b.moved[kind] - a.moved[kind] for a, b in pairs)) for kind in kinds}
    steps = [row["steps"][n] for row in rows for n in window]
    return {
        "steps": len(pairs),
        "cpu_ms": cpu,
        "worker_parts_ms": part,
        "worker_own_ms": round(cpu["worker"] - part["fake_desktop_ms"], 2),
        "own_ms": round(sum(cpu.values()) - part["fake_desktop_ms"], 2),
        "bytes": moved | {"all": sum(moved.values())},
        "wall_ms": ms([b.at - a.at for a, b in pairs]),
        "model_ms": ms([step["model"]["seconds"] for step in steps]),
        "act_and_wait_ms": ms([sum(a["act_s"] for a in step["actions"]) for step in steps]),
        "prompt_tokens": round(statistics.fmean(step["model"]["prompt_tokens"] for step in steps)),
        "screenshots_in_prompt": round(statistics.fmean(len(s["request"]["prompt"]["images"]) for s in steps), 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lr-") as name:
        meter, rows, row_bytes = run(Path(name), options.rollouts)
        images = [path.stat().st_size for path in (Path(name) / "sink" / "images").iterdir()]
    figures = {window: window_of(meter, rows, steps) for window, steps in WINDOWS.items()}
    early, full, late = (figures[window] for window in WINDOWS)
    ratios = {
        f"late_over_{which}": {
            "worker_own_cpu": round(late["worker_own_ms"] / other["worker_own_ms"], 3),
            "proxy_cpu": round(late["cpu_ms"]["proxy"] / other["cpu_ms"]["proxy"], 3),
            "sink_cpu": round(late["cpu_ms"]["sink"] / other["cpu_ms"]["sink"], 3),
            "own_cpu": round(late["own_ms"] / other["own_ms"], 3),
            "bytes": round(late["bytes"]["all"] / other["bytes"]["all"], 3),
        }
        for which, other in (("early", early), ("full", full))
    }
    print(
        json.dumps(
            {
                "bench": "step_cost",
                "setting": {"screen": SIZE, "steps": STEPS, "rollouts": options.rollouts, "cores": os.cpu_count()},
                "image_bytes": round(statistics.fmean(images)),
                "row_bytes_per_step": round(row_bytes / (options.rollouts * STEPS)),
                "windows": figures,
                "ratios": ratios,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
