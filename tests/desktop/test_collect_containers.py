"""Does a whole run on container desktops add up? `legato-rl collect`, scripted policies, OSWorld's real evaluators."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from model_server import Answer, Body, ModelServer, completion
from test_container_env import note_task
from whole_runs import check_accounts, collect

from legato_rl.errors import ExitCode
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = pytest.mark.desktop

WORDS = "plain words"
END = "terminate"


def call(action: str, **parameters: str) -> str:
    """A response with one tool call."""
    lines = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in {"action": action, **parameters}.items())
    return f"Action: go on\n<tool_call>\n<function=computer_use>\n{lines}</function>\n</tool_call>"


class Policy:
    """Writes the note in every other rollout, and nonsense in the others; gives an infeasible task up."""

    def __init__(self) -> None:
        self._rollouts = count()
        self._lock = Lock()

    def __call__(self, body: Body) -> Answer:
        said = [message["content"][0]["text"] for message in body["messages"] if message["role"] == "assistant"]
        shown = str(body["messages"])
        return 200, completion(self._next(shown, said) if "computer_use" in shown else "ok")

    def _next(self, shown: str, said: list[str]) -> str:
        if "cannot be done" in shown:
            return call(END, status="failure")
        if not said:
            with self._lock:
                right = next(self._rollouts) % 2 == 0
            return call("type", text=WORDS if right else "nonsense")
        return call("key", keys='["ctrl", "s"]') if len(said) == 1 else call(END, status="success")


def entries() -> list[dict[str, Any]]:
    """A note, and a task that cannot be done."""
    note = note_task()
    del note["legato"]
    note["instruction"] = "Write the words."
    note["evaluator"]["expected"]["rules"]["expected"] = WORDS
    infeasible = {"id": "no-way", "instruction": "This cannot be done.", "evaluator": {"func": "infeasible"}}
    return [{"task_id": task["id"], "config": task} for task in (note, infeasible)]


def test_a_run(tmp_path: Path, engine: Any, desktop_image: str) -> None:
    """Two desktops at once on the same task; real rewards, nothing retried, no container left."""
    options = ("--backend", "container", "--image", desktop_image, "--screen", "1280x720", "--ram-gb", 2, "--cpus", 1)
    server = ModelServer(Policy())
    try:
        policy = ("--policy-url", server.url, "--model", "m", "--version", "v1")
        more = ("--desktops", 2, "--group", 4, "--max-steps", 6, "--cache", tmp_path / "cache")
        with collect(tmp_path / "run", "-", *options, *policy, *more, stdin=json.dumps(entries())) as cli:
            assert cli.end(240) == ExitCode.DONE, cli.output
    finally:
        server.stop()
    rows = check_accounts(tmp_path / "run")
    assert Counter(row["status"] for row in rows) == {"ok": 8}
    assert sorted(row["reward"] for row in rows if row["task_id"] == "a-note") == [0.0, 0.0, 1.0, 1.0]
    assert [row["reward"] for row in rows if row["task_id"] == "no-way"] == [1.0] * 4
    assert {row["desktop"] for row in rows} == {"worker-000", "worker-001"}
    run = json.loads((tmp_path / "run" / "run.json").read_text())["run_id"]
    assert [one for one in ours(engine) if one.labels[DESKTOP].startswith(run)] == []
    logs = "".join(path.read_text() for path in (tmp_path / "run" / "logs").glob("worker-*.log"))
    assert len(re.findall(r"reset number \d+: (?:booted|fast)", logs)) == 8, logs


def test_a_task_that_cannot_run(tmp_path: Path) -> None:
    """Said before anything boots."""
    tasks = entries()
    tasks[0]["config"]["evaluator"]["func"] = "no_such_metric"
    with collect(tmp_path / "run", "-", "--backend", "container", stdin=json.dumps(tasks)) as cli:
        assert cli.end() == ExitCode.BAD_INPUT
    assert cli.output == (
        "error: task a-note: its evaluator function 'no_such_metric' is not in this OSWorld; leave it out, or name a "
        "newer checkout\n"
    )
    assert not (tmp_path / "run").exists()
