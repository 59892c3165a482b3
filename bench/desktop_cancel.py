"""How soon is a desktop free again when its group closes? A real `collect` on container desktops, with twice the attempts.

A group closes when its last needed row is stored; `closed` is when that row was made, milliseconds before. `stopped_s`:
from there until a stopped try of the group made its own row, whatever it was doing: a model call is aborted, a reset
or an action ends first. `free_s`: until that desktop began its next try. The policy is the bundled server: it moves the
mouse, and ends the task now and then.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from desktop_ways import TASKS, spread

import legato_rl.fake.chat
from legato_rl.config import DesktopConfig, PolicyConfig
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.records import GRADED_OUTCOMES, Outcome
from legato_rl.run.api import collect
from legato_rl.rundir import RunDir

GROUP, OVERSAMPLE, DESKTOPS = 2, 1.0, 3
SERVER = FakePolicyConfig(latency=3.0, tail=0.5, seed=1)
END = 0.3
"""Chance that an answer ends the task."""
TASK = "write-a-line"


def answer(random: Random) -> str:
    """Move the mouse, or end."""
    if random.random() < END:
        given = {"action": "terminate", "status": "success"}
    else:
        given = {"action": "mouse_move", "coordinate": f"[{random.randrange(1000)}, {random.randrange(1000)}]"}
    lines = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in given.items())
    return f"Action: go on\n<tool_call>\n<function=computer_use>\n{lines}</function>\n</tool_call>"


def moment(row: dict[str, Any], name: str) -> float:
    """A row's moment in seconds since the epoch."""
    return datetime.fromisoformat(row[name].replace("Z", "+00:00")).timestamp()


def latencies(rows: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Seconds from a group's close to its stopped tries' rows, and to their desktops' next tries."""
    graded = {outcome.value for outcome in GRADED_OUTCOMES}
    closed: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["group_id"]] += row["outcome"] in graded
        if counts[row["group_id"]] == GROUP:
            closed.setdefault(row["group_id"], moment(row, "ended_at"))
    begun = sorted((row for row in rows if row["started_at"]), key=lambda row: moment(row, "started_at"))
    stopped, free = [], []
    for row in begun:
        if row["outcome"] != Outcome.STOPPED.value:
            continue
        at = closed[row["group_id"]]
        stopped.append(moment(row, "ended_at") - at)
        later = [r for r in begun if r["desktop"] == row["desktop"] and moment(r, "started_at") > moment(row, "started_at")]
        if later:
            free.append(moment(later[0], "started_at") - at)
    return stopped, free


def cancellation(image: str, folder: Path, groups: int) -> dict[str, Any]:
    """The run and its figures."""
    legato_rl.fake.chat.next_move = lambda sight, random, skill, malformed: answer(random)
    entry = TASKS[TASK]
    tasks = [{**entry, "task_id": f"{TASK}-{n}", "config": {**entry["config"], "id": f"{TASK}-{n}"}} for n in range(groups)]
    out = RunDir(folder / "cancel")
    server = FakePolicyServer(SERVER)
    try:
        collect(
            tasks,
            PolicyConfig(server.start(), "fake", version="bench", seed=1),
            out.root,
            desktop=DesktopConfig(
                backend="container", image=image, screen_size=(1280, 720), ram_gb=2, cpus=2, cache_dir=folder / "cache"
            ),
            desktops=DESKTOPS,
            group=GROUP,
            oversample=OVERSAMPLE,
            agent="own",
        )
    finally:
        server.close()
    rows = [json.loads(line) for line in out.rollouts.read_bytes().splitlines()]
    stopped, free = latencies(rows)
    return {
        "setting": {
            "groups": groups,
            "group": GROUP,
            "oversample": OVERSAMPLE,
            "desktops": DESKTOPS,
            "model_s": SERVER.latency,
        },
        "rows": dict(Counter(row["status"] for row in rows)),
        "stopped_s": spread(stopped),
        "free_s": spread(free),
    }
