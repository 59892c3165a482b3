"""Does a whole run on container desktops add up? `legato-rl collect`, scripted policies, OSWorld's real evaluators."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted_policy import SCREEN, SCRIPTS, ScriptedPolicy, wanted
from whole_runs import check_accounts, collect

from legato_rl.errors import ExitCode
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = pytest.mark.desktop

TASKS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "container_tasks.json"
DESKTOPS = 3
RUN_S = 900.0


def test_the_whole_task_set(tmp_path: Path, engine: Any, desktop_image: str) -> None:
    """Every task solved and failed, its two rollouts at once: real rewards, no container left.

    Each desktop may lose a try where the machine is so busy that they miss a deadline: the rollout is played again.
    """
    options = ("--backend", "container", "--image", desktop_image, "--screen", f"{SCREEN[0]}x{SCREEN[1]}", "--ram-gb", 2)
    server = ScriptedPolicy()
    try:
        policy = ("--policy-url", server.url, "--model", "m", "--version", "v1")
        more = ("--cpus", 2, "--desktops", DESKTOPS, "--group", 2, "--max-steps", 10, "--cache", tmp_path / "cache")
        with collect(tmp_path / "run", TASKS, *options, *policy, *more) as cli:
            assert cli.end(RUN_S) == ExitCode.DONE, cli.output
    finally:
        server.stop()
    rows = check_accounts(tmp_path / "run")
    final = [row for row in rows if row["status"] != "retried"]
    assert len(final) == 2 * len(SCRIPTS) >= len(rows) - DESKTOPS
    assert Counter(row["status"] for row in final) == {"ok": len(final)}
    assert [row["rollout_id"] for row in final if row["reward"] != wanted(row)] == []
    assert {row["desktop"] for row in rows} == {f"worker-{n:03d}" for n in range(DESKTOPS)}
    run = json.loads((tmp_path / "run" / "run.json").read_text())["run_id"]
    assert [one for one in ours(engine) if one.labels[DESKTOP].startswith(run)] == []
    ways = Counter(row["reset"] for row in rows)
    assert ways["booted"] == DESKTOPS
    assert ways["revert"] <= len(rows) - len(final)
    assert ways["fast"] > len(rows) / 2, ways
    assert set(ways) <= {"booted", "fast", "escalated", "revert"}
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["desktops"] == {"rebuilt": 0, "out": [], "resets": {"escalated": 0, "revert": 0, **ways}}
    assert summary["rewards"]["mean"] == 0.5


def test_a_task_that_cannot_run(tmp_path: Path) -> None:
    """Said before anything boots."""
    tasks = json.loads(TASKS.read_text())[:2]
    assert tasks[0]["task_id"] == "write-a-line"
    tasks[0]["config"]["evaluator"]["func"] = "no_such_metric"
    with collect(tmp_path / "run", "-", "--backend", "container", stdin=json.dumps(tasks)) as cli:
        assert cli.end() == ExitCode.BAD_INPUT
    assert cli.output == (
        "error: task files/write-a-line: its evaluator function 'no_such_metric' is not in this OSWorld; leave it out, or "
        "name a newer checkout\n"
    )
    assert not (tmp_path / "run").exists()
