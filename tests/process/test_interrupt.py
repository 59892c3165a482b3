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
from legato_rl.errors import Terminated
from legato_rl.run import alone
from legato_rl.run.follow import follow
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.run.prepare import claim_folder
from legato_rl.run.processes import Supervisor
from legato_rl.rundir import RunDir
from legato_rl.supervisord import Layout, render

pytestmark = pytest.mark.process


def test_a_broker_that_is_not_there_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be told to stop: what is next is that everything is ended."""
    monkeypatch.setattr(alone, "STOP_ANSWER_S", 0.3)
    folder = claim_folder(tmp_path / "run")
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        folder.write_run(run_file(Path(sockets)))
        conf = render(Layout(folder.root, folder.logs, Path("/bin"), tmp_path), Path(sockets), 1)
        folder.supervisord_conf.write_text(conf.partition("[program:")[0])
        supervisor = Supervisor(folder.supervisord_conf, Path(sockets), folder.logs, SYSTEM_CLOCK)
        supervisor.start(None)

        def interrupt() -> None:
            with ControlClient(folder.root) as control:
                alone._interrupt(supervisor, control, folder, lambda status: None)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        thread.join(90.0)
        supervisor.kill()
    assert not thread.is_alive()


class Swallower(io.RawIOBase):
    """A file during whose finalizer a signal comes."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def close(self) -> None:
        """The first time."""
        if not self.closed:
            super().close()
            signal.raise_signal(self._number)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_that_python_swallows_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    """A finalizer's KeyboardInterrupt is lost: the next look at the run finds that there was one."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    supervisor = Supervisor(tmp_path / "conf", tmp_path, tmp_path, SYSTEM_CLOCK)
    looks: list[Swallower | None] = []

    def states() -> dict[str, object]:
        looks.append(None if looks else Swallower(number))
        looks[0] = None
        return {}

    monkeypatch.setattr(supervisor, "states", states)
    INTERRUPTS.listen()
    try:
        with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
            RunDir(tmp_path).write_run(run_file(Path(sockets)))
            with ControlClient(tmp_path) as control, pytest.raises(KeyboardInterrupt) as told:
                follow(supervisor, control, tmp_path, SYSTEM_CLOCK, lambda status: None)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert told.type is raised
    assert looks == [None], "it was lost at the first look, and found before the second"
