"""Are the example tasks for container desktops graded right? OSWorld's real evaluators, a solution and a failure of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from legato_rl.config import DesktopConfig
from legato_rl.tasks import read_tasks, resolve_tasks
from legato_rl.workers.desktop.env import import_osworld
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.tasks_check import Names, check

pytestmark = pytest.mark.desktop

HERE = Path(__file__).resolve().parent
TASKS = read_tasks(str(HERE.parents[1] / "docs" / "examples" / "container_tasks.json"))
SCRIPTS = json.loads((HERE / "task_scripts.json").read_text())
"""By task: the actions of a solution, and those of a policy that nearly gets there."""
SCREEN = (1280, 720)
"""What the scripts' few coordinates are for."""


@pytest.fixture(scope="module")
def desktop(desktop_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OSWorldDesktop]:
    """One desktop with a browser for all of them; it is given back."""
    cache = tmp_path_factory.mktemp("cache")
    config = DesktopConfig(backend="container", image=desktop_image, screen_size=SCREEN, ram_gb=2, cpus=2, cache_dir=cache)
    one = OSWorldDesktop(config, f"tasks-{os.getpid()}")
    yield one
    one.close()


def play(desktop: OSWorldDesktop, entry: dict[str, Any], actions: list[str], rollout: str) -> float:
    """A whole rollout of a task; its verdict."""
    task = deepcopy(entry["config"])
    task["legato"] = {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": entry["domain"]}
    desktop.reset(task)
    desktop.wait_after_reset()
    desktop.observe()
    for action in actions:
        done = desktop.act(action)
        assert done.rc == 0, (action, done.stderr)
    desktop.wait_before_eval()
    return desktop.evaluate()


@pytest.mark.parametrize("entry", TASKS, ids=[entry["task_id"] for entry in TASKS])
def test_task(desktop: OSWorldDesktop, entry: dict[str, Any]) -> None:
    """The solution gets 1 and the failure 0, one after the other; the fast reset is enough for what either leaves."""
    scripts = SCRIPTS[entry["task_id"]]
    before = desktop.resets.counts.total()
    verdicts = {name: play(desktop, entry, scripts[name], f"r:{entry['task_id']}:{name}:0") for name in scripts}
    assert verdicts == {"solution": 1.0, "failure": 0.0}
    assert desktop.resets.counts.total() == before + 2
    assert set(desktop.resets.counts) <= {"booted", "fast"}, desktop.resets.counts


def test_set() -> None:
    """At least twelve, all of which this OSWorld can run as `collect --tasks` reads them; each has its scripts."""
    specs = resolve_tasks(TASKS, None, 15)
    assert len(specs) >= 12
    assert {spec.domain for spec in specs} == {"browser", "calc", "files", "infeasible", "settings"}
    assert {spec.task_id for spec in specs} == set(SCRIPTS)
    assert check(TASKS, Names(import_osworld(DesktopConfig()))) == {"faults": [], "drive": [], "proxy": []}
