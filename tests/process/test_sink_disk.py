"""What does a sink do when the system has no more: space, descriptors, or a writable disk? Real processes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_client import PATIENCE_S, Asker, SinkProcess
from sink_rows import chat_message, draft, make_run, make_service, png, step

from legato_rl.canonical import sha256_hex
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context
from legato_rl.wire import BlobsStored, Feed, FeedAsk, Refused, RowStored

pytestmark = pytest.mark.process

PRIVATE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
"""Starts a program with mounts of its own, which are gone when it is."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDir]:
    """An empty run whose sockets have a short path."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        yield make_run(tmp_path / "run", Path(sockets))


def stored_ids(run: RunDir) -> list[str]:
    """The rollout ids in the file."""
    return [json.loads(line)["rollout_id"] for line in run.rollouts.read_bytes().splitlines()]


def test_a_full_disk_is_refused_and_the_sink_stays_up(run: RunDir) -> None:
    """A limit on the size of its files makes writes fail half-way; lifted, the same messages are stored."""
    message = chat_message("long " * 2000)
    row = draft(steps=(step(message, content="x" * 5000),))
    with Context() as context, SinkProcess(run.root) as sink:
        asker = Asker(context, run.load_run().sockets)
        asker.row(draft(attempt=1))
        before = run.rollouts.read_bytes()
        limit = resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, (len(before) + 2000, limit[1]))
        for _ in range(2):
            refused = asker.put(message)
            assert isinstance(refused, Refused)
            assert "cannot be written (File too large)" in refused.reason
        assert list(run.messages.iterdir()) == []
        assert refused.again
        told = asker.ask(FeedAsk(run="r1", after=1), Feed)
        assert told.trouble == refused.reason
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, limit)
        assert asker.ask(FeedAsk(run="r1", after=1), Feed).trouble == ""
        assert isinstance(asker.put(message), BlobsStored)
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, (len(before) + 2000, limit[1]))
        assert isinstance(asker.row(row), Refused)
        assert run.rollouts.read_bytes() == before
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, limit)
        assert isinstance(asker.row(row), RowStored)
        asker.close()
        assert sink.end() == ExitCode.TERMINATED
    assert stored_ids(run) == ["r1:g1:1:0", "r1:g1:0:0"]
    assert sink.log.count("cannot be written") == 2, "said once each time that it begins"


@pytest.mark.parametrize(
    ("mounts", "said"),
    [
        (["mount -t tmpfs -o size=64k tmpfs {images}"], "(No space left on device): make space there"),
        (["mount --bind {images} {images}", "mount -o remount,bind,ro {images}"], "(Read-only file system): mount it writable"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_no_blob_is_waited_for(run: RunDir, mounts: list[str], said: str) -> None:
    """The sink tells why for as long as it lasts, and says it once; then the same blob and its row are stored."""
    image = png("a", 200_000)
    with Context() as context, SinkProcess(run.root, PRIVATE) as sink:
        asker = Asker(context, run.load_run().sockets)
        asker.ask(FeedAsk(run="r1", after=0), Feed)
        for command in mounts:
            within(sink, command.format(images=run.images))
        for _ in range(2):
            refused = asker.put(image)
            assert isinstance(refused, Refused)
            assert (refused.again, said in refused.reason) == (True, True)
            assert asker.ask(FeedAsk(run="r1", after=0), Feed).trouble == refused.reason
        assert isinstance(asker.row(draft()), RowStored)
        assert isinstance(asker.put(image), Refused)
        within(sink, f"umount {run.images}")
        assert asker.ask(FeedAsk(run="r1", after=0), Feed).trouble == ""
        assert isinstance(asker.put(image), BlobsStored)
        assert isinstance(asker.row(draft(attempt=1, final_image=sha256_hex(image))), RowStored)
        asker.close()
        assert sink.end() == ExitCode.TERMINATED
    assert run.image(sha256_hex(image)).read_bytes() == image
    assert stored_ids(run) == ["r1:g1:0:0", "r1:g1:1:0"]


def within(sink: SinkProcess, command: str) -> None:
    """Run a command where the sink's mounts are."""
    enter = ["nsenter", "--target", str(sink.process.pid), "--mount"]
    if os.geteuid() != 0:
        enter += ["--user", "--preserve-credentials"]
    subprocess.run([*enter, *command.split()], check=True, timeout=PATIENCE_S)


def test_too_many_open_files_are_refused_and_the_sink_stays_up(tmp_path: Path) -> None:
    """Rows of an open run need no new descriptor and are stored; blobs, and another run, are refused until there is one."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        service = make_service(tmp_path / "service", Path(sockets), "r1", "r2")
        with Context() as context, SinkProcess(service.root, ("prlimit", "--nofile=64:")) as sink:
            asker = Asker(context, Path(sockets))
            asker.ask(FeedAsk(run="r1", after=0), Feed)
            limit = resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE)
            assert limit[0] == limit[1], "a sink takes all that it may have"
            resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
            for _ in range(2):
                for refused in (asker.put(png("a")), asker.row(draft(run="r2"))):
                    assert isinstance(refused, Refused)
                    assert refused.again
                    assert "(Too many open files): raise the limit of open files" in refused.reason
            assert isinstance(asker.row(draft()), RowStored)
            assert asker.ask(FeedAsk(run="r1", after=0), Feed).last == 1
            resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE, limit)
            assert isinstance(asker.put(png("a")), BlobsStored)
            assert isinstance(asker.row(draft(run="r2")), RowStored)
            asker.close()
            assert sink.end() == ExitCode.TERMINATED
        for run in ("r1", "r2"):
            assert stored_ids(RunDir(service.runs / run)) == [f"{run}:g1:0:0"]
            assert sink.log.count(f"{service.runs / run} cannot be written") == 1, "said once"


def test_a_connection_too_many_loses_nothing(run: RunDir) -> None:
    """libzmq ends its process when it cannot accept (ipc_listener.cpp), and says why; the next sink has every row."""
    sockets = run.load_run().sockets
    with Context() as context:
        first, late = Asker(context, sockets), Asker(context, sockets)
        with SinkProcess(run.root) as sink:
            assert isinstance(first.row(draft()), RowStored)
            late.ask(FeedAsk(run="r1", after=0), Feed)
            resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE, (3, 3))
            late.close()
            late = Asker(context, sockets)
            sink.wait_for("Too many open files")
            sink.process.wait(PATIENCE_S)
        with SinkProcess(run.root) as sink:
            assert late.ask(FeedAsk(run="r1", after=0), Feed).last == 1
            again = first.row(draft())
            assert isinstance(again, RowStored)
            assert again.duplicate
        first.close()
        late.close()
