"""Does a sink keep what it acknowledged, whatever happens to its process or its disk? Real processes."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_client import PATIENCE_S, Asker, SinkProcess, command
from sink_rows import ATTEMPTS, GROUPS, blob_name, chat_message, draft, make_run, png, step

from legato_rl.canonical import sha256_hex
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context, wait
from legato_rl.wire import BlobsStored, Feed, FeedAsk, PutBlobs, PutRow, Refused, RowStored

pytestmark = pytest.mark.process


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDir]:
    """An empty run whose sockets have a short path."""
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets:
        yield make_run(tmp_path / "run", Path(sockets))


def stored_ids(run: RunDir) -> list[str]:
    """The rollout ids in the file; every line must be whole."""
    data = run.rollouts.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line)["rollout_id"] for line in data.splitlines()]


def stream(asker: Asker, sink: SinkProcess, start: int, kill_after: int) -> tuple[list[str], list[str]]:
    """Send blobs and rows as fast as they go; kill -9 the sink after that many acknowledged rows.

    Returns what was acknowledged until nothing more came: rollout ids and hashes of images.
    """
    rows, images, sent, deadline = [], [], start, SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        if sent - start < len(rows) + 6 and sink.process.poll() is None:
            image = png(f"image {sent}", 20_000)
            group, attempt, try_ = GROUPS[sent % 2], sent // 2 % ATTEMPTS, sent // (2 * ATTEMPTS)
            asker.client.send(PutBlobs(blobs=[blob_name(image)]), [image])
            asker.client.send(PutRow(row=draft(group, attempt, try_, final_image=sha256_hex(image))))
            sent += 1
        wait([asker.client], 0.05)
        heard = [received.message for received in asker.client.receive()]
        rows += [message.row.key.rollout_id for message in heard if isinstance(message, RowStored)]
        images += [sha256 for message in heard if isinstance(message, BlobsStored) for sha256 in message.hashes]
        if len(rows) >= kill_after and sink.process.poll() is None:
            sink.process.send_signal(signal.SIGKILL)
            sink.process.wait(PATIENCE_S)
        elif sink.process.poll() is not None and not heard:
            return rows, images
    raise AssertionError("the sink did not take the rows")


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_nothing_acknowledged(run: RunDir, seed: int) -> None:
    """Killed again and again in the middle of a stream: every acknowledged row and blob is there, once and whole."""
    dice, acknowledged, images, sent = random.Random(seed), [], [], 0
    for _ in range(3):
        with Context() as context, SinkProcess(run.root) as sink:
            asker = Asker(context, run.load_run().sockets)
            rows, blobs = stream(asker, sink, sent, dice.randint(1, 12))
            asker.close()
        sent += len(rows) + 6
        acknowledged += rows
        images += blobs
    with Context() as context, SinkProcess(run.root) as sink:
        asker = Asker(context, run.load_run().sockets)
        feed = asker.ask(FeedAsk(after=0), Feed)
        asker.close()
        assert sink.end() == ExitCode.DONE
    stored = stored_ids(run)
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert [row.key.rollout_id for row in feed.rows] == stored
    for sha256 in images:
        assert sha256_hex(run.image(sha256).read_bytes()) == sha256


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
        told = asker.ask(FeedAsk(after=1), Feed)
        assert told.trouble == refused.reason
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, limit)
        assert asker.ask(FeedAsk(after=1), Feed).trouble == ""
        assert isinstance(asker.put(message), BlobsStored)
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, (len(before) + 2000, limit[1]))
        assert isinstance(asker.row(row), Refused)
        assert run.rollouts.read_bytes() == before
        resource.prlimit(sink.process.pid, resource.RLIMIT_FSIZE, limit)
        assert isinstance(asker.row(row), RowStored)
        asker.close()
        assert sink.end() == ExitCode.DONE
    assert stored_ids(run) == ["r1:g1:1:0", "r1:g1:0:0"]
    assert sink.log.count("cannot be written") == 2, "said once each time that it begins"


def test_too_many_open_files_are_refused_and_the_sink_stays_up(run: RunDir) -> None:
    """Rows need no new descriptor and are stored; blobs are refused until there is one."""
    with Context() as context, SinkProcess(run.root) as sink:
        asker = Asker(context, run.load_run().sockets)
        asker.ask(FeedAsk(after=0), Feed)
        limit = resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
        refused = asker.put(png("a"))
        assert isinstance(refused, Refused)
        assert "(Too many open files): raise the limit of open files" in refused.reason
        assert isinstance(asker.row(draft()), RowStored)
        resource.prlimit(sink.process.pid, resource.RLIMIT_NOFILE, limit)
        assert isinstance(asker.put(png("a")), BlobsStored)
        asker.close()
        assert sink.end() == ExitCode.DONE


def test_a_second_sink_process_is_refused(run: RunDir) -> None:
    """One sentence, exit code 2, and the first one goes on."""
    with Context() as context, SinkProcess(run.root) as sink:
        second = subprocess.run(command(run.root), capture_output=True, timeout=PATIENCE_S, text=True)
        assert second.returncode == ExitCode.BAD_INPUT
        assert second.stderr.count("\n") == 1
        assert f"{run.root} is locked by another sink: end that one, or use another folder" in second.stderr
        asker = Asker(context, run.load_run().sockets)
        assert isinstance(asker.row(draft()), RowStored)
        asker.close()
        assert sink.end(signal.SIGINT) == ExitCode.DONE


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """One sentence and exit code 2."""
    sink = subprocess.run(command(tmp_path), capture_output=True, timeout=PATIENCE_S, text=True)
    assert sink.returncode == ExitCode.BAD_INPUT
    assert "is no run folder: it has no run.json" in sink.stderr
