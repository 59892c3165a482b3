"""What becomes of what is told where nobody reads it? Real pipes, and a device that is always full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator

import pytest

from legato_rl.cli.streams import Dropping, Ending, guard_streams
from legato_rl.errors import ExitCode

LINE = b"groups 1/4 closed\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe."""
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        try:
            os.close(end)
        except OSError:
            continue


@pytest.mark.parametrize("kind", [Dropping, Ending])
def test_what_is_read_is_written(pipe: tuple[int, int], kind: type[io.FileIO]) -> None:
    """As by any stream."""
    reading, writing = pipe
    assert kind(writing, "w", closefd=False).write(LINE) == len(LINE)
    assert os.read(reading, 100) == LINE


def test_remarks_without_a_reader_are_dropped(pipe: tuple[int, int]) -> None:
    """However many; the writer hears nothing of it, also at its end."""
    reading, writing = pipe
    os.close(reading)
    with io.TextIOWrapper(io.BufferedWriter(Dropping(writing, "w", closefd=False)), line_buffering=True) as stream:
        for _ in range(3):
            assert stream.write(LINE.decode()) == len(LINE)


def test_remarks_on_a_full_disk_are_dropped() -> None:
    """They are told again once there is space: nothing is kept of what was dropped."""
    with open("/dev/full", "wb", buffering=0) as full:
        assert Dropping(full.fileno(), "w", closefd=False).write(LINE) == len(LINE)


def test_remarks_that_nobody_takes_in_time_are_dropped(pipe: tuple[int, int]) -> None:
    """A terminal's descriptor may have been made non-blocking by another program that shares it."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    stream = Dropping(writing, "w", closefd=False)
    for _ in range(40):
        assert stream.write(bytes(4096)) == 4096
    os.set_blocking(reading, False)
    assert 0 < len(os.read(reading, 2**20)) < 40 * 4096


def test_output_without_a_reader_ends_the_command(pipe: tuple[int, int]) -> None:
    """Once; what is still buffered then must not be told of when Python ends."""
    reading, writing = pipe
    os.close(reading)
    stream = io.TextIOWrapper(io.BufferedWriter(Ending(writing, "w", closefd=False)))
    stream.write(LINE.decode())
    with pytest.raises(SystemExit) as ended:
        stream.flush()
    assert ended.value.code == ExitCode.UNREAD
    stream.flush()
    stream.close()


def test_output_on_a_full_disk_is_an_error() -> None:
    """What was asked for must not be lost in silence."""
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space left"):
        Ending(full.fileno(), "w", closefd=False).write(LINE)


def test_the_streams_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a caller that has put its own in their place, or that has none."""
    caught = io.StringIO()
    monkeypatch.setattr(sys, "stdout", caught)
    monkeypatch.setattr(sys, "stderr", None)
    guard_streams()
    assert sys.stdout is caught
    assert sys.stderr is None
