"""Does a program of supervisord that is stopped while it is being started end at once?"""

from __future__ import annotations

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
"""

STOPPED_WHILE_FORKED = """
import os, signal
from legato_rl.run.supervise import main
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
main()
"""
"""The program is told to end after the fork and before its first instruction."""


def test_a_program_that_is_stopped_between_fork_and_exec(tmp_path: Path) -> None:
    """It ends by that SIGTERM; supervisord alone would lose it, and the program would go on."""
    conf = tmp_path / "supervisord.conf"
    conf.write_text(CONF.format(folder=tmp_path, python=sys.executable), encoding="utf-8")
    command = [sys.executable, "-c", STOPPED_WHILE_FORKED, "-n", "-c", str(conf)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as supervisord:
        assert supervisord.stdout is not None
        end = next(line for line in supervisord.stdout if "exited: late" in line)
        supervisord.terminate()
        assert supervisord.wait(PATIENCE_S) == 0
    assert "terminated by SIGTERM" in end
