"""What does the command line do when nobody reads what it says? A run goes on to its end, what only prints ends quietly."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from whole_runs import FAKE, PATIENCE_S, SMALL, Cli, check_accounts, collect, tasks_file
from whole_services import serve

from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode
from legato_rl.run.processes import scripts_folder
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process

SHORT = ("--desktops", 1, "--group", 2, "--max-steps", 2)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose progress nobody read after its first line; it ended as it should all the same."""
    folder = tmp_path_factory.mktemp("unread")
    with collect(folder / "run", tasks_file(folder, "a"), *SHORT) as cli:
        cli.wait_for("\n")
        cli.stop_reading()
        assert cli.process.wait(PATIENCE_S) == ExitCode.DONE
    return folder / "run"


def unread(stream: str, *args: object) -> tuple[int, str]:
    """Run a command that nobody reads one stream of; its exit code, and what it said on the other."""
    reading, writing = os.pipe()
    os.close(reading)
    other = "stderr" if stream == "stdout" else "stdout"
    command = [str(scripts_folder() / "legato-rl"), *map(str, args)]
    with os.fdopen(writing) as nobody:
        streams = {stream: nobody, other: subprocess.PIPE}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **streams)  # type: ignore[call-overload]
    said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said[other == "stderr"]


def finished(folder: Path) -> None:
    """The run ended by itself, and is whole."""
    end = RunDir(folder).load_end()
    assert end is not None
    assert end["state"] == "finished"
    assert RunDir(folder).summary.exists()
    check_accounts(folder)


def test_a_run_goes_on_without_a_reader(out: Path) -> None:
    """Its progress is dropped, and its end told in its folder."""
    finished(out)


def test_a_service_and_its_runs_go_on_without_a_reader(tmp_path: Path) -> None:
    """`serve` as well as `collect --connect`."""
    root = tmp_path / "d"
    with serve(root, "--desktops", 1) as service:
        service.wait_for("no run |")
        service.stop_reading()
        with Cli("collect", "--connect", root, "--tasks", tasks_file(tmp_path, "a"), "--name", "r", *SHORT[2:]) as cli:
            cli.wait_for("\n")
            cli.stop_reading()
            assert cli.process.wait(PATIENCE_S) == ExitCode.DONE
        with ControlClient(root) as client:
            client.shutdown()
        assert service.process.wait(PATIENCE_S) == ExitCode.DONE
    finished(ServiceDir(root).runs / "r")


def test_a_summary_that_nobody_reads(tmp_path: Path) -> None:
    """It is told by the exit code, after the run has ended."""
    run = tmp_path / "run"
    tasks = tasks_file(tmp_path, "a")
    code, said = unread("stdout", "collect", "--tasks", tasks, "--out", run, *FAKE, *SMALL, *SHORT, "--json", "--quiet")
    assert (code, said) == (ExitCode.UNREAD, "")
    finished(run)


@pytest.mark.parametrize("command", ["profile", "profile --json", "export", "doctor", "probe", "--help"])
def test_what_only_prints_ends_quietly(out: Path, command: str) -> None:
    """With the exit code of a program that SIGPIPE ended, and not a word about it."""
    name, *more = command.split()
    args = {
        "export": [out, "--out", "-"],
        "doctor": ["--backend", "fake", "--desktops", 1],
        "probe": FAKE[:4],
        "--help": [],
    }.get(name, [out])
    code, said = unread("stdout", *(["collect"] if name == "--help" else []), name, *args, *more)
    assert (code, said) == (ExitCode.UNREAD, "")


@pytest.mark.parametrize("args", [["verify"], ["verify", "--json"], ["profile"], ["export", "--out", "-"]], ids=" ".join)
def test_remarks_that_nobody_reads_change_nothing(out: Path, args: list[str]) -> None:
    """What was asked for is on stdout, whole, and the exit code is as ever."""
    name, *options = args
    done = subprocess.run(
        [str(scripts_folder() / "legato-rl"), name, str(out), *options], capture_output=True, text=True, check=True
    )
    assert unread("stderr", name, out, *options) == (ExitCode.DONE, done.stdout)


def test_an_error_that_nobody_reads_has_its_exit_code(tmp_path: Path) -> None:
    """As where somebody does."""
    assert unread("stderr", "profile", tmp_path) == (ExitCode.BAD_INPUT, "")
