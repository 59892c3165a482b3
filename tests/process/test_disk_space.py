"""Does a run wait for space on its disk, and say so, and go on? Real processes on a small disk of their own."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from whole_runs import FAKE, PATIENCE_S, SMALL, Cli, check_accounts, tasks_file

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.verify import verify

pytestmark = pytest.mark.process

ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
ON_A_SMALL_DISK = 'mount -t tmpfs -o size=64m tmpfs "$DISK" && "$@"; code=$?; cp -r "$DISK/run" "$COPY"; exit $code'
"""A command on a disk that nobody else sees; what is left of it is the copy of the run."""


@pytest.mark.parametrize(
    ("min_free", "left", "said"),
    [("0", 0, "(No space left on device): make space there"), ("0.03", 8, "less than --min-free (31 MiB): make space there")],
    ids=["full", "nearly"],
)
def test_a_full_disk_is_waited_for(tmp_path: Path, min_free: str, left: int, said: str) -> None:
    """The display says once why nothing goes on; with space again the run finishes, and every file of it is true."""
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    options = ("--group", 4, "--desktops", 2, "--seed", 1, "--min-free", min_free, "--fake", "act_s=0.3", *SMALL, *FAKE)
    arguments = ("collect", "--tasks", tasks_file(tmp_path, "a", "b", "c"), "--out", disk / "run", *options)
    wrap = ("unshare", "--mount", *ROOT, "sh", "-c", ON_A_SMALL_DISK, "sh")
    with Cli(*arguments, wrap=wrap, DISK=str(disk), COPY=str(copy)) as cli:
        cli.wait_until(lambda output: "groups 1/3" in output or "groups 2/3" in output)
        seen = Path("/proc", str(cli.process.pid), "root", *disk.parts[1:])
        fill(seen, left * 2**20)
        cli.wait_for("storage waiting: ")
        cli.wait_for(said)
        (seen / "filler").unlink()
        assert cli.end() == ExitCode.DONE, cli.output
    assert len(check_accounts(copy)) == 12
    assert verify(copy) == []
    log = (RunDir(copy).logs / "sink.log").read_text()
    assert log.count("No space left on device") <= 1


def test_workers_that_log_much_while_the_disk_is_full(tmp_path: Path) -> None:
    """Nothing of it can be written, and supervisord, whose own errors would go there too, goes on all the same."""
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    options = ("--group", 4, "--desktops", 2, "--seed", 1, "--min-free", 0, "--fake", "act_s=0.3", *SMALL, *FAKE)
    arguments = ("collect", "--tasks", tasks_file(tmp_path, "a", "b"), "--out", disk / "run", *options)
    wrap = ("unshare", "--mount", *ROOT, "sh", "-c", ON_A_SMALL_DISK, "sh")
    bad = {"PYTHONPATH": str(Path(__file__).parents[1] / "bad")}
    with Cli(*arguments, "--backend", "desktops:SaysMuch", wrap=wrap, DISK=str(disk), COPY=str(copy), **bad) as cli:
        cli.wait_until(lambda output: "groups 1/2" in output)
        seen = Path("/proc", str(cli.process.pid), "root", *disk.parts[1:])
        fill(seen, 0)
        cli.wait_for("storage waiting: ")
        # Far more than their pipes hold: supervisord has tried to log it.
        wait_for_output([process for process in cli.below() if "legato-rl-worker" in " ".join(process.cmdline())], 2**18)
        (seen / "filler").unlink()
        assert cli.end() == ExitCode.DONE, cli.output
    assert len(check_accounts(copy)) == 8
    logs = RunDir(copy).logs
    assert b"uncaptured" not in (logs / "supervisord.log").read_bytes()
    assert (logs / "supervisord.err").read_bytes() == b""


def wait_for_output(processes: list[psutil.Process], more: int) -> None:
    """Until each of the processes has written so many bytes more."""
    assert processes
    due = {process: process.io_counters().write_chars + more for process in processes}
    give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while any(process.io_counters().write_chars < bytes_ for process, bytes_ in due.items()):
        assert SYSTEM_CLOCK.monotonic() < give_up, "the processes are held up by their log"
        select.select([], [], [], 0.05)


def fill(disk: Path, left: int) -> None:
    """Leave so many bytes free."""
    with (disk / "filler").open("wb", buffering=0) as file:
        free = os.statvfs(disk)
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        with suppress(OSError):
            while not left:
                file.write(bytes(4096))
