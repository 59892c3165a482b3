"""How long does each phase of a rollout take on one container desktop? Plays scripted rollouts in one way; JSON in and out.

`desktop_play.py < JOB`, in an environment that has OSWorld's package. A process has one desktop: OSWorldDesktop watches
all of the process's calls. The way `osworld` is OSWorld's unmodified DesktopEnv, driven and waited for as its own
`lib_run_single` does; all others are our OSWorldDesktop. A revert is a fresh container in both.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.container import connect_engine, container_name
from legato_rl.workers.desktop.container_provider import ContainerProvider
from legato_rl.workers.desktop.env import FACTORY, import_osworld
from legato_rl.workers.desktop.lease import Lease
from legato_rl.workers.desktop.osworld import OSWorldDesktop

AFTER_RESET_S, BEFORE_EVAL_S = 60.0, 20.0
"""OSWorld's fixed sleeps."""
PAUSE_S = 2.0
"""DesktopEnv.step's own default pause after an action. OSWorld's runners have 0 to 5 s in its place."""
SCREEN = (1280, 720)
"""What the scripts' coordinates are for."""
WAYS = {"ours": (True, True), "ready_signal_alone": (False, True), "fast_reset_alone": (True, False)}
"""Our ways: whether the reset is fast, and whether the ready signal stands in for OSWorld's sleeps."""


@dataclass
class Spent:
    """Seconds of one rollout: by phase, a list where a phase comes more than once; and of the reset proper."""

    phases: dict[str, list[float]] = field(default_factory=dict)
    clean_s: list[float] = field(default_factory=list)
    """Of the fast reset or the revert, the task's setup excluded."""
    capped: int = 0

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        """Time a phase."""
        begun = time.perf_counter()
        yield
        self.phases.setdefault(phase, []).append(time.perf_counter() - begun)


class OurWay:
    """OSWorldDesktop."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        self._desktop = OSWorldDesktop(config, name)
        self._fixed = not config.ready_signal
        self.spent = Spent()
        resets = self._desktop.resets
        resets._clean = self._timed(resets._clean, lambda *_: True)  # type: ignore[method-assign]
        resets._env_reset = self._timed(resets._env_reset, lambda what, task: what == "boot")  # type: ignore[method-assign]

    def play(self, entry: dict[str, Any], actions: list[str], rollout: str) -> float:
        """A rollout, as a worker's; its verdict."""
        desktop, spent = self._desktop, self.spent
        task = deepcopy(entry["config"])
        task["legato"] = {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": entry["domain"]}
        with spent.on("reset"):
            desktop.reset(task)
        with spent.on("wait_after_reset"):
            desktop.wait_after_reset()
            self._sleep(AFTER_RESET_S)
        with spent.on("observe"):
            desktop.observe()
        for action in actions:
            self._act(action)
            with spent.on("observe"):
                desktop.observe()
        with spent.on("wait_before_eval"):
            ready = desktop.wait_before_eval()
            self._sleep(BEFORE_EVAL_S)
        spent.capped += ready.state == "capped"
        with spent.on("evaluate"):
            return desktop.evaluate()

    def close(self) -> dict[str, int]:
        """Give the desktop back; how its resets went."""
        counts = dict(self._desktop.resets.counts)
        self._desktop.close()
        return counts

    def _act(self, action: str) -> None:
        if self._fixed and action == "WAIT":
            time.sleep(2 * PAUSE_S)
            return
        begun = time.perf_counter()
        result = self._desktop.act(action)
        if result.rc != 0:
            raise SystemExit(f"{action!r} ended with {result.rc}: {result.stderr}")
        self._sleep(PAUSE_S)
        if action in ("DONE", "FAIL"):
            return
        self.spent.capped += result.ready.state == "capped"
        self.spent.phases.setdefault("act_and_ready", []).append(time.perf_counter() - begun)
        if action != "WAIT":
            self.spent.phases.setdefault("act_alone", []).append(result.act_s)

    def _sleep(self, seconds: float) -> None:
        if self._fixed:
            time.sleep(seconds)

    def _timed(self, call: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def with_timer(*given: Any) -> Any:
            begun = time.perf_counter()
            try:
                return call(*given)
            finally:
                if counts(*given):
                    self.spent.clean_s.append(time.perf_counter() - begun)

        return with_timer


class OSWorldsWay:
    """DesktopEnv itself. Only its provider is ours, since a container has no other."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        module = import_osworld(config)
        setattr(module, FACTORY, lambda *args, **kwargs: (None, ContainerProvider(config, name)))
        self._cache = Path(str(config.cache_dir)) / name
        self._env = module.DesktopEnv(
            provider_name="docker",
            path_to_vm="container",
            action_space="pyautogui",
            cache_dir=str(self._cache),
            screen_size=config.screen_size,
            headless=True,
            require_a11y_tree=False,
        )
        self._env._revert_to_snapshot = self._timed(self._env._revert_to_snapshot)
        self._env._start_emulator = self._timed(self._env._start_emulator)
        self.spent = Spent()

    def play(self, entry: dict[str, Any], actions: list[str], rollout: str) -> float:
        """A rollout, as `run_single_example` has it, recording and model left out; its verdict."""
        env, spent = self._env, self.spent
        env.cache_dir_base = str(self._cache / rollout)
        with spent.on("reset"):
            env.reset(task_config=deepcopy(entry["config"]))
        lease = Lease(env.vm_ip, int(env.server_port), SYSTEM_CLOCK)
        try:
            with spent.on("wait_after_reset"):
                time.sleep(AFTER_RESET_S)
            with spent.on("observe"):
                env._get_obs()
            for action in actions:
                with spent.on("step"):
                    env.step(action, PAUSE_S)
            with spent.on("wait_before_eval"):
                time.sleep(BEFORE_EVAL_S)
            with spent.on("evaluate"):
                return float(env.evaluate())
        finally:
            lease.end()

    def close(self) -> dict[str, int]:
        """Give the desktop back."""
        self._env.close()
        return {}

    def _timed(self, call: Callable[[], None]) -> Callable[[], None]:
        """What a revert is made of, in one sum."""

        def with_timer() -> None:
            begun = time.perf_counter()
            call()
            self.spent.clean_s[:] = [sum(self.spent.clean_s) + time.perf_counter() - begun]

        return with_timer


def container_cpu_s(name: str) -> float:
    """CPU seconds of a running desktop so far."""
    stats = connect_engine().containers.get(container_name(name)).stats(stream=False)
    return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def own_cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Play the job: {"name", "way", "image", "cache", "rollouts": [{"entry", "script", "actions"}]}."""
    job = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    fast, ready = WAYS.get(job["way"], (False, False))
    config = DesktopConfig(
        backend="container",
        image=job["image"],
        screen_size=SCREEN,
        ram_gb=2,
        cpus=2,
        cache_dir=Path(job["cache"]),
        fast_reset=fast,
        ready_signal=ready,
        fixed_wait=None if ready else 0.0,
    )
    way: OurWay | OSWorldsWay = OurWay(config, job["name"]) if job["way"] in WAYS else OSWorldsWay(config, job["name"])
    one_container = job["way"] == "ours"
    played = []
    try:
        desktop_cpu = container_cpu_s(job["name"]) if one_container else 0.0
        worker_cpu, begun = own_cpu_s(), time.perf_counter()
        for number, rollout in enumerate(job["rollouts"]):
            way.spent, start = Spent(), time.perf_counter()
            score = way.play(rollout["entry"], rollout["actions"], f"r-g-{number}-0")
            seconds, spent = time.perf_counter() - start, way.spent
            told = {"task": rollout["entry"]["task_id"], "script": rollout["script"], "score": score, "seconds": seconds}
            steps = sum(2 if action == "WAIT" else 1 for action in rollout["actions"])
            pauses = 0.0 if ready else PAUSE_S * steps
            played.append(
                {**told, "phases": spent.phases, "clean_s": spent.clean_s, "capped": spent.capped, "pauses_s": pauses}
            )
            print(f"{job['name']} {told}", file=sys.stderr)
        cpu = {"worker_s": own_cpu_s() - worker_cpu, "wall_s": time.perf_counter() - begun}
        if one_container:
            cpu["desktop_s"] = container_cpu_s(job["name"]) - desktop_cpu
    finally:
        counts = way.close()
    print(json.dumps({"rollouts": played, "resets": counts, "cpu": cpu}), file=out)


if __name__ == "__main__":
    main()
