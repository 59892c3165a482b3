"""Does a sink keep what it acknowledged, whatever happens to its process? Real processes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sink_client import PATIENCE_S, Asker, SinkProcess, command
from sink_rows import ATTEMPTS, GROUPS, blob_name, draft, make_run, make_service, png

from legato_rl.canonical import sha256_hex
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.records import RolloutKey
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context, wait
from legato_rl.wire import BlobsStored, Feed, FeedAsk, PutBlobs, PutRow, RowStored

pytestmark = pytest.mark.process

RUNS = ("r1", "r2")
AHEAD = 6
"""Rows that are sent before the first of them is acknowledged."""


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


@dataclass
class Acknowledged:
    """What a sink said is stored: keys of rows, and hashes of images with their runs."""

    rows: list[RolloutKey] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)


def stream(asker: Asker, sink: SinkProcess, start: int, kill_after: int) -> Acknowledged:
    """Send blobs and rows of two runs as fast as they go; kill -9 the sink after that many acknowledged rows."""
    told, run_of, sent, deadline = Acknowledged(), {}, start, SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        if sent - start < len(told.rows) + AHEAD and sink.process.poll() is None:
            image, run = png(f"image {sent}", 20_000), RUNS[sent % 3 % 2]
            group, attempt, try_ = GROUPS[sent % 2], sent // 2 % ATTEMPTS, sent // (2 * ATTEMPTS)
            asker.client.send(PutBlobs(run=run, blobs=[blob_name(image)]), [image])
            asker.client.send(PutRow(row=draft(group, attempt, try_, run=run, final_image=sha256_hex(image))))
            run_of[sha256_hex(image)] = run
            sent += 1
        wait([asker.client], 0.05)
        heard = [received.message for received in asker.client.receive()]
        told.rows += [message.row.key for message in heard if isinstance(message, RowStored)]
        stored = [sha256 for message in heard if isinstance(message, BlobsStored) for sha256 in message.hashes]
        told.images += [(run_of[sha256], sha256) for sha256 in stored]
        if len(told.rows) >= kill_after and sink.process.poll() is None:
            sink.process.send_signal(signal.SIGKILL)
            sink.process.wait(PATIENCE_S)
        elif sink.process.poll() is not None and not heard:
            return told
    raise AssertionError("the sink did not take the rows")


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, seed: int) -> None:
    """Killed again and again in the middle of a stream: every acknowledged row and blob is there, once and whole."""
    dice, told, sent = random.Random(seed), Acknowledged(), 0
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        service = make_service(tmp_path / "service", Path(sockets), *RUNS)
        for _ in range(3):
            with SinkProcess(service.root) as sink:
                asker = Asker(context, Path(sockets))
                more = stream(asker, sink, sent, dice.randint(1, 12))
                asker.close()
            sent += len(more.rows) + AHEAD
            told.rows += more.rows
            told.images += more.images
        with SinkProcess(service.root) as sink:
            asker = Asker(context, Path(sockets))
            feeds = {run: asker.ask(FeedAsk(run=run, after=0), Feed) for run in RUNS}
            asker.close()
            assert sink.end() == ExitCode.TERMINATED
    for run in RUNS:
        folder = RunDir(service.runs / run)
        stored = stored_ids(folder)
        assert len(stored) == len(set(stored))
        assert {key.rollout_id for key in told.rows if key.run == run} <= set(stored)
        assert [row.key.rollout_id for row in feeds[run].rows] == stored
        for sha256 in (sha256 for of, sha256 in told.images if of == run):
            assert sha256_hex(folder.image(sha256).read_bytes()) == sha256


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
        assert sink.end(signal.SIGINT) == ExitCode.INTERRUPTED


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """One sentence and exit code 2."""
    sink = subprocess.run(command(tmp_path), capture_output=True, timeout=PATIENCE_S, text=True)
    assert sink.returncode == ExitCode.BAD_INPUT
    assert "is no run folder: it has no run.json" in sink.stderr
