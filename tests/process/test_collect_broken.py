"""What does a run say whose own processes cannot go on? Whole runs in this process."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from whole_runs import inline_task, naming

from legato_rl import DesktopConfig, PolicyConfig, collect
from legato_rl.errors import ExitCode, RunStopped
from legato_rl.rundir import RunDir, RunFile

pytestmark = pytest.mark.process


def test_a_sink_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    """With its last log lines, resumable, no process left; a summary that cannot be written does not hide the cause."""
    out = tmp_path / "run"
    with (tmp_path / "lock").open("w") as lock:

        def take_the_lock(run: RunFile) -> None:
            RunDir(out).lock.hardlink_to(tmp_path / "lock")
            fcntl.flock(lock, fcntl.LOCK_EX)
            RunDir(out).summary.mkdir()

        # A sink that took more than supervisord's startsecs to find the lock counts as started, and as exited then.
        said = r"(?s)the sink is (FATAL|EXITED): its log ends with:\n.*locked by another sink"
        with pytest.raises(RunStopped, match=said) as stopped:
            collect(
                [inline_task("a")],
                PolicyConfig("fake", "m"),
                out,
                desktop=DesktopConfig(backend="fake", screen_size=(320, 240)),
                desktops=1,
                group=1,
                on_start=take_the_lock,
            )
    assert stopped.value.exit_code == ExitCode.STOPPED
    assert naming(str(out)) == []
