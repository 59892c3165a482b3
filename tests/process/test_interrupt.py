"""Does Ctrl-C end a run whose broker does not answer? A real supervisord without any program."""

from __future__ import annotations

import io
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from worker_scene import run_file

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.run import api
from legato_rl.run.follow import follow
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.run.prepare import claim_folder
from legato_rl.run.processes import Supervisor
from legato_rl.supervisord import render

pytestmark = pytest.mark.process


def test_a_broker_that_is_not_there_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be told to stop, so everything is ended at once, and nothing goes on behind the user's back."""
    monkeypatch.setattr(api, "STOP_ANSWER_S", 0.3)
    folder = claim_folder(tmp_path / "run")
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        folder.write_run(run_file(Path(sockets)))
        conf = render(folder.root, Path(sockets), folder.logs, Path("/bin"), 1, tmp_path)
        folder.supervisord_conf.write_text(conf.partition("[program:")[0])
        supervisor = Supervisor(folder.supervisord_conf, Path(sockets), folder.logs, SYSTEM_CLOCK)
        supervisor.start(None)

        def interrupt() -> None:
            with ControlClient(Path(sockets)) as control:
                api._interrupt(supervisor, control, folder, lambda status: None)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        thread.join(10.0)
        alive = supervisor.alive()
        supervisor.kill()
    assert not thread.is_alive()
    assert not alive


class Swallower(io.RawIOBase):
    """A file during whose finalizer Ctrl-C is pressed."""

    def close(self) -> None:
        """Press it, the first time."""
        if not self.closed:
            super().close()
            signal.raise_signal(signal.SIGINT)


def test_a_ctrl_c_that_python_swallows_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer's KeyboardInterrupt is lost: the next look at the run finds that it was pressed."""
    before = signal.getsignal(signal.SIGINT)
    supervisor = Supervisor(tmp_path / "conf", tmp_path, tmp_path, SYSTEM_CLOCK)
    looks = []

    def states() -> dict[str, object]:
        looks.append(Swallower() if not looks else None)
        looks[0] = None
        return {}

    monkeypatch.setattr(supervisor, "states", states)
    INTERRUPTS.listen()
    try:
        with tempfile.TemporaryDirectory(prefix="lr-") as sockets, ControlClient(Path(sockets)) as control:
            with pytest.raises(KeyboardInterrupt):
                follow(supervisor, control, tmp_path, SYSTEM_CLOCK, lambda status: None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert looks == [None], "it was lost at the first look, and found before the second"
