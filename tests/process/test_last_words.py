"""What is a run whose rows are all stored, and of which nobody is left to say so? A real supervisord, and no broker."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from whole_runs import collect, tasks_file

from legato_rl.errors import ExitCode, RunStopped
from legato_rl.run.alone import carry_out
from legato_rl.rundir import RunDir
from legato_rl.supervisord import Layout, render
from legato_rl.verify import verify

pytestmark = pytest.mark.process

LEAVES = """
[program:worker]
command = /bin/true
process_name = worker-000
startsecs = 0
autorestart = unexpected
exitcodes = 0
"""
"""A worker that ends well at once, as all do when they are told that the run is over."""


def test_the_rows_say_whether_it_has_finished(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All workers left, and the broker is silent: with every row there it is finished, else stopped; groups are told."""
    done, cut = tmp_path / "done", tmp_path / "cut"
    with collect(done, tasks_file(tmp_path, "a", "b"), "--group", 1, "--max-steps", 1, "--desktops", 1) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    shutil.copytree(done, cut)
    rows = RunDir(cut).rollouts.read_bytes().splitlines(keepends=True)
    RunDir(cut).rollouts.write_bytes(rows[0])
    heard: list[dict[str, Any]] = []
    summary = carry_on(done, heard)
    assert (summary["groups"]["closed"], {group["group"] for group in heard}) == (2, {"a", "b"})
    assert (RunDir(done).load_end() or {})["state"] == "finished"
    assert verify(done) == []
    heard.clear()
    with pytest.raises(RunStopped, match=r"^no worker is left: "):
        carry_on(cut, heard)
    assert len(heard) == 1
    assert (RunDir(cut).load_end() or {})["state"] == "stopped"
    said = "the run has finished, every attempt has its row, though nobody said so: no worker is left: "
    assert [message.startswith(said) for message in caplog.messages] == [True]


def carry_on(root: Path, heard: list[dict[str, Any]]) -> dict[str, Any]:
    """Carry a run out with such a worker alone; its summary."""
    folder = RunDir(root)
    folder.end.unlink()
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        run = folder.load_run().model_copy(update={"sockets": Path(sockets)})
        folder.write_run(run)
        conf = render(Layout(folder.root, folder.logs, Path("/bin"), root), run.sockets, 1)
        folder.supervisord_conf.write_text(conf.partition("[program:")[0] + LEAVES)
        return carry_out(folder, run, run.settings.policy, None, heard.append)
