"""Are the example tasks for container desktops graded right? OSWorld's real evaluators, a solution and a failure of each.

With LEGATO_FIXED_WAITS=all in the environment the whole set is played with fixed waits too, which takes five minutes, and half
an hour where the machine is busy; else four light tasks are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from players import Played, Player, players

from legato_rl.config import DesktopConfig
from legato_rl.tasks import read_tasks, resolve_tasks
from legato_rl.workers.desktop.env import import_osworld
from legato_rl.workers.desktop.tasks_check import Names, check

pytestmark = pytest.mark.desktop

HERE = Path(__file__).resolve().parent
TASKS = read_tasks(str(HERE.parents[1] / "docs" / "examples" / "container_tasks.json"))
IDS = [entry["task_id"] for entry in TASKS]
SCRIPTS = json.loads((HERE / "task_scripts.json").read_text())
"""By task: the actions of a solution, and those of a policy that nearly gets there."""
SCREEN = (1280, 720)
"""What the scripts' few coordinates are for."""
PLAY_S = 300.0
RIGHT = {"solution": 1.0, "failure": 0.0}
ASTRAY = {"solution": 0.0, "failure": 0.0}
"""Where the machine stood still for longer than an action is waited for, the next one came too early. Played once more."""
LIGHT, HEAVY = ("files", "settings", "infeasible"), ("calc", "browser")
"""Domains by whether their programs take seconds to start."""
FEW = ("write-a-line", "make-it-run", "large-text", "folder-carousel")
"""What is played with fixed waits where the whole set is not asked for."""
FIXED: list[dict[tuple[str, ...], tuple[float, int]]] = [{LIGHT: (3.0, 2), HEAVY: (8.0, 3)}, {LIGHT + HEAVY: (24.0, 2)}]
"""Turn by turn, for the tasks that the turn before graded otherwise than the ready signal: seconds of each fixed wait, and
how many desktops play."""


@pytest.fixture(scope="module")
def config(desktop_image: str, tmp_path_factory: pytest.TempPathFactory) -> DesktopConfig:
    """Of all desktops here."""
    cache = tmp_path_factory.mktemp("cache")
    return DesktopConfig(backend="container", image=desktop_image, screen_size=SCREEN, ram_gb=2, cpus=2, cache_dir=cache)


class Set:
    """The task set on two desktops. Both rollouts of a task are played at the same time, so each must be graded on its own."""

    def __init__(self, pair: list[Player]) -> None:
        self._pair = pair
        self._plays = 0
        self._played: dict[str, dict[str, Played]] = {}

    def play(self, entry: dict[str, Any]) -> dict[str, Played]:
        """What came of the task's solution and failure, which are played when they are first asked for."""
        task_id = entry["task_id"]
        if task_id not in self._played:
            played = self._play(entry)
            self._played[task_id] = self._play(entry) if verdicts(played) == ASTRAY else played
        return self._played[task_id]

    def _play(self, entry: dict[str, Any]) -> dict[str, Played]:
        self._plays += 1
        # In turns, so that either desktop has solved and failed before.
        pair = self._pair if self._plays % 2 else self._pair[::-1]
        plays = {
            name: player.play(entry, SCRIPTS[entry["task_id"]][name], f"r:{entry['task_id']}:{name}:{self._plays}")
            for name, player in zip(RIGHT, pair, strict=True)
        }
        return {name: play.result(PLAY_S) for name, play in plays.items()}


@pytest.fixture(scope="module")
def task_set(config: DesktopConfig) -> Iterator[Set]:
    """With the ready signal."""
    with players(config, *(f"tasks-{os.getpid()}-{n}" for n in range(2))) as pair:
        yield Set(pair)


@pytest.mark.parametrize("entry", TASKS, ids=IDS)
def test_task(task_set: Set, entry: dict[str, Any], record_property: Any) -> None:
    """The solution gets 1 and the failure beside it 0; neither leaves what only a revert undoes."""
    played = task_set.play(entry)
    assert verdicts(played) == RIGHT
    for name, one in played.items():
        # on a busy machine a fast reset may find too late that all is clean, and is followed by a fresh container
        assert set(one.ways) <= {"booted", "fast", "escalated"}, one.ways
        record_property(f"{name}: resets that were not enough", one.ways.get("escalated", 0))


def test_fixed_waits(task_set: Set, config: DesktopConfig, record_property: Any) -> None:
    """Rollouts once more with waits that look at nothing: long enough ones give the same verdicts, and take longer.

    How long that is depends on what else the machine does, so a task that was graded otherwise is played with longer ones.
    """
    whole = os.environ.get("LEGATO_FIXED_WAITS") == "all"
    rest = [entry for entry in TASKS if whole or entry["task_id"] in FEW]
    signalled = {entry["task_id"]: task_set.play(entry) for entry in rest}
    spent = 0.0
    for turn in FIXED:
        with ExitStack() as stack:
            plays: dict[str, dict[str, Future[Played]]] = {}
            for domains, (seconds, desktops) in turn.items():
                chosen = [entry for entry in rest if entry["domain"] in domains]
                if not chosen:
                    continue
                fixed = config.model_copy(update={"ready_signal": False, "fixed_wait": seconds})
                names = [f"fixed-{os.getpid()}-{seconds:.0f}-{n}" for n in range(desktops)]
                group = cycle(stack.enter_context(players(fixed, *names)))
                for entry in chosen:
                    plays[entry["task_id"]] = {
                        name: next(group).play(entry, actions, f"r:{entry['task_id']}:{name}:{seconds:.0f}")
                        for name, actions in SCRIPTS[entry["task_id"]].items()
                    }
            played = {task_id: {name: play.result(PLAY_S) for name, play in both.items()} for task_id, both in plays.items()}
        spent += sum(one.seconds for both in played.values() for one in both.values())
        rest = [entry for entry in rest if verdicts(played[entry["task_id"]]) != verdicts(signalled[entry["task_id"]])]
        if not rest:
            break
    assert [entry["task_id"] for entry in rest] == []
    with_signal = sum(one.seconds for both in signalled.values() for one in both.values())
    record_property("seconds of desktops with the ready signal", round(with_signal, 1))
    record_property("seconds of desktops with fixed waits", round(spent, 1))
    assert with_signal < spent


def verdicts(played: dict[str, Played]) -> dict[str, float]:
    """What the rollouts of a task got."""
    return {name: one.verdict for name, one in played.items()}


def test_set() -> None:
    """At least twelve, all of which this OSWorld can run as `collect --tasks` reads them; each has its scripts."""
    specs = resolve_tasks(TASKS, None, 15)
    assert len(specs) >= 12
    assert {spec.domain for spec in specs} == {"browser", "calc", "files", "infeasible", "settings"}
    assert {spec.task_id for spec in specs} == set(SCRIPTS)
    assert check(TASKS, Names(import_osworld(DesktopConfig()))) == {"faults": [], "drive": [], "proxy": []}
