"""Does the backend that docs/desktops.md shows really run?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_runs import check_accounts, collect, inline_task

from legato_rl.errors import ExitCode

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def test_the_example_backend_runs(tmp_path: Path) -> None:
    """Started where the file is, it grades by its own state; it knows nothing of the other tasks' fields."""
    tasks = [inline_task("done-at-once"), inline_task("one-click")]
    tasks[1]["config"]["clicks"] = 1
    options = ("--backend", "my_desktop:MyDesktop", "--screen", "320x240", "--desktops", 2, "--group", 2, "--seed", 1)
    with collect(tmp_path / "run", "-", *options, cwd=EXAMPLES, stdin=json.dumps(tasks)) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    rows = check_accounts(tmp_path / "run")
    rewards = {name: {row["reward"] for row in rows if row["task_id"] == name} for name in ("done-at-once", "one-click")}
    assert 1.0 in rewards["done-at-once"]
    assert rewards["one-click"] == {0.0}
