"""Does a worker whose desktop hangs end itself? A real worker process; its broker, proxy and sink are the test's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_desktop import SIZE
from worker_scene import CLICK, DONE, KEY, PATIENCE_S, Stage, run_file

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.endpoints import address
from legato_rl.errors import ExitCode
from legato_rl.role import Quit
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context
from legato_rl.workers.link import QUIT_S, Link

pytestmark = pytest.mark.process

BAD = Path(__file__).resolve().parents[1] / "bad"


class Process:
    """A worker process, and what it wrote."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def terminate(self) -> None:
        """As supervisord does."""
        self._process.send_signal(signal.SIGTERM)

    def log(self) -> str:
        """What an ended process wrote."""
        assert self._process.stderr is not None
        return self._process.stderr.read()


@contextmanager
def worker(root: Path, **desktop: Any) -> Iterator[tuple[Process, Stage]]:
    """A worker on a desktop of the fake backend, unless `desktop` says otherwise; killed after the block."""
    config = DesktopConfig(**{"backend": "fake", "screen_size": SIZE, **desktop})
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        run = run_file(Path(sockets), desktop=config)
        RunDir(root).write_run(run)
        servers = (context.server(name, address(run.sockets, name)) for name in ("orders", "policy", "rows"))
        scene = Stage(*servers, Link("none", "none", config, SYSTEM_CLOCK, Quit()), settings=run.settings)
        command = [sys.executable, "-m", "legato_rl.workers.main", str(root)]
        path = os.pathsep.join(filter(None, [str(BAD), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            try:
                yield Process(process), scene
            finally:
                process.kill()


def test_a_hung_action_ends_the_process(tmp_path: Path) -> None:
    """Within the phase's deadline, with the exit code that asks for a restart, and a line that names the phase."""
    with worker(tmp_path, fake={"hang": 1.0}, deadlines={"act": 0.5}) as (process, scene):
        scene.give()
        scene.answer(CLICK)
        assert process.wait() == ExitCode.DEADLINE
        assert "the phase act passed its deadline of 0.5 s: this process ends itself" in process.log()
        scene.turn()
        assert scene.drafts == [], "the broker writes the row of a lost worker"
        assert scene.beats[-1].holds is not None
        assert scene.beats[-1].holds.key == KEY


def test_a_desktop_that_does_not_close_ends_the_process(tmp_path: Path) -> None:
    """A worker that was told to leave does not stay for a guest that does not shut down."""
    with worker(tmp_path, backend="desktops:HangsInClose", deadlines={"closing": 6.0}) as (process, scene):
        scene.order = lambda beat: {"leave": beat.ready}
        scene.until(lambda: scene.beats and scene.beats[-1].phase == "closing", "a beat of the closing")
        assert process.wait() == ExitCode.DEADLINE
        assert "the phase closing passed its deadline" in process.log()


def test_closing_has_a_deadline_of_its_own() -> None:
    """Nobody has to set it."""
    assert DesktopConfig(backend="fake").deadline("closing") is not None


def test_a_worker_that_is_to_end_does_not_stay_for_a_hung_call(tmp_path: Path) -> None:
    """The phase's own deadline is minutes away; the log says why it was not waited for, and the try is given back."""
    with worker(tmp_path, backend="desktops:HangsInEvaluate") as (process, scene):
        scene.give()
        scene.answer(DONE)
        scene.until(lambda: scene.beats[-1].phase == "evaluate", "a beat of the evaluation")
        began = SYSTEM_CLOCK.monotonic()
        process.terminate()
        assert process.wait() == ExitCode.DEADLINE
        assert QUIT_S - 0.5 < SYSTEM_CLOCK.monotonic() - began < QUIT_S + 120.0
        assert "the phase evaluate was still on when the process was to end" in process.log()
        scene.turn()
        assert scene.drafts == []
        assert (scene.beats[-1].holds, scene.beats[-1].dropped) == (None, KEY)


def test_a_worker_that_is_terminated_gives_its_try_back(tmp_path: Path) -> None:
    """The call that it waits for is let go of, and a beat says so before the process is gone."""
    with worker(tmp_path) as (process, scene):
        scene.give()
        scene.call()
        process.terminate()
        scene.until(lambda: scene.beats[-1].dropped == KEY, "the beat that gives the try back")
        assert scene.beats[-1].holds is None
        assert process.wait() == ExitCode.TERMINATED


@pytest.mark.parametrize(
    ("how", "code"),
    [("terminated", ExitCode.TERMINATED), ("told to leave", ExitCode.DONE)],
    ids=["terminated", "told to leave"],
)
def test_a_worker_that_is_to_end_closes_its_desktop_and_is_done(tmp_path: Path, how: str, code: ExitCode) -> None:
    """Nothing hangs: its supervisor starts no further worker after code 0, but one after a signal that it did not send."""
    with worker(tmp_path) as (process, scene):
        scene.until(lambda: scene.beats and scene.beats[-1].ready, "the ready beat")
        if how == "terminated":
            process.terminate()
        else:
            scene.push(leave=True)
        assert process.wait() == code


def test_a_slow_sink_is_no_slow_evaluation(tmp_path: Path) -> None:
    """It takes its time with the blobs, longer than the evaluation may take: the row is stored in the end."""
    with worker(tmp_path, deadlines={"evaluate": 3.0}) as (_process, scene):
        scene.stores_blobs = False
        scene.give()
        scene.answer(DONE)
        scene.until(lambda: scene.beats[-1].phase == "store", "a beat of the storing")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard + 4, "five more beats, one a second")
        scene.stores_blobs = True
        assert scene.store()["outcome"] == "graded"


LINK = """
import sys, threading
from pathlib import Path
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.endpoints import address
from legato_rl.role import Quit
from legato_rl.sockets import Context
from legato_rl.workers.link import Link

with Context() as context:
    orders = context.client("orders", address(Path(sys.argv[1]), "orders"))
    orders.close()
    link = Link("w", "b", DesktopConfig(backend="fake"), SYSTEM_CLOCK, Quit())
    threading.Thread(target=link.run, args=(orders,), daemon=True).start()
    threading.Event().wait(20.0)
"""


def test_a_worker_does_not_live_on_without_its_link(tmp_path: Path) -> None:
    """The thread that beats and holds the deadlines ends by an error: so does the process, with the code of a bug."""
    done = subprocess.run([sys.executable, "-c", LINK, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == ExitCode.BUG
    assert "the link thread ended" in done.stderr
