"""Is a run true whatever dies in it? The chaos bench, short: some seeds of it, and that it finds what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whole_runs import collect, tasks_file

from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.rundir import RunDir

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from chaos_checks import Findings, check_folder, check_logs  # noqa: E402

pytestmark = pytest.mark.process

LASTS_S = 900.0
"""Seconds that anything here may take; the short run takes one minute on a machine that is free."""
SEED = 3


def test_nothing_is_lost_doubled_torn_or_invented() -> None:
    """Four runs, and one of a service, with kills of every role: 0 of everything that is counted."""
    command = [sys.executable, str(BENCH / "chaos.py"), "--runs", "5", "--seed", "2", "--jobs", "2", "--service", "0.2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LASTS_S, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["runs"] == 5
    assert set(told["found"].values()) == {0}
    assert sum(told["kills"].values()) >= 3
    assert told["done"]["command serve"] >= 1
    assert told["done"]["command collect --resume"] >= 1
    assert told["rows"]["graded"] >= 10


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run in which nothing happened."""
    folder = tmp_path_factory.mktemp("good")
    with collect(folder / "run", tasks_file(folder, "a", "b"), "--group", 2, "--desktops", 2, "--seed", SEED) as cli:
        assert cli.end(LASTS_S) == ExitCode.DONE, cli.output
    return folder / "run"


def found(folder: Path) -> Findings:
    """What the bench finds in a folder."""
    findings = Findings()
    check_folder(folder, FakePolicyConfig(seed=SEED), findings)
    return findings


def test_a_good_run_has_no_findings(good: Path) -> None:
    """Each row has the moves and the reward of its try, played again."""
    assert found(good).words == []


def to_rows(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """A damage to the rows."""

    def damage(folder: Path) -> None:
        path = RunDir(folder).rollouts
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return damage


def tear(folder: Path) -> None:
    """Cut the last row."""
    path = RunDir(folder).rollouts
    path.write_bytes(path.read_bytes()[:-5])


def fail_desktops(**faults: float) -> Callable[[Path], None]:
    """Say that the desktops had faults, which no row shows."""

    def damage(folder: Path) -> None:
        run = RunDir(folder)
        file = json.loads(run.run_file.read_bytes())
        file["settings"]["desktop"]["fake"].update(faults)
        run.run_file.write_text(json.dumps(file))

    return damage


DAMAGES = {
    "lost": to_rows(lambda rows: rows.pop()),
    "doubled": to_rows(lambda rows: rows.append(rows[0])),
    "torn": tear,
    "invented": to_rows(lambda rows: rows[0].update(reward=0.25)),
    "after_fault": fail_desktops(hang=1.0),
    "masked": to_rows(
        lambda rows: rows[0].update(
            outcome="desktop_failed", reward=None, error={"kind": "env", "phase": "act", "type": "boot", "message": "no"}
        )
    ),
    "untrue": lambda folder: next(RunDir(folder).images.iterdir()).unlink(),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_what_is_wrong_is_found(good: Path, tmp_path: Path, kind: str) -> None:
    """A damaged folder is not passed over."""
    shutil.copytree(good, tmp_path / "run")
    DAMAGES[kind](tmp_path / "run")
    assert found(tmp_path / "run")[kind] >= 1


def test_an_exception_in_a_log_is_found(tmp_path: Path) -> None:
    """But for those of a desktop that fakes its failures."""
    log = tmp_path / "worker-000.log"
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\n'
    log.write_text(f"{trace}legato_rl.desktop.DesktopFailure: it did not come up (the fake desktop's fail_boot)\n")
    findings = Findings()
    check_logs(tmp_path, findings)
    assert findings.words == []
    log.write_text(f"{trace}KeyError: 'a'\n")
    check_logs(tmp_path, findings)
    assert findings["bugs"] == 1
