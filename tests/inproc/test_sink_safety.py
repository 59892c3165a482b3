"""In which order does a blob become safe? The calls that the store makes into the system, as the interpreter tells them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from sink_rows import chat_message, draft, make_run, png, step

from legato_rl.broker.sink.store import Store
from legato_rl.canonical import sha256_hex
from legato_rl.wire import BlobName

WATCHED = {os.fsync: "fsync", os.replace: "rename", os.pwrite: "append"}


@contextmanager
def watch() -> Iterator[list[str]]:
    """The watched calls of this thread, in order, whoever makes them."""
    calls: list[str] = []

    def told(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function in WATCHED:
            calls.append(WATCHED[function])

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
