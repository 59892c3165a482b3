"""Does a service stay up from one batch to the next, and end without a trace? `legato-rl serve` and real processes."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from whole_runs import PATIENCE_S, Cli, check_accounts, inline_task, naming, tasks_file
from whole_services import serve, serving, until

from legato_rl import ControlClient, ControlError, DesktopConfig, PolicyConfig, collect
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process


def connect(root: Path, tasks: object, *args: object) -> Cli:
    """`legato-rl collect --connect`."""
    return Cli("collect", "--connect", root, "--tasks", tasks, *args)


def workers(cli: Cli) -> set[int]:
    """The pids of a service's workers."""
    return {process.pid for process in cli.below() if any("legato-rl-worker" in word for word in process.cmdline())}


def test_batches_share_the_desktops(tmp_path: Path) -> None:
    """Each is a run with its own version and group size, in its own folder; the same workers do them all."""
    root = tmp_path / "d"
    with serving(root, "--desktops", 2) as (service, client):
        before = workers(service)
        tasks = tasks_file(tmp_path, "a", "b")
        with connect(root, tasks, "--name", "first", "--group", 2, "--version", "v2", "--json", "--quiet") as cli:
            assert cli.end() == ExitCode.DONE, cli.output
        summary = json.loads(cli.output)
        assert (summary["run_id"], summary["version"], summary["groups"]["closed"]) == ("first", "v2", 2)
        with connect(root, tasks, "--name", "second", "--group", 1, "--max-steps", 1) as cli:
            assert cli.end() == ExitCode.DONE, cli.output
        assert "2 of 2 groups closed, 2 usable rollouts, mean reward" in cli.output
        assert cli.output.count("note: no version was given: rollouts are stamped with the service's, 'v1'") == 1
        with connect(root, tasks, "--name", "first") as cli:
            assert cli.end() == ExitCode.BAD_INPUT
        assert cli.output.startswith("error: name is 'first': the service has a run of that name; choose another, or go on ")
        assert workers(service) == before
        below = service.below()
        client.shutdown()
        assert service.end() == ExitCode.DONE, service.output
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []
    assert naming(str(root)) == []
    for name, version, rows in (("first", "v2", 4), ("second", "v1", 2)):
        stored = check_accounts(ServiceDir(root).runs / name)
        assert len(stored) == rows
        assert {row["policy"]["version"] for row in stored} == {version}


def test_python_hears_each_group_once(tmp_path: Path) -> None:
    """`collect(connect=…, on_group=…)`: what is told is what is stored; a callback that fails ends nothing."""
    root = tmp_path / "d"
    heard: list[dict[str, Any]] = []
    calls = []

    def fails(group: dict[str, Any]) -> None:
        calls.append(group)
        raise ValueError("mine")

    tasks = [inline_task(name) for name in ("a", "b", "c")]
    with serving(root, "--desktops", 2):
        summary = collect(tasks, {"version": "v7"}, connect=root, name="r", group=2, oversample=0.5, on_group=heard.append)
        assert collect(tasks, connect=root, group=1, on_group=fails)["groups"]["closed"] == 3
        assert len(calls) == 1
        with pytest.raises(ControlError, match=r"settings.desktops is not a run's to choose"):
            collect(tasks, connect=root, desktops=3)
    assert summary["groups"]["closed"] == 3
    rows = {row["rollout_id"]: row for row in check_accounts(ServiceDir(root).runs / "r")}
    assert sorted(group["group"] for group in heard) == ["a", "b", "c"]
    for group in heard:
        assert [rows[rollout]["reward"] for rollout in group["rollouts"]] == group["rewards"]
        assert (group["usable"], group["versions"]) == (2, ["v7"])


def test_python_hears_each_group_of_a_run_of_its_own(tmp_path: Path) -> None:
    """The same without a service."""
    heard: list[dict[str, Any]] = []
    out = tmp_path / "run"
    policy = PolicyConfig("fake", "m", version="v7")
    desktop = DesktopConfig(backend="fake", screen_size=(320, 240))
    tasks = [inline_task("a"), inline_task("b")]
    collect(tasks, policy, out, desktop=desktop, desktops=2, group=2, on_group=heard.append)
    rows = {row["rollout_id"]: row for row in check_accounts(out)}
    assert sorted(group["group"] for group in heard) == ["a", "b"]
    assert all(rows[rollout]["usable"] for group in heard for rollout in group["rollouts"])


def test_ctrl_c_stops_that_run_alone(tmp_path: Path) -> None:
    """The other one goes on; what was stopped is resumable; a second Ctrl-C leaves at once."""
    root = tmp_path / "d"
    slow = ("--fake", "act_s=0.3")
    with serving(root, "--desktops", 2, *slow) as (service, client):
        tasks = tasks_file(tmp_path, "a", "b")
        with connect(root, tasks, "--name", "one", "--group", 8) as one, connect(root, tasks, "--name", "two") as two:
            until(client, "one", lambda status: status.attempts_ended >= 1)
            one.process.send_signal(signal.SIGINT)
            assert one.end() == ExitCode.INTERRUPTED
            assert one.output.endswith("interrupted\n")
            end = RunDir(ServiceDir(root).runs / "one").load_end()
            assert end is not None
            assert (end["state"], end["reason"]) == ("stopped", "interrupted")
            assert two.end() == ExitCode.DONE, two.output
        client.resume_run("one")
        status = until(client, "one", lambda status: status.state == "finished")
        assert status.groups.closed == 2
        assert service.process.poll() is None
    check_accounts(ServiceDir(root).runs / "one")
    check_accounts(ServiceDir(root).runs / "two")


def test_a_service_is_opened_again(tmp_path: Path) -> None:
    """By Ctrl-C its runs stop; from its folder alone it goes on, other options are refused, and so is a second beside it."""
    root, tasks = tmp_path / "d", tasks_file(tmp_path, "a")
    with serve(root, "--desktops", 1, "--fake", "act_s=0.3") as service:
        service.wait_for("no run |")
        with connect(root, tasks, "--name", "cut", "--group", 4) as cli:
            with ControlClient(root) as client:
                until(client, "cut", lambda status: status.attempts_ended >= 1)
                client.drain()  # so that the run goes on, however long what follows takes
            with Cli("serve", "--dir", root) as second:
                assert second.end() == ExitCode.BAD_INPUT
            assert second.output == f"error: dir is '{root}': another command runs it; end that one, or wait for it\n"
            service.process.send_signal(signal.SIGINT)
            assert cli.end() == ExitCode.STOPPED
            assert "error: the run stopped early: the service was shut down" in cli.output
        assert service.end(2 * PATIENCE_S) == ExitCode.INTERRUPTED
    assert naming(str(root)) == []
    assert "\ncut was submitted: 1 groups of 4, version v1\n" in service.output
    stopped, last, interrupted = service.output.splitlines()[-3:]
    assert stopped.startswith("cut stopped (the service was shut down): 0 of 1 groups closed, ")
    assert stopped.endswith(f"; go on with: legato-rl control resume-run {root} cut")
    assert last == f"the service was interrupted; start it again with: legato-rl serve --dir {root}"
    assert interrupted == "interrupted"
    with serve(root, "--desktops", 2) as other:
        assert other.end() == ExitCode.BAD_INPUT
    assert other.output == "error: desktops is 2: this service was made with 1; leave it out, or name another folder\n"
    with Cli("serve", "--dir", root) as again:
        again.wait_for("no run |")
        assert f"\nstopped earlier, and may go on: cut (legato-rl control resume-run {root} RUN)\n" in again.output
        with ControlClient(root) as client:
            client.resume()
            client.resume_run("cut")
            again.wait_for("cut finished: 1 of 1 groups closed, 4 usable rollouts, mean reward ")
            client.shutdown()
        assert again.end() == ExitCode.DONE
    assert again.output.endswith(f"the service was shut down; start it again with: legato-rl serve --dir {root}\n")
    check_accounts(ServiceDir(root).runs / "cut")


def test_a_service_that_was_killed_while_it_was_made(tmp_path: Path) -> None:
    """Its folder is taken for what it is, whatever became of the start after it."""
    root = tmp_path / "d"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with serve(root, "--policy-url", silent_url, "--model", "m", "--version", "v1") as service:
            silent.settimeout(PATIENCE_S)
            silent.accept()
            service.process.kill()
            service.end()
    left = sorted(path.name for path in root.iterdir())
    assert left == ["command.lock", "logs", "runs"]
    with serve(root, "--most-desktops", 1) as refused:
        assert refused.end() == ExitCode.BAD_INPUT
    assert sorted(path.name for path in root.iterdir()) == left
    with serving(root, "--desktops", 1):
        assert collect([inline_task("a")], connect=root, group=1)["groups"]["closed"] == 1


def test_two_that_start_at_once(tmp_path: Path) -> None:
    """One makes the service; the other is refused while the first still looks, and takes nothing of its away."""
    root = tmp_path / "d"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with serve(root, "--policy-url", silent_url, "--model", "m", "--version", "v1") as first:
            silent.settimeout(PATIENCE_S)
            silent.accept()
            # However long the second takes, the first is at its look.
            first.process.send_signal(signal.SIGSTOP)
            with serve(root, "--desktops", 1) as second:
                assert second.end() == ExitCode.BAD_INPUT
            assert second.output == f"error: dir is '{root}': another command runs it; end that one, or wait for it\n"
            assert sorted(path.name for path in root.iterdir()) == ["command.lock", "logs", "runs"]
            first.process.send_signal(signal.SIGINT)
            first.process.send_signal(signal.SIGCONT)
            assert first.end() == ExitCode.INTERRUPTED
    assert not root.exists()


def test_the_second_ctrl_c_is_immediate(tmp_path: Path) -> None:
    """It waits for no grading; no process is left, and what it cut goes on when the service is started again."""
    root = tmp_path / "d"
    with serve(root, "--desktops", 1, "--fake", "eval_s=60") as service:
        service.wait_for("no run |")
        with connect(root, tasks_file(tmp_path, "a"), "--max-steps", 1, "--name", "r") as cli:
            cli.wait_for("1 evaluate")
            below = service.below()
            service.process.send_signal(signal.SIGINT)
            cli.wait_for("stopping the service was shut down")
            service.process.send_signal(signal.SIGINT)
            assert service.end() == ExitCode.INTERRUPTED
            cli.process.send_signal(signal.SIGINT)
            cli.process.send_signal(signal.SIGINT)
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []
    assert "\nr was cut: it goes on when the service is started again\n" in service.output
    with Cli("serve", "--dir", root) as again:
        again.wait_for("r goes on: groups 0/1 closed, 0 of 4 attempts ended")
        again.wait_for("1 evaluate")
        below = again.below()
        again.process.send_signal(signal.SIGINT)
        again.wait_for("stopping")
        again.process.send_signal(signal.SIGINT)
        assert again.end() == ExitCode.INTERRUPTED
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []
    assert RunDir(ServiceDir(root).runs / "r").load_end() is None, "it was cut, not stopped after its grace"
