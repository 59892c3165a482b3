"""Does a run that is interrupted, or loses its server, leave whole rows and no process? Real processes and signals."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import psutil
import pytest
from whole_runs import FAKE, PATIENCE_S, check_accounts, collect, naming, tasks_file, wait_for_status

from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.rundir import RunDir

pytestmark = pytest.mark.process


def check_nothing_is_left(out: Path, below: list[psutil.Process], seconds: float = 0.0) -> None:
    """No process that the run started is there, or names it; nor is its socket folder."""
    _, left = psutil.wait_procs(below, timeout=seconds)
    assert left == []
    assert naming(str(out)) == []


def test_ctrl_c_stores_what_is_being_graded_and_drops_the_rest(tmp_path: Path) -> None:
    """Exit code 130; the try in its evaluation has its row, the other interrupted one has none."""
    out = tmp_path / "run"
    options = ("--desktops", 2, "--group", 4, "--max-steps", 3, "--seed", 1, "--fake", "eval_s=3", "--fake", "act_s=0.3")
    with collect(out, tasks_file(tmp_path, "a", "b"), *options) as cli:
        # Before any row: a worker's last beat may still say `evaluate` when its row is in the counts already.
        status = wait_for_status(cli, out, lambda s: not s.rows and s.desktops.get("evaluate", 0) >= 1)
        below = cli.below()
        cli.process.send_signal(signal.SIGINT)
        assert cli.end() == ExitCode.INTERRUPTED
        assert cli.output.endswith("interrupted\n")
    sockets = RunDir(out).load_run().sockets
    check_nothing_is_left(out, below)
    assert not sockets.exists()
    rows = check_accounts(out, finished=False)
    assert status.desktops["evaluate"] <= len(rows) <= 2, "nothing was handed out after the signal"
    assert {row["outcome"] for row in rows} == {"graded"}
    attempts = json.loads(RunDir(out).summary.read_bytes())["attempts"]
    assert attempts == {"asked": 8, "ended": len(rows), "unfinished": 8 - len(rows)}
    assert attempts["unfinished"] > 0


def test_the_second_ctrl_c_is_immediate(tmp_path: Path) -> None:
    """It does not wait for an evaluation of two minutes; whole rows and no process are left all the same."""
    out = tmp_path / "run"
    options = ("--desktops", 2, "--group", 2, "--max-steps", 1, "--fake", "eval_s=120")
    with collect(out, tasks_file(tmp_path, "a"), *options) as cli:
        wait_for_status(cli, out, lambda s: s.desktops.get("evaluate", 0) == 2)
        below = cli.below()
        cli.process.send_signal(signal.SIGINT)
        cli.wait_for("stopping interrupted")
        cli.process.send_signal(signal.SIGINT)
        # Far less than the evaluation; on a slow disk ending costs seconds.
        assert cli.end(seconds=90.0) == ExitCode.INTERRUPTED
        assert "Traceback" not in cli.output
    check_nothing_is_left(out, below, seconds=30.0)
    assert check_accounts(out, finished=False) == []


def test_ctrl_c_before_anything_started(tmp_path: Path) -> None:
    """While a server that never answers is asked: exit code 130, no folder, no process."""
    out = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(PATIENCE_S)
        options = policy_at(f"http://127.0.0.1:{mute.getsockname()[1]}/v1")
        with collect(out, tasks_file(tmp_path, "a"), *options) as cli:
            connection, _ = mute.accept()
            with connection:
                below = cli.below()
                cli.process.send_signal(signal.SIGINT)
                assert cli.end() == ExitCode.INTERRUPTED
        assert cli.output == "interrupted\n"
    check_nothing_is_left(out, below)
    assert not out.exists()


def test_nothing_outlives_a_collect_that_is_killed(tmp_path: Path) -> None:
    """After SIGKILL of the command everything that it started ends within seconds."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a"), "--desktops", 2, "--fake", "act_s=1") as cli:
        wait_for_status(cli, out, lambda s: s.desktops.get("act", 0) >= 1)
        below = cli.below()
        assert {"supervisord", "worker", "broker", "proxy", "sink", "fake-policy"} <= names(below)
        cli.process.kill()
        cli.process.wait(PATIENCE_S)
        check_nothing_is_left(out, below, seconds=30.0)
    check_accounts(out, finished=False)


def names(processes: list[psutil.Process]) -> set[str]:
    """The roles among some processes."""
    lines = [" ".join(process.cmdline()) for process in processes]
    roles = {role: f"legato-rl-{role}" for role in ("worker", "broker", "proxy", "sink")}
    roles |= {"supervisord": "legato_rl.run.supervise", "fake-policy": "fake-policy"}
    return {role for role, mark in roles.items() if any(mark in line for line in lines)}


def policy_at(url: str) -> tuple[str, ...]:
    """The options for a server of the test's own."""
    return ("--policy-url", url, *FAKE[2:])


def test_a_server_that_comes_back_fails_nothing(tmp_path: Path) -> None:
    """It dies in the middle and starts again on its port: the display says so, the wait is recorded, no retry is spent."""
    out = tmp_path / "run"
    first = FakePolicyServer(FakePolicyConfig(latency=0.05))
    url = first.start()
    options = ("--desktops", 2, "--group", 4, "--retries", 0, "--seed", 1, "--fake", "act_s=0.5", *policy_at(url))
    with collect(out, tasks_file(tmp_path, "a", "b"), *options) as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 1)
        first.close()
        cli.wait_for("policy down")
        with FakePolicyServer(FakePolicyConfig(latency=0.05, port=int(url.split(":")[2].partition("/")[0]))):
            assert cli.end() == ExitCode.DONE
        assert "policy up" in cli.output.rpartition("policy down")[2]
    rows = check_accounts(out)
    assert {row["status"] for row in rows} == {"ok"}
    assert max(step["model"]["queued_s"] for row in rows for step in row["steps"]) > 0.1


def test_a_server_that_stays_away_stops_the_run(tmp_path: Path) -> None:
    """After --server-wait: exit code 3, a sentence that says why, no attempt failed, no process left."""
    out = tmp_path / "run"
    server = FakePolicyServer(FakePolicyConfig(latency=0.05))
    url = server.start()
    options = ("--desktops", 2, "--group", 4, "--server-wait", 1, "--seed", 1, "--fake", "act_s=0.5", *policy_at(url))
    with collect(out, tasks_file(tmp_path, "a", "b"), *options) as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 1)
        below = cli.below()
        server.close()
        assert cli.end() == ExitCode.STOPPED
        *_, last = cli.output.splitlines()
        assert last.startswith("error: the run stopped early: the model server is down:")
    check_nothing_is_left(out, below)
    rows = check_accounts(out, finished=False)
    assert {row["status"] for row in rows} == {"ok"}
    assert json.loads(RunDir(out).summary.read_bytes())["attempts"]["unfinished"] == 8 - len(rows)
