"""When is a blob that no row names a fault, and when can a try have left it? True folders, and their logs changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from true_folder import SPAWNED, STARTED, make_eventful, make_spotless

from legato_rl.rundir import RunDir
from legato_rl.supervisord import LOST
from legato_rl.verify import examine, verify


def test_what_tries_left_behind_is_a_note(tmp_path: Path) -> None:
    """Where a try was cut or failed, blobs without a row are counted; in a spotless run there is nothing to note."""
    eventful = make_eventful(tmp_path / "eventful")
    (eventful.run.images / ".part").write_bytes(b"\x89PNG")
    eventful.image(77)
    (note,) = examine(eventful.run.root).notes
    said = r"\d+ files \([\d,]+ bytes\) in messages/ and images/ that no row names: tries that were cut leave such"
    assert re.fullmatch(said, note)
    assert examine(make_spotless(tmp_path / "spotless").run.root).notes == []


def log(name: str, change: Callable[[str], str | None]) -> Callable[[RunDir], None]:
    """Make another log of one; None takes it away."""

    def damage(run: RunDir) -> None:
        path = run.logs / f"{name}.log"
        text = change(path.read_text())
        path.unlink()
        if text is not None:
            path.write_text(text)

    return damage


LATE = "2026-01-01T00:40:00.000 worker "


@pytest.mark.parametrize(
    "happened",
    [
        log("supervisord", lambda _: None),
        log("supervisord", lambda text: text * 2),
        log("supervisord", lambda text: text.replace(STARTED, "")),
        log("supervisord", lambda text: text.replace(" 00:0", " 01:0")),
        log("supervisord", lambda text: text + SPAWNED.format("worker-000") + SPAWNED.format("broker")),
        log("worker-000", lambda _: None),
        log("worker-000", lambda text: text.partition("\n")[2]),
        log("supervisord", lambda text: f"{text}2026-01-01 00:00:05,000 WARN 3 {LOST}\n"),
        log("worker-000", lambda text: f"{text}3 {LOST}\n"),
        log("worker-000", lambda text: f"{text}{LATE}INFO r:h:2:0 was dropped\n"),
        log("worker-000", lambda text: f"{text}{LATE}ERROR the phase act was still on …: this process ends itself\n"),
    ],
    ids=[
        *("none", "resumed", "rotated", "new since", "killed", "no worker's", "cut"),
        *("full", "full of a worker's", "dropped", "ended itself"),
    ],
)  # fmt: skip
def test_a_try_may_have_been_let_go(tmp_path: Path, happened: Callable[[RunDir], None]) -> None:
    """A blob without a row is a fault only where the logs show that nothing died and nothing was given back; else a note.

    A blob or a row that is missing is a fault all the same.
    """
    folder = make_spotless(tmp_path / "run")
    size = folder.run.image(folder.image(77)).stat().st_size
    assert [fault.code for fault in verify(folder.run.root)] == ["blob-orphan"]
    happened(folder.run)
    report = examine(folder.run.root)
    assert report.faults == []
    note = f"1 file ({size} bytes) in messages/ and images/ that no row names: tries that were cut leave such"
    assert report.notes == [note]
    lines = folder.run.rollouts.read_bytes().splitlines(keepends=True)
    folder.run.image(json.loads(lines[0])["final_image"]).unlink()
    folder.run.rollouts.write_bytes(b"".join(lines[:-1]))
    assert {fault.code for fault in verify(folder.run.root)} == {"blob-missing", "end-unfinished"}
