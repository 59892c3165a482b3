"""Is a run given up whose broker never says a word? A real supervisord without any program, and a clock that runs fast."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from worker_scene import run_file

from legato_rl.clock import SYSTEM_CLOCK, SystemClock
from legato_rl.control import ControlClient
from legato_rl.errors import RunStopped
from legato_rl.run.follow import LOOK_S, SILENT_S, follow
from legato_rl.run.prepare import claim_folder
from legato_rl.run.processes import Supervisor
from legato_rl.supervisord import Layout, render

pytestmark = pytest.mark.process


class Fast(SystemClock):
    """A clock on which two looks without an answer take almost as long as a broker may be silent."""

    def monotonic(self) -> float:
        return super().monotonic() * SILENT_S / (2.5 * LOOK_S)


def test_a_broker_that_never_answers_ends_the_run(tmp_path: Path) -> None:
    """Its process may be there and hang: the run stops, resumable, with the last lines of its log."""
    folder = claim_folder(tmp_path / "run")
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        folder.write_run(run_file(Path(sockets)))
        conf = render(Layout(folder.root, folder.logs, Path("/bin"), tmp_path), Path(sockets), 1)
        folder.supervisord_conf.write_text(conf.partition("[program:")[0])
        (folder.logs / "broker.log").write_text("the cause\n")
        supervisor = Supervisor(folder.supervisord_conf, Path(sockets), folder.logs, SYSTEM_CLOCK)
        supervisor.start(None)
        ends: list[RunStopped] = []

        def watch() -> None:
            with ControlClient(folder.root) as control:
                try:
                    follow(supervisor, control, folder.logs, Fast(), lambda status: None)
                except RunStopped as stopped:
                    ends.append(stopped)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        thread.join(90.0)
        supervisor.kill()
        assert not thread.is_alive()
    said = f"the broker has not answered for {SILENT_S:.0f} s: its log ends with:\nthe cause"
    assert [str(stopped).startswith(said) for stopped in ends] == [True]
