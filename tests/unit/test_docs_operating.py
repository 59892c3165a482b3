"""docs/operating.md tells every exit code and log, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from legato_rl.errors import ExitCode
from legato_rl.supervisord import EXPECTED_EXITS, Layout, programs, render

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")


def test_every_exit_code_is_told() -> None:
    """The table has every code once, with its name and whether supervisord starts a process again after it."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| [^|]+ \| (yes|no) \|$", PAGE, re.MULTILINE)
    assert rows == [(str(code.value), code.name, "no" if code in EXPECTED_EXITS else "yes") for code in ExitCode]


def test_every_program_is_told() -> None:
    """Each program that supervisord starts is in the table of processes."""
    assert [program.script for program in programs(2) if f"| `{program.script}` |" not in PAGE] == []


def test_rotation_is_as_rendered() -> None:
    """The size and number of rotated logs are those of the rendered configuration."""
    conf = render(Layout(Path("/run"), Path("/logs"), Path("/bin"), Path("/")), Path("/sockets"), 2)
    assert conf.count("stdout_logfile_maxbytes = 64MB\nstdout_logfile_backups = 3\n") == len(programs(2))
    assert "\nlogfile_maxbytes = 64MB\nlogfile_backups = 3\n" in conf
    assert "| at 64 MB, three older ones kept (`.1` to `.3`) |" in PAGE
