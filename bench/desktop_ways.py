"""How long are rollouts, by phase, and against OSWorld's way? Runs desktop_play.py's processes and sums up what they say."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from legato_rl.tasks import read_tasks

ROOT = Path(__file__).resolve().parents[1]
TASKS = {entry["task_id"]: entry for entry in read_tasks(str(ROOT / "docs" / "examples" / "container_tasks.json"))}
SCRIPTS = json.loads((ROOT / "tests" / "desktop" / "task_scripts.json").read_text())
COMPARED = ("write-a-line", "rename-a-file", "fill-in-a-cell", "large-text", "order-a-lamp", "folder-carousel")
"""The tasks that are played in every way: an editor, a file manager, a spreadsheet, a setting, a browser, an infeasible one."""
DESKTOPS = 2
"""Of each way, at once."""
MODEL_S = (10.0, 30.0, 60.0)
"""Seconds of a model in a rollout, for which the ratio is computed: none was measured."""


def rollouts(tasks: Iterable[str], scripts: Sequence[str] = ("solution", "failure")) -> list[dict[str, Any]]:
    """What desktop_play.py is told of these tasks."""
    return [{"entry": TASKS[t], "script": s, "actions": SCRIPTS[t][s]} for t in tasks for s in scripts]


def start(way: str, name: str, image: str, cache: Path, played: list[dict[str, Any]]) -> subprocess.Popen[str]:
    """A desktop that plays."""
    job = {"name": f"bench-{name}", "way": way, "image": image, "cache": str(cache), "rollouts": played}
    command = [sys.executable, str(Path(__file__).with_name("desktop_play.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(job))
    process.stdin.close()
    return process


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says in the end."""
    assert process.stdout is not None
    words = process.stdout.read()
    if process.wait() != 0:
        raise SystemExit(f"a desktop of the bench ended with {process.returncode}; its last words are above")
    said: dict[str, Any] = json.loads(words)
    return said


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """Number, median, 95th percentile and greatest of some seconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {"n": 0}
    figures = {"median": statistics.median(ordered), "p95": ordered[round(0.95 * (len(ordered) - 1))], "max": ordered[-1]}
    return {"n": len(ordered), **{name: round(value, 4) for name, value in figures.items()}}


def by_phase(image: str, cache: Path, rounds: int, tasks: Sequence[str]) -> dict[str, Any]:
    """Our way over the task set's solutions, one desktop: every phase, the resets, and the CPU of a rollout."""
    played = rollouts([*tasks] * rounds, ["solution"])
    said = told(start("ours", "phases", image, cache, played))
    rows = said["rollouts"]
    phases: dict[str, list[float]] = {}
    for row in rows:
        for phase, seconds in row["phases"].items():
            phases.setdefault(phase, []).extend(seconds)
    cpu = said["cpu"]
    return {
        "rollouts": len(rows),
        "solved": sum(row["score"] == 1.0 for row in rows),
        "phases_s": {phase: spread(seconds) for phase, seconds in phases.items()},
        "rollout_s": spread(row["seconds"] for row in rows),
        "capped": sum(row["capped"] for row in rows),
        "fast_reset_s": spread(s for row in rows for s in row["clean_s"]),
        "resets": said["resets"],
        "cpu_s_per_rollout": {part: round(cpu[f"{part}_s"] / len(rows), 3) for part in ("desktop", "worker")},
        "cores_meanwhile": {part: round(cpu[f"{part}_s"] / cpu["wall_s"], 3) for part in ("desktop", "worker")},
        "by_task_s": {t: round(statistics.median(r["seconds"] for r in rows if r["task"] == t), 2) for t in tasks},
    }


def against_osworld(image: str, cache: Path, tasks: Sequence[str]) -> dict[str, Any]:
    """The same rollouts in all four ways. What sleeps all the time runs at once, after what does not."""
    said: dict[str, list[dict[str, Any]]] = {}
    for ways in (["ours"], ["ready_signal_alone"], ["osworld", "fast_reset_alone"]):
        queue = rollouts(tasks)
        desktops = [
            (way, start(way, f"{way.replace('_', '-')}-{n}", image, cache, queue[n::DESKTOPS]))
            for way in ways
            for n in range(DESKTOPS)
        ]
        for way, process in desktops:
            said.setdefault(way, []).append(told(process))
        for way in ways:
            seconds = statistics.fmean(row["seconds"] for one in said[way] for row in one["rollouts"])
            print(f"{way}: {seconds:.1f} s a rollout", file=sys.stderr)
    rows = {way: [row for one in several for row in one["rollouts"]] for way, several in said.items()}
    scores = {way: {f"{row['task']} {row['script']}": row["score"] for row in rows[way]} for way in rows}
    mean = {way: statistics.fmean(row["seconds"] for row in rows[way]) for way in rows}
    pauses = statistics.fmean(row["pauses_s"] for row in rows["osworld"])
    return {
        "rollouts": len(rows["ours"]),
        "equal_scores": all(found == scores["osworld"] for found in scores.values()),
        "scores": scores["osworld"],
        "differing": {way: found for way, found in scores.items() if found != scores["osworld"]},
        "rollout_s": {way: spread(row["seconds"] for row in rows[way]) for way in rows},
        "per_desktop_hour": {way: round(3600 / seconds, 1) for way, seconds in mean.items()},
        "ratio": {way: round(mean["osworld"] / seconds, 2) for way, seconds in mean.items()},
        "ratio_if_osworld_had_no_pauses": round((mean["osworld"] - pauses) / mean["ours"], 2),
        "ratio_with_model_s": {str(s): round((mean["osworld"] + s) / (mean["ours"] + s), 2) for s in MODEL_S},
        "reset_proper_s": {way: spread(s for row in rows[way] for s in row["clean_s"]) for way in rows},
        "resets": {way: dict(sum((Counter(one["resets"]) for one in several), Counter())) for way, several in said.items()},
    }
