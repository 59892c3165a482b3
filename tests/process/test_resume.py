"""Is a run that ended early finished from its folder, and nothing lost or doubled? Real processes, killed and stopped."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from whole_runs import FAKE, PATIENCE_S, Cli, check_accounts, collect, naming, rows_of, tasks_file, wait_for_status

from legato_rl import ControlClient, resume
from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.rundir import RunDir
from legato_rl.verify import examine, verify

pytestmark = pytest.mark.process

STARTED = b" supervisord started with pid "
SLOW = ("--desktops", 2, "--seed", 1, "--fake", "act_s=0.1")


def go_on(out: Path, *options: str) -> Cli:
    """`collect --resume`."""
    return Cli("collect", "--resume", "--out", out, *options)


def starts(out: Path) -> int:
    """How often the run's processes were started."""
    return (RunDir(out).logs / "supervisord.log").read_bytes().count(STARTED)


def drain(out: Path) -> None:
    """Have no further try begun, so that the run does not end, however long what follows takes."""
    with ControlClient(out) as control:
        control.drain()


def contents(out: Path) -> dict[str, bytes]:
    """The files of a run's folder, its logs and locks left out."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.suffix != ".lock"}


def test_a_collect_that_was_killed_again_and_again(tmp_path: Path) -> None:
    """SIGKILL to the first command and to its resume: the third finishes it; what was stored stands, byte for byte."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a", "b", "c"), "--group", 3, *SLOW) as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 2)
        drain(out)
        with go_on(out) as second:
            assert second.end() == ExitCode.BAD_INPUT
            assert "another command runs it" in second.output
        cli.process.kill()
        cli.process.wait(PATIENCE_S)
    first = RunDir(out).load_run()
    with go_on(out) as cli:
        # What the killed command started may still store a row while it ends; then the sink's lock is free.
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 4)
        drain(out)
        stored = RunDir(out).rollouts.read_bytes()
        cli.process.kill()
        cli.process.wait(PATIENCE_S)
    with go_on(out) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
        assert f"{first.run_id}: 2 desktops (fake)" in cli.output
        assert "3 of 3 groups closed, 9 usable rollouts" in cli.output
    assert RunDir(out).rollouts.read_bytes().startswith(stored)
    check_accounts(out)
    assert verify(out) == []
    assert starts(out) == 3
    assert not first.sockets.exists()
    assert naming(str(out)) == []


def test_a_run_that_finished_is_left_as_it_is(tmp_path: Path) -> None:
    """Twice in a row changes nothing and starts nothing; what a crash after the last row left out is written."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a"), "--group", 2, "--desktops", 2) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    before, run = contents(out), RunDir(out)
    with go_on(out, "--retry-errors") as cli:
        assert cli.end() == ExitCode.DONE
        assert cli.output.splitlines()[0] == "the run had finished before: nothing was started"
    assert contents(out) == before
    run.summary.unlink()
    summary = resume(out, on_start=lambda _: pytest.fail("nothing is to start"))
    assert contents(out) == before
    for path in (run.end, run.summary):
        path.unlink()
    again = resume(out)
    assert {**again, "end": None} == {**summary, "end": None}
    assert json.loads(run.end.read_bytes())["state"] == "finished"
    assert verify(out) == []
    assert starts(out) == 1


def test_a_run_that_was_interrupted(tmp_path: Path) -> None:
    """Ctrl-C is forgotten, a cancelled group is not; from Python, with each group told once that it is closed."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a", "b", "c"), "--group", 4, *SLOW, "--fake", "act_s=0.5") as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 4)
        drain(out)
        with ControlClient(out) as control:
            control.cancel(group="c")
        # All of group a has begun, since attempts are handed out in order.
        wait_for_status(cli, out, lambda s: s.groups.closed == 1)
        cli.process.send_signal(signal.SIGINT)
        assert cli.end() == ExitCode.INTERRUPTED
        assert f"go on with: legato-rl collect --resume --out {out}\n" in cli.output
    assert json.loads(RunDir(out).end.read_bytes())["state"] == "interrupted"
    stored = len(rows_of(out))
    closed: list[str] = []
    summary = resume(out, on_group=lambda group: closed.append(group["group"]))
    assert (summary["end"]["state"], summary["attempts"]["ended"]) == ("finished", 12)
    assert sorted(closed) == ["a", "b"]
    rows = check_accounts(out)
    assert len(rows) == 12 > stored >= 4
    assert [row["status"] for row in rows if row["group_id"] == "c"] == ["skipped"] * 4
    assert verify(out) == []


def test_a_run_whose_server_stayed_away(tmp_path: Path) -> None:
    """It goes on with the server that comes back, and with no other weights; while it is refused, nothing changes."""
    out = tmp_path / "run"
    first = FakePolicyServer(FakePolicyConfig(latency=0.05, sglang=True, weight_version="step-1"))
    url = first.start()
    port = int(url.split(":")[2].partition("/")[0])
    options = ("--group", 4, "--server-wait", 1, *SLOW, "--fake", "act_s=0.5", "--policy-url", url, *FAKE[2:])
    with collect(out, tasks_file(tmp_path, "a", "b"), *options, LEGATO_POLICY_KEY="a-key-of-a-run") as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 1)
        first.close()
        assert cli.end() == ExitCode.STOPPED
    assert RunDir(out).load_run().engine["weight_version"] == "step-1"
    before = contents(out)
    with go_on(out) as cli:
        assert cli.end() == ExitCode.BAD_INPUT
        assert cli.output.startswith(f"error: policy-url is '{url}': ")
    with FakePolicyServer(FakePolicyConfig(port=port, sglang=True, weight_version="step-2")), go_on(out) as cli:
        assert cli.end() == ExitCode.BAD_INPUT
        assert "the server has weight version 'step-2', and the run's is 'step-1'; load those weights" in cli.output
    assert contents(out) == before
    key = "a-key-of-a-run"
    with FakePolicyServer(FakePolicyConfig(port=port, sglang=True, weight_version="step-1", api_key=key)):
        with go_on(out) as cli:
            assert cli.end() == ExitCode.BAD_INPUT, "the key is not in the folder"
        with Cli("collect", "--resume", "--out", out, LEGATO_POLICY_KEY=key) as cli:
            assert cli.end() == ExitCode.DONE, cli.output
    check_accounts(out)
    report = examine(out, key)
    assert report.faults == []
    assert not [note for note in report.notes if "weight" in note]


def test_errors_are_tried_again_where_that_is_asked(tmp_path: Path) -> None:
    """Those of desktops and evaluators in groups that are not closed; the row stays, the next try is the result."""
    out = tmp_path / "run"
    faults = ("--fake", "bug_evaluate=0.5", "--stop-failures", 1)
    with collect(out, tasks_file(tmp_path, "a", "b", "c"), "--group", 2, "--desktops", 2, "--seed", 5, *faults) as cli:
        assert cli.end() == ExitCode.SHORT, cli.output
    before = check_accounts(out)
    errors = {row["rollout_id"] for row in before if row["status"] == "error"}
    with go_on(out) as cli:
        assert cli.end() == ExitCode.SHORT
        assert "the run had finished before" in cli.output
    assert rows_of(out) == before
    with go_on(out, "--retry-errors") as cli:
        assert cli.end() in (ExitCode.DONE, ExitCode.SHORT), cli.output
        assert "had finished before" not in cli.output
    assert set(RunDir(out).load_run().again) == errors
    rows = check_accounts(out)
    assert rows[: len(before)] == before
    again = {(row["group_id"], row["attempt"], row["try"]) for row in rows[len(before) :]}
    assert again == {(row["group_id"], row["attempt"], row["try"] + 1) for row in before if row["rollout_id"] in errors}
    assert {row["status"] for row in rows[len(before) :]} >= {"ok"}
    assert verify(out) == []
    with Cli("export", out, "--out", out / "train.jsonl") as cli:
        assert cli.end() == ExitCode.DONE
    assert verify(out) == []
