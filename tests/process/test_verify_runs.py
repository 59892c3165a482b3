"""Is the folder of a real run true, whatever its desktops and its end were?"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from whole_runs import Cli, collect, inline_task, rows_of, tasks_file
from whole_services import serving, until

from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.rundir import RunDir
from legato_rl.verify import examine, verify

pytestmark = pytest.mark.process

KEY = "sk-0123456789abcdef"


def test_a_run_with_faults_is_true(tmp_path: Path) -> None:
    """Desktops that fail, workers that die, evaluators that break, extras that are cancelled; and the export in the folder."""
    out = tmp_path / "run"
    faults = ("--fake", "fail_act=0.05", "--fake", "crash=0.01", "--fake", "bug_evaluate=0.1", "--env-retries", "3")
    shape = ("--group", "2", "--oversample", "1", "--desktops", "4", "--seed", "3", "--stop-failures", "1")
    with collect(out, tasks_file(tmp_path, "a", "b", "c"), *shape, *faults, LEGATO_POLICY_KEY=KEY) as cli:
        assert cli.end() in (ExitCode.DONE, ExitCode.SHORT), cli.output
    with Cli("export", out, "--out", out / "train.jsonl") as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    report = examine(out, KEY)
    assert report.faults == []
    assert report.rows == len(rows_of(out)) >= 12
    with Cli("verify", out, LEGATO_POLICY_KEY=KEY) as cli:
        assert cli.end() == ExitCode.DONE
        assert "true: " in cli.output


def test_a_run_that_left_nothing_behind(tmp_path: Path) -> None:
    """Every try graded and stored: each blob is named by a row, nothing is noted; one that was put there is found."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a", "b"), "--group", "2", "--close", "all", "--desktops", "2") as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    report = examine(out)
    assert (report.faults, report.notes) == ([], [])
    message = canonical_json({"role": "user", "content": "nobody's"})
    RunDir(out).message(sha256_hex(message)).write_bytes(message)
    assert [fault.code for fault in verify(out)] == ["blob-orphan"]


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL to the command in mid-run: what is there is true, and the rest is noted."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a", "b"), "--group", "64", "--desktops", "2") as cli:
        cli.wait_for("ok")
        cli.process.send_signal(signal.SIGKILL)
        cli.end()
    report = examine(out)
    assert report.faults == []
    assert report.rows > 0
    assert [note for note in report.notes if note.endswith(" attempts have no final row")]


def test_a_run_that_was_paused_under_its_calls(tmp_path: Path) -> None:
    """They end while nothing more is admitted: each is told to have taken its time once, not as a wait for the pause too."""
    with FakePolicyServer(FakePolicyConfig(latency=0.5)) as url:
        policy = ("--policy-url", url, "--model", "fake", "--version", "v1")
        with serving(tmp_path / "d", *policy, "--desktops", 2, "--seed", 1) as (_, client):
            run, folder = client.submit([inline_task("a")], {"group": 2})
            for _ in range(2):
                until(client, run, lambda status: status.running > 0 or status.state == "finished")
                assert client.pause("wait").running == 0
                client.resume()
            until(client, run, lambda status: status.state == "finished")
    report = examine(Path(folder))
    assert report.faults == []
    assert report.rows == 2
