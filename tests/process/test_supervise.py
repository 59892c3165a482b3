"""Does a program of supervisord that is stopped while it is being started end at once?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S

pytestmark = pytest.mark.process

CONF = """
[supervisord]
logfile = {folder}/supervisord.log
pidfile = {folder}/supervisord.pid
[program:late]
command = {python} -c "import time; time.sleep(20)"
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
    conf.write_text(CONF.format(folder=tmp_path, python=sys.executable), encoding="utf-8")
    command = [sys.executable, "-c", FORKED.format(hook=hook), "-n", "-c", str(conf)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as supervisord:
        assert supervisord.stdout is not None
        end = next(line for line in supervisord.stdout if re.search("(exited|stopped): late", line))
        if hook == IS_TOLD:
            supervisord.terminate()
        assert supervisord.wait(PATIENCE_S) == 0
    assert "terminated by SIGTERM" in end
