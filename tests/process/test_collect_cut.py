"""Does a run whose stop is cut short by a second Ctrl-C say how it ended, and with its own figures? Real processes, signals."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from held_up import held_up
from whole_runs import PATIENCE_S, Cli, check_accounts, collect, tasks_file, wait_for_status

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.verify import examine, verify

pytestmark = pytest.mark.process

BAD = {"PYTHONPATH": str(Path(__file__).parents[1] / "bad")}
HANGING = ("--backend", "desktops:HangsInClose", "--screen", "320x240", "--fake", "act_s=0.3")
"""Desktops that do not let their workers go, so that ending the processes takes until it is cut."""


def cut_twice(cli: Cli, out: Path, ended: int) -> None:
    """Ctrl-C after some attempts, and again while the run's processes are ended."""
    wait_for_status(cli, out, lambda s: s.attempts_ended >= ended)
    cli.process.send_signal(signal.SIGINT)
    cli.wait_for("stopped interrupted")
    cli.process.send_signal(signal.SIGINT)
    assert cli.end() == ExitCode.INTERRUPTED, cli.output
    assert "Traceback" not in cli.output


def test_a_second_ctrl_c_while_the_processes_are_ended(tmp_path: Path) -> None:
    """The run is summed up all the same, and a resume that is cut in turn is told by its own figures."""
    out = tmp_path / "run"
    run = RunDir(out)
    tasks = tasks_file(tmp_path, "a", "b", "c")
    with collect(out, tasks, "--group", 4, "--desktops", 2, *HANGING, **BAD) as cli:
        cut_twice(cli, out, ended=1)
    before = check_told(cli, out)
    with Cli("collect", "--resume", "--out", out, **BAD) as cli:
        wait_for_status(cli, out, lambda _: True)
        assert not run.end.exists()
        assert not run.summary.exists()
        assert not any("summary" in note for note in examine(out).notes)
        cut_twice(cli, out, ended=before + 2)
    assert check_told(cli, out) >= before + 2


def check_told(cli: Cli, out: Path) -> int:
    """How the run ended, and its figures, are in its folder and among the last words; the attempts that ended."""
    run = RunDir(out)
    ended = len(check_accounts(out, finished=False))
    assert json.loads(run.end.read_bytes())["state"] == "interrupted"
    assert json.loads(run.summary.read_bytes())["attempts"] == {"asked": 12, "ended": ended, "unfinished": 12 - ended}
    assert verify(out) == []
    last = cli.output.partition("stopped interrupted")[2]
    assert f"{12 - ended} of 12 attempts unfinished; written to {out}" in last
    assert f"go on with: legato-rl collect --resume --out {out}\n" in last
    return ended


def test_a_second_ctrl_c_while_a_large_run_is_summed_up(tmp_path: Path) -> None:
    """It is not waited for: the run is then one that was cut, about which nothing false or half is told."""
    out = tmp_path / "run"
    run = RunDir(out)
    with collect(out, tasks_file(tmp_path, "a", "b", "c"), "--group", 4, "--desktops", 2, "--fake", "act_s=0.3") as cli:
        wait_for_status(cli, out, lambda s: s.attempts_ended >= 1)
        with held_up(run.tasks):
            cli.process.send_signal(signal.SIGINT)
            give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
            while not run.end.exists():
                assert SYSTEM_CLOCK.monotonic() < give_up, "the run does not end"
                SYSTEM_CLOCK.sleep(0.02)
            cli.process.send_signal(signal.SIGINT)
            assert cli.end() == ExitCode.INTERRUPTED, cli.output
    assert "written to" not in cli.output
    assert cli.output.endswith(f"go on with: legato-rl collect --resume --out {out}\ninterrupted\n")
    assert not run.end.exists()
    assert verify(out) == []


def test_a_supervisord_that_is_gone(tmp_path: Path) -> None:
    """That is said once, with the end of its log; the folder has the reason, and the log itself in logs/."""
    out = tmp_path / "run"
    run = RunDir(out)
    with collect(out, tasks_file(tmp_path, "a"), "--group", 2, "--desktops", 2, "--fake", "act_s=30") as cli:
        wait_for_status(cli, out, lambda s: s.desktops.get("act", 0) >= 1)
        (supervisord,) = (process for process in cli.below() if "legato_rl.run.supervise" in process.cmdline())
        supervisord.kill()
        assert cli.end() == ExitCode.STOPPED, cli.output
    assert "\nerror: supervisord is gone: its log ends with:\n" in cli.output
    assert cli.output.count("supervisord is gone") == cli.output.count("its log ends with") == 1
    for told in (json.loads(run.end.read_bytes()), json.loads(run.summary.read_bytes())["end"]):
        assert (told["state"], told["reason"]) == ("stopped", "supervisord is gone")
