"""Does supervisord's log bear a disk that takes nothing, and go on afterwards? Real files; /dev/full is the disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from supervisor.loggers import LevelsByName, LogRecord

from legato_rl.run.log_files import LogFile
from legato_rl.supervisord import LOST

FULL = Path("/dev/full")
"""Takes no byte: no space left on device."""


def said(text: str) -> LogRecord:
    """A line of a program."""
    return LogRecord(LevelsByName.INFO, text.encode())


def test_a_full_disk_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is on it too. With space again the lines are in the file, and that some may be lost."""
    path = tmp_path / "log"
    path.symlink_to(FULL)
    log = LogFile(str(path), maxBytes=10**6)
    with FULL.open("w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        for _ in range(100):
            log.emit(said("x" * 999 + "\n"))
        log.close()
    assert log.stream.closed
    path.unlink()
    log.emit(said("there is space\n"))
    assert path.read_text() == f"100 {LOST}\nthere is space\n"
    log.emit(said("still\n"))
    assert path.read_text().endswith("space\nstill\n"), "that is said once"


def test_a_file_that_cannot_be_turned_over(tmp_path: Path) -> None:
    """Its line is in it, the next one too, and it is turned over when that can be done."""
    path, older = tmp_path / "log", tmp_path / "log.1"
    (older / "kept").mkdir(parents=True)
    log = LogFile(str(path), maxBytes=10, backupCount=1)
    log.emit(said("the first line\n"))
    log.emit(said("the second line\n"))
    assert path.read_text() == "the first line\nthe second line\n"
    (older / "kept").rmdir()
    older.rmdir()
    log.emit(said("the third line\n"))
    assert older.read_text() == "the first line\nthe second line\nthe third line\n"
    assert path.read_text() == ""


def test_what_is_not_the_disk_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that cannot be told is a bug, whose traceback is for supervisord.err."""
    log = LogFile(str(tmp_path / "log"))
    log.emit(LogRecord(-1, "of no level"))
    assert "KeyError: -1" in capsys.readouterr().err
