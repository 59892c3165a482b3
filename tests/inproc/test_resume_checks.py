"""Which runs are not resumed, and what is said of each? Nothing is started."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from driven_clock import DrivenClock
from run_folder import RunFolder

from legato_rl import resume
from legato_rl.cli.collect import collect
from legato_rl.cli.main import legato_rl
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.errors import ConfigError, ExitCode, RecordError
from legato_rl.run.hold import ENDING_S, held, wait_for_sink
from legato_rl.run.prepare import claim_folder
from legato_rl.run.space import check_space, needed_bytes
from legato_rl.rundir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDir]:
    """A run of which nothing is done yet; it stays as it is."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1).run
    before = {path.name: path.read_bytes() for path in folder.root.iterdir() if path.is_file()}
    yield folder
    after = {path.name: path.read_bytes() for path in folder.root.iterdir() if path.is_file()}
    assert {**after, folder.command_lock.name: b""} == {**before, folder.command_lock.name: b""}


def test_no_run(tmp_path: Path) -> None:
    """No folder, another folder, and one that was made when a crash came before its run.json."""
    with pytest.raises(ConfigError, match="there is no such folder; name that of the run to resume"):
        resume(tmp_path / "nowhere")
    claim_folder(tmp_path / "claimed")
    with pytest.raises(ConfigError, match=r"it has no run.json, so nothing was started there; collect to a new folder"):
        resume(tmp_path / "claimed")


def test_the_run_of_a_service(tmp_path: Path) -> None:
    """It is the service's to go on with."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1).run
    folder.write_run(folder.load_run().model_copy(update={"submitted": "x"}))
    with pytest.raises(ConfigError, match=r"it is a run of a service; go on with it there \(--connect and --name\)"):
        resume(folder.root)


def test_paths_that_are_relative_to_another_folder(tmp_path: Path) -> None:
    """They would name other files here."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1).run
    about = folder.load_run()
    settings = about.settings.model_copy(update={"desktop": DesktopConfig(backend="fake", cache_dir=Path("cache"))})
    folder.write_run(about.model_copy(update={"settings": settings, "folder": tmp_path}))
    with pytest.raises(ConfigError, match=f"the run has paths relative to {tmp_path}; resume it from there"):
        resume(folder.root)


def test_a_damaged_row(run: RunDir) -> None:
    """It is named, and not passed over."""
    run.rollouts.write_bytes(b'{"schema": 1}\n{"torn')
    with pytest.raises(RecordError, match=r"rollouts.jsonl, line 1: it is no rollout"):
        resume(run.root)
    run.rollouts.unlink()


def test_damage_has_a_code_of_its_own(run: RunDir) -> None:
    """1 would say that the run ended with groups short, and 2 that the command was wrong."""
    run.rollouts.write_bytes(b"[1,2]\n{}\n")
    told = CliRunner().invoke(legato_rl, ["collect", "--resume", "--out", str(run.root)])
    assert told.exit_code == ExitCode.DAMAGED == 6
    assert told.stderr == (
        f"error: {run.rollouts}, line 1: it is no rollout (it is a list, and must be an object); see legato-rl verify\n"
    )
    run.rollouts.unlink()


def test_two_commands(run: RunDir) -> None:
    """The second is refused at once; after the first another may."""
    with held(run), pytest.raises(ConfigError, match="another command runs it; end that one, or wait for it"):
        resume(run.root)
    with held(run):
        pass


def test_a_sink_that_ends_is_waited_for(run: RunDir) -> None:
    """It has ENDING_S seconds; one that stays is told."""
    clock = DrivenClock()
    wait_for_sink(run, clock)
    fd = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    began = clock.monotonic()
    with pytest.raises(ConfigError, match="a sink has it locked; end its processes first"):
        wait_for_sink(run, clock)
    assert clock.monotonic() - began == pytest.approx(ENDING_S, abs=1.0)
    os.close(fd)
    wait_for_sink(run, clock)
    run.lock.unlink()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--resume", "--group", "4"], "group has no effect with resume, since the run has its settings: leave it out"),
        (["--resume", "--tasks", "x"], "tasks has no effect with resume"),
        (["--resume", "--version", "2"], "version has no effect with resume"),
        (["--resume", "--connect", "x"], "out is the service's own: leave it out with --connect"),
        (["--resume", "--name", "x"], "name has no effect without connect: leave it out, or name a service with --connect"),
        (["--resume", "--priority", "1"], "priority has no effect without connect"),
        (["--retry-errors"], "retry-errors has no effect without resume"),
    ],
)
def test_options_that_do_not_go_together(run: RunDir, options: list[str], said: str) -> None:
    """Named, before anything is looked at."""
    result = CliRunner().invoke(collect, ["--out", str(run.root), *options])
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)


@pytest.mark.parametrize("options", [["--priority", "1"], ["--version", "v"], ["--tasks", "x"], ["--desktops", "4"]])
def test_a_run_of_a_service_has_its_settings_too(options: list[str]) -> None:
    """What is typed beside it is refused by its name."""
    result = CliRunner().invoke(collect, ["--connect", "d", "--resume", "--name", "r", *options])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(f"{options[0][2:]} has no effect with resume, since the run has its settings")


def test_a_run_of_a_service_has_a_name() -> None:
    """Without one nobody knows which is meant."""
    result = CliRunner().invoke(collect, ["--connect", "d", "--resume"])
    assert isinstance(result.exception, SystemExit)
    assert "Missing option '--name'" in result.output
    for arguments, said in (
        ({"connect": "d"}, "name is missing: say with it which run of the service is to go on"),
        ({"connect": "d", "name": "r", "api_key": "k"}, "out and api_key are the service's own"),
        ({"connect": "d", "name": "r", "out": "x"}, "out and api_key are the service's own"),
        ({"connect": "d", "name": "r"}, "connect is 'd': there is no service"),
        ({"name": "r"}, "name is a service's: leave it out, or say with connect which service it is"),
        ({}, "out is missing: name the folder of the run to resume, or a service and its run"),
    ):
        with pytest.raises(ConfigError, match=said):
            resume(**arguments)


def test_resume_needs_a_folder() -> None:
    """As a new run does."""
    result = CliRunner().invoke(collect, ["--resume"])
    assert (result.exit_code, "Missing option '--out'" in result.output) == (2, True)


def settings(**fields: object) -> Settings:
    """Settings of a small run on large screens."""
    return Settings(policy=PolicyConfig("fake", "m"), **{"desktop": DesktopConfig(backend="osworld"), **fields})


def test_the_space_that_a_run_needs() -> None:
    """A screenshot a step and one at the end, by their pixels; of fake desktops by their photo; and the rows."""
    assert needed_bytes(settings(), 1, 10) == 11 * 1_100_000 + 10 * 30_000
    small = DesktopConfig(backend="osworld", screen_size=(960, 540))
    assert needed_bytes(settings(desktop=small), 1, 10) == 11 * 275_000 + 10 * 30_000
    fake = DesktopConfig.model_validate({"backend": "fake", "fake": {"photo_kb": 100}})
    assert needed_bytes(settings(desktop=fake), 2, 10) == 12 * (80_000 + 102_400) + 10 * 30_000


def test_a_disk_without_room(run: RunDir, caplog: pytest.LogCaptureFixture) -> None:
    """What may not suffice is told; what is less than has to stay free is refused."""
    check_space(run, settings(min_free_gb=0), 1, 1)
    assert caplog.records == []
    check_space(run, settings(min_free_gb=0), 10**6, 10**9)
    [record] = caplog.records
    assert "1000000 rollouts of 1000000000 steps may take up to 1" in record.getMessage()
    with pytest.raises(ConfigError, match=r"min-free is 1e\+09 GiB: \d+ MiB are free where .*; make space there, or lower"):
        check_space(run, settings(min_free_gb=1e9), 1, 1)
