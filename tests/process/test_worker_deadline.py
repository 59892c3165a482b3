"""Does a worker whose desktop hangs end itself? A real worker process; its broker, proxy and sink are the test's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from scripted_desktop import SIZE
from worker_scene import KEY, PATIENCE_S, Stage, run_file

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.endpoints import address
from legato_rl.errors import ExitCode
from legato_rl.role import Quit
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context
from legato_rl.workers.link import Link

pytestmark = pytest.mark.process

CLICK = """Action: Click.
<tool_call>
<function=computer_use>
<parameter=action>
left_click
</parameter>
<parameter=coordinate>
[500, 300]
</parameter>
</function>
</tool_call>"""


def test_a_hung_action_ends_the_process(tmp_path: Path) -> None:
    """Within the phase's deadline, with the exit code that asks for a restart, and a line that names the phase."""
    desktop = DesktopConfig(backend="fake", screen_size=SIZE, fake={"hang": 1.0}, deadlines={"act": 0.5})
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        run = run_file(Path(sockets), desktop=desktop)
        RunDir(tmp_path).write_run(run)
        servers = (context.server(name, address(run.sockets, name)) for name in ("orders", "policy", "rows"))
        scene = Stage(*servers, Link("none", "none", desktop, SYSTEM_CLOCK, Quit()))
        command = [sys.executable, "-m", "legato_rl.workers.main", str(tmp_path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
            try:
                scene.give()
                scene.answer(CLICK)
                assert worker.wait(PATIENCE_S) == ExitCode.DEADLINE
            finally:
                worker.kill()
            assert worker.stderr is not None
            assert "the phase act passed its deadline of 0.5 s: this process ends itself" in worker.stderr.read()
        scene.turn()
        assert scene.drafts == [], "the broker writes the row of a lost worker"
        assert scene.beats[-1].holds is not None
        assert scene.beats[-1].holds.key == KEY
