"""In which order does a blob become safe, and what does a failed fsync end? Real calls into the system.

Which calls the store makes is told by the interpreter; a failing fsync is that of a device which has none.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sink_rows import RUN, chat_message, draft, make_run, png, step
from sink_scene import device, lines, sink_of_a_run

from legato_rl.broker.sink.store import Store
from legato_rl.canonical import sha256_hex
from legato_rl.errors import SinkError
from legato_rl.records import Draft
from legato_rl.wire import BlobName, BlobsStored, Feed, FeedAsk, RowStored

WATCHED = {os.fsync: "fsync", os.replace: "rename", os.pwrite: "append"}
READS = {io.open: "read"}


@contextmanager
def watch(watched: dict[Any, str] = WATCHED) -> Iterator[list[str]]:
    """The watched calls of this thread, in order, whoever makes them."""
    calls: list[str] = []

    def told(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function in watched:
            calls.append(watched[function])

    before = sys.getprofile()
    sys.setprofile(told)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def named(data: bytes) -> tuple[BlobName, bytes]:
    """A blob with its name."""
    return BlobName(sha256=sha256_hex(data), size=len(data), type="message" if data[:1] == b"{" else "image"), data


def open_store(tmp_path: Path) -> Store:
    """The store of an empty run."""
    return Store(make_run(tmp_path / "run", tmp_path), lambda row: None, lambda event: None)


def test_a_blob_is_on_the_disk_before_its_name_is(tmp_path: Path) -> None:
    """Its bytes are fsynced, then it is renamed, then its folder is fsynced; the folders once for a whole batch."""
    image, message = png("a", 5000), chat_message("hello", png("a", 5000))
    store = open_store(tmp_path)
    with watch() as one:
        store.put_blobs([named(image)])
    with watch() as many:
        store.put_blobs([named(png("b")), named(png("c")), named(message)])
    store.close()
    assert one == ["fsync", "rename", "fsync"]
    assert many == [*["fsync", "rename"] * 3, "fsync", "fsync"]


def test_a_blob_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """Its worker sent it again since the answer was lost."""
    store = open_store(tmp_path)
    store.put_blobs([named(png("a"))])
    with watch() as again:
        store.put_blobs([named(png("a"))])
    store.close()
    assert again == []


def test_a_row_is_on_the_disk_when_it_is_told(tmp_path: Path) -> None:
    """Its line is appended, then fsynced."""
    store = open_store(tmp_path)
    with watch() as calls:
        store.append_row(draft(steps=(step(chat_message("hello")),)))
    store.close()
    assert calls == ["append", "fsync"]


def test_a_row_waits_for_the_folder_of_a_batch_that_failed(tmp_path: Path) -> None:
    """Of two blobs the second could not be written: the first has its name already, and the row may mean it."""
    store = open_store(tmp_path)
    (tmp_path / "run" / "messages" / ".part").mkdir()
    with pytest.raises(IsADirectoryError):
        store.put_blobs([named(png("a")), named(chat_message("hello"))])
    with watch() as calls:
        store.append_row(draft(final_image=sha256_hex(png("a"))))
    store.close()
    assert calls == ["fsync", "append", "fsync"]


def test_a_failed_fsync_of_a_row_ends_the_sink(tmp_path: Path) -> None:
    """The row is not acknowledged, and the next sink, which looks at the tail anew, stores it when it comes again."""
    with sink_of_a_run(tmp_path) as house:
        asker, rows = house.asker(), house.runs.get(RUN).store.rows.fileno()
        with device(rows, "/dev/null"), pytest.raises(SinkError, match=r"fsync of .*rollouts\.jsonl failed"):
            asker.row(draft())
        house.restart()
        assert lines(house.run) == []
        answer = asker.row(draft())
        assert isinstance(answer, RowStored)
        assert (answer.row.n, answer.duplicate, len(lines(house.run))) == (1, False, 1)


def test_a_failed_fsync_of_a_folder_ends_the_sink(tmp_path: Path) -> None:
    """The blob was renamed but may not last, so it is not acknowledged; the next sink fsyncs the folder before it tells."""
    with sink_of_a_run(tmp_path) as house:
        asker = house.asker()
        asker.ask(FeedAsk(run=RUN, after=0), Feed)
        with device(fd_of(house.run.images), "/dev/null"), pytest.raises(SinkError, match=r"fsync of .*images failed"):
            asker.put(png("a"))
        with watch() as calls:
            house.restart()
        assert calls == ["fsync"] * 5, "of both folders, both files, and the run's folder"
        assert isinstance(asker.put(png("a")), BlobsStored)


def fd_of(path: Path) -> int:
    """This process's descriptor of a file or folder."""
    fds = Path("/proc/self/fd")
    return next(int(name) for name in os.listdir(fds) if os.path.realpath(fds / name) == str(path))


def test_messages_of_a_prompt_are_read_once(tmp_path: Path) -> None:
    """Each of 20 steps names all messages before it; every one is read once, and not again when the row comes again."""
    messages = [chat_message(f"step {n}", png(str(n))) for n in range(20)]
    row = Draft.model_validate(draft(steps=tuple(step(*messages[: n + 1]) for n in range(20)), n_steps=20))
    store = open_store(tmp_path)
    store.put_blobs([named(message) for message in messages])
    with watch(READS) as first:
        lost = store.missing(row)
    with watch(READS) as second:
        assert store.missing(row) == lost
    store.close()
    assert lost == sorted(sha256_hex(png(str(n))) for n in range(20))
    assert (len(first), len(second)) == (20, 0)
