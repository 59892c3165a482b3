"""Is a line there or not, whatever the disk answers? Real files; a failing disk is a device that fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from sink_scene import device

from legato_rl.broker.sink.lines import Lines
from legato_rl.errors import SinkError


def open_lines(folder: Path, seen: list[dict[str, Any]] | None = None) -> Lines:
    """The file of the test, opened."""
    return Lines(folder / "rows.jsonl", (seen if seen is not None else []).append, folder / "logs")


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    """What was appended is what the next opening reads."""
    values = [{"n": n, "text": "\ud800\n ü"} for n in range(3)]
    lines = open_lines(tmp_path)
    for value in values:
        lines.append(value)
    lines.close()
    seen: list[dict[str, Any]] = []
    open_lines(tmp_path, seen).close()
    assert seen == values
    assert (tmp_path / "rows.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """ENOSPC is raised as it is, the file is what it was, and with space again the line goes in."""
    lines = open_lines(tmp_path)
    with device(lines.fileno(), "/dev/full"), pytest.raises(OSError, match="No space left") as full:
        lines.append({"n": 1})
    assert full.value.errno == errno.ENOSPC
    assert (lines.size, (tmp_path / "rows.jsonl").read_bytes()) == (0, b"")
    lines.append({"n": 1})
    assert (tmp_path / "rows.jsonl").read_bytes() == b'{"n":1}\n'
    lines.close()


def test_bytes_of_a_failed_write_are_cut_before_the_next(tmp_path: Path) -> None:
    """A write that failed half-way, and could not be taken back at once, is taken back by the next append."""
    lines = open_lines(tmp_path)
    lines.append({"n": 1})
    with (tmp_path / "rows.jsonl").open("ab") as file:
        file.write(b'{"a half-written, longer line": "xxxxxxxx')
    lines.append({"n": 2})
    assert (tmp_path / "rows.jsonl").read_bytes() == b'{"n":1}\n{"n":2}\n'
    lines.close()


def test_a_failed_fsync_ends_it(tmp_path: Path) -> None:
    """/dev/null takes every byte and refuses fsync: the line is not acknowledged, and the process must end."""
    lines = open_lines(tmp_path)
    with device(lines.fileno(), "/dev/null"), pytest.raises(SinkError, match=r"fsync of .*rows\.jsonl failed"):
        lines.append({"n": 1})
    assert lines.size == 0
    lines.close()


def test_what_is_no_json_is_not_written(tmp_path: Path) -> None:
    """NaN raises before the first byte."""
    lines = open_lines(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        lines.append({"n": float("nan")})
    assert (tmp_path / "rows.jsonl").read_bytes() == b""
    lines.close()


def test_a_tail_that_cannot_be_kept_is_cut_all_the_same(tmp_path: Path) -> None:
    """Keeping the torn bytes is a courtesy; a start does not fail for it."""
    (tmp_path / "rows.jsonl").write_bytes(b'{"n":1}\n{"n"')
    (tmp_path / "logs").write_bytes(b"a file where the folder should be")
    open_lines(tmp_path).close()
    assert (tmp_path / "rows.jsonl").read_bytes() == b'{"n":1}\n'
