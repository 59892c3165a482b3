"""Does a run wait for space on its disk, and say so, and go on? Real processes on a small disk of their own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from whole_runs import FAKE, SMALL, Cli, check_accounts, tasks_file

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


def fill(disk: Path, left: int) -> None:
    """Leave so many bytes free."""
    with (disk / "filler").open("wb", buffering=0) as file:
        free = os.statvfs(disk)
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        with suppress(OSError):
            while not left:
                file.write(bytes(4096))
