"""Are OSWorld's own task files taken as they are? Skipped where no copy of them lies beside the repository."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from whole_runs import check_accounts, collect

from legato_rl.errors import ExitCode
from legato_rl.fake.form import is_infeasible
from legato_rl.tasks import find_examples, resolve_tasks

COPY = Path(__file__).resolve().parents[3] / "shared" / "osworld-tasks"
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not COPY.is_dir(), reason="OSWorld's task files are not beside this repository: none were tried"),
]


def all_tasks() -> list[dict[str, str]]:
    """Every task file as an entry of a tasks file."""
    paths = sorted(find_examples(COPY).glob("*/*.json"))
    return [{"task_id": path.stem, "domain": path.parent.name} for path in paths]


def test_all_task_files_load() -> None:
    """All 369 of them, in 10 domains, each with its instruction and evaluator."""
    specs = resolve_tasks(all_tasks(), COPY, 15)
    assert len(specs) == 369
    assert len({spec.group_id for spec in specs}) == 369
    assert len(Counter(spec.domain for spec in specs)) == 10
    assert any(is_infeasible(spec.config) for spec in specs)


def test_task_files_run_on_the_fake_desktop(tmp_path: Path) -> None:
    """One of each domain, and two that are infeasible: every attempt is graded."""
    specs = resolve_tasks(all_tasks(), COPY, 15)
    chosen = {spec.domain: spec for spec in specs if not is_infeasible(spec.config)}
    picked = [*chosen.values(), *[spec for spec in specs if is_infeasible(spec.config)][:2]]
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([{"task_id": spec.task_id, "domain": spec.domain} for spec in picked]))
    options = ("--osworld", COPY, "--desktops", 3, "--group", 2, "--seed", 1, "--fake", "reset_s=0")
    with collect(tmp_path / "run", tasks, *options) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    rows = check_accounts(tmp_path / "run")
    assert Counter(row["status"] for row in rows) == {"ok": 2 * len(picked)}
    assert {row["domain"] for row in rows} == set(chosen)
