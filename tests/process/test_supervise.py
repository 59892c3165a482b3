"""Does what is stopped, or left alone, while it is being started end at once? supervisord and its programs."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.supervisord import STARTER_VARIABLE

pytestmark = pytest.mark.process

CONF = """
[supervisord]
logfile = {folder}/supervisord.log
pidfile = {folder}/supervisord.pid
[program:late]
command = {python} -c "{program}"
startsecs = 0
autorestart = false
stopasgroup = true
"""

FORKED = """
import os, signal
from legato_rl.run.supervise import main
{hook}
os.register_at_fork(after_in_child=in_child)
main()
"""
"""supervisord, whose program does something after the fork and before its first instruction."""

IS_TOLD = """
def in_child():
    os.kill(os.getpid(), signal.SIGTERM)
"""
"""The program is told to end."""

ALL_ARE_TOLD = """
def in_child():
    os.kill(os.getppid(), signal.SIGTERM)
    if signal.sigtimedwait({signal.SIGTERM}, 5):
        os.kill(os.getpid(), signal.SIGTERM)
"""
"""supervisord is told to end, and goes on only then: it tells the program's group, and the program sees that it was told."""


@pytest.mark.parametrize("hook", [IS_TOLD, ALL_ARE_TOLD], ids=["alone", "by its group"])
def test_a_program_that_is_stopped_between_fork_and_exec(hook: str, tmp_path: Path) -> None:
    """It ends by that SIGTERM; supervisord alone would lose it, and the program would go on."""
    conf = tmp_path / "supervisord.conf"
    conf.write_text(
        CONF.format(folder=tmp_path, python=sys.executable, program="import time; time.sleep(20)"), encoding="utf-8"
    )
    command = [sys.executable, "-c", FORKED.format(hook=hook), "-n", "-c", str(conf)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as supervisord:
        assert supervisord.stdout is not None
        end = next(line for line in supervisord.stdout if re.search("(exited|stopped): late", line))
        if hook == IS_TOLD:
            supervisord.terminate()
        assert supervisord.wait(PATIENCE_S) == 0
    assert "terminated by SIGTERM" in end


PR_SET_CHILD_SUBREAPER = 36
GUARDS_LATE = """\
import os, pathlib, time; from legato_rl.role import guard_parent; parent = os.getppid(); \
file = pathlib.Path('{pid}.new'); file.write_text(str(os.getpid())); file.rename('{pid}'); \
[time.sleep(0.01) for _ in iter(lambda: os.getppid() == parent, False)]; guard_parent(); time.sleep({seconds})"""
"""A program that begins to guard itself only when its parent is gone, as one that was still being imported."""


@contextmanager
def taking_orphans() -> Iterator[None]:
    """Orphans below this process become its children, as `systemd --user` has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def test_a_program_whose_supervisord_was_killed_while_it_began_ends(tmp_path: Path) -> None:
    """It has another parent by then, which is not the first process: it ends all the same."""
    conf, pid = tmp_path / "supervisord.conf", tmp_path / "pid"
    program = GUARDS_LATE.format(pid=pid, seconds=PATIENCE_S)
    conf.write_text(CONF.format(folder=tmp_path, python=sys.executable, program=program), encoding="utf-8")
    with taking_orphans():
        with subprocess.Popen([sys.executable, "-m", "legato_rl.run.supervise", "-n", "-c", str(conf)]) as supervisord:
            deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
            while not pid.exists() and SYSTEM_CLOCK.monotonic() < deadline:
                SYSTEM_CLOCK.sleep(0.05)
            supervisord.kill()
        _, status = os.waitpid(int(pid.read_text()), 0)
    assert os.waitstatus_to_exitcode(status) == ExitCode.ORPHANED


def test_supervisord_does_not_begin_for_a_command_that_is_gone(tmp_path: Path) -> None:
    """Its parent is another one than who started it: that died before it asked to be told so, and nobody would end it."""
    conf = tmp_path / "supervisord.conf"
    conf.write_text(
        CONF.format(folder=tmp_path, python=sys.executable, program="import time; time.sleep(20)"), encoding="utf-8"
    )
    with subprocess.Popen([sys.executable, "-c", "pass"]) as gone:
        gone.wait(PATIENCE_S)
    ended = subprocess.run(
        [sys.executable, "-m", "legato_rl.run.supervise", "-n", "-c", str(conf)],
        env={**os.environ, STARTER_VARIABLE: str(gone.pid)},
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == ExitCode.ORPHANED
    assert not (tmp_path / "supervisord.log").exists()
