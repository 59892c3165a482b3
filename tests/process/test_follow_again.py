"""Does a client whose process is gone find its run again? `collect --connect --resume` at real services."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from whole_runs import Cli, check_accounts, inline_task, tasks_file
from whole_services import serving, until

from legato_rl import resume
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process

SLOW = ("--desktops", 2, "--fake", "act_s=0.8")


def connect(root: Path, *args: object) -> Cli:
    """`legato-rl collect --connect`."""
    return Cli("collect", "--connect", root, *args)


def test_a_client_that_was_killed_follows_its_run_again(tmp_path: Path) -> None:
    """Whether it still runs or has finished, as often as one likes; nothing is sampled twice, and the refusal names the way."""
    root, tasks = tmp_path / "d", tasks_file(tmp_path, "a", "b")
    asked = ("--tasks", tasks, "--name", "r", "--group", 4)
    with serving(root, *SLOW) as (_, client):
        with connect(root, *asked) as cli:
            until(client, "r", lambda status: status.attempts_ended >= 1)
            # What is left is begun when somebody looks on again.
            client.drain()
            cli.process.kill()
            cli.end()
        with connect(root, *asked) as cli:
            assert cli.end() == ExitCode.BAD_INPUT
        assert cli.output == (
            "error: name is 'r': the service has a run of that name; choose another, or go on with that one "
            "(--resume with --name, or resume_run)\n"
        )
        with connect(root, "--resume", "--name", "r") as cli:
            cli.wait_for("r: the service's desktops (fake), policy fake v1 at ")
            client.resume()
            assert cli.end() == ExitCode.DONE, cli.output
        assert "| attempts " in cli.output
        assert "no version was given" not in cli.output
        assert "2 of 2 groups closed, 8 usable rollouts, mean reward " in cli.output
        rows = RunDir(ServiceDir(root).runs / "r").rollouts.read_bytes()
        with connect(root, "--resume", "--name", "r", "--json") as cli:
            assert cli.end() == ExitCode.DONE
        assert "the run had finished before: nothing was started\n" in cli.output
    # No service is needed for one that has finished.
    with connect(root, "--resume", "--name", "r", "--json", "--quiet") as cli:
        assert cli.end() == ExitCode.DONE
    assert json.loads(cli.output)["groups"]["closed"] == 2
    assert RunDir(ServiceDir(root).runs / "r").rollouts.read_bytes() == rows
    check_accounts(ServiceDir(root).runs / "r")


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """By the words that the client ended with; it may be stopped again; a service that is down is told."""
    root = tmp_path / "d"
    again = f"go on with: legato-rl collect --connect {root} --resume --name r\n"
    with serving(root, *SLOW) as (_, client):
        with connect(root, "--tasks", tasks_file(tmp_path, "a"), "--name", "r", "--group", 8) as cli:
            until(client, "r", lambda status: status.attempts_ended >= 1)
            cli.process.send_signal(signal.SIGINT)
            assert cli.end() == ExitCode.INTERRUPTED
        assert cli.output.endswith(f"{again}interrupted\n")
        with connect(root, "--resume", "--name", "r") as cli:
            cli.wait_for("r: the service's desktops")
            client.stop("enough", "r")
            assert cli.end() == ExitCode.STOPPED
        assert cli.output.endswith(f"{again}error: the run stopped early: enough\n")
        with connect(root, "--resume", "--name", "r") as cli:
            assert cli.end() == ExitCode.DONE, cli.output
        with connect(root, "--resume", "--name", "none") as cli:
            assert cli.end() == ExitCode.BAD_INPUT
        assert cli.output == "error: name is 'none': the service has no run of that name to resume\n"
    check_accounts(ServiceDir(root).runs / "r")
    RunDir(ServiceDir(root).runs / "r").end.unlink()
    with connect(root, "--resume", "--name", "r") as cli:
        assert cli.end() == ExitCode.BAD_INPUT
    assert "no process of its service is up; start it with legato-rl serve --dir " in cli.output


def test_errors_are_tried_again(tmp_path: Path) -> None:
    """With --retry-errors, also of a run that had finished; without, they stand."""
    root, tasks = tmp_path / "d", tasks_file(tmp_path, "a")
    with serving(root, "--desktops", 1, "--fake", "fail_evaluate=1"):
        with connect(root, "--tasks", tasks, "--name", "r", "--group", 2, "--env-retries", 0, "--max-steps", 1) as cli:
            assert cli.end() == ExitCode.SHORT
        for options, tries in ((), [1, 1]), (("--retry-errors",), [2, 2]):
            with connect(root, "--resume", "--name", "r", *options) as cli:
                assert cli.end() == ExitCode.SHORT
            assert "error: fewer than asked were delivered, 0 of 1 groups closed" in cli.output
            rows = check_accounts(ServiceDir(root).runs / "r")
            assert sorted(Counter(row["attempt"] for row in rows).values()) == tries


def test_python_hears_what_had_closed_before(tmp_path: Path) -> None:
    """`resume(connect=…, name=…)`: every group once more, and those to come; the summary as of `collect`."""
    root = tmp_path / "d"
    heard: list[dict[str, Any]] = []
    with serving(root, *SLOW) as (_, client):
        client.submit([inline_task(name) for name in "abcdef"], {"group": 1}, name="r")
        until(client, "r", lambda status: status.groups.closed >= 1)
        client.drain()
        summary = resume(connect=root, name="r", on_start=lambda _: client.resume(), on_group=heard.append)
        assert (summary["groups"]["closed"], sorted(group["group"] for group in heard)) == (6, list("abcdef"))
        assert resume(connect=root, name="r", on_start=lambda _: pytest.fail("it has finished")) == summary
