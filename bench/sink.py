"""How fast is a real sink process, against writing the same bytes with write and fsync in the same pattern? JSON out.

The pattern of both: a step is a batch of a screenshot and its message, each written, fsynced and renamed, and then
their folders fsynced; a rollout is its steps and one line that is appended and fsynced. Rounds of both alternate, and
the ratio is the median of the rounds' ratios, since a shared disk drifts. What a worker does before it sends (hash,
encode) is done before the clock starts. Then 2,000 rollouts of small screenshots go through one sink, and its memory is
read.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.rundir import RunDir, RunFile, TaskSpec, sync_folder
from legato_rl.sockets import Client, Context, wait
from legato_rl.wire import BlobName, BlobsStored, Message, PutBlobs, PutRow, RowStored

RUN_ID = "bench"
IN_FLIGHT = 2
"""Unacknowledged batches of one worker."""


@dataclass(frozen=True)
class Bytes:
    """One rollout: per step its screenshot and message, and the row that names them."""

    batches: list[tuple[PutBlobs, list[bytes]]]
    row: dict[str, Any]

    @property
    def size(self) -> int:
        return sum(len(blob) for _, blobs in self.batches for blob in blobs) + len(json.dumps(self.row))


def make_rollout(number: int, steps: int, image_bytes: int) -> Bytes:
    """Rollout `number`, of random pixels, 200 tokens a step, and prompts that hold the whole history."""
    batches, records, hashes = [], [], []
    for step in range(steps):
        image = b"\x89PNG\r\n\x1a\n" + os.urandom(image_bytes - 8)
        part = {"type": "image_url", "image_url": {"url": image_name(sha256_hex(image))}}
        text = {"type": "text", "text": f"rollout {number}, step {step}: " + "what the agent says of the screen. " * 8}
        message = canonical_json({"role": "user", "content": [part, text]})
        put = PutBlobs(run=RUN_ID, blobs=[blob_name(image, "image"), blob_name(message, "message")])
        batches.append((put, [image, message]))
        hashes.append(sha256_hex(message))
        records.append(step_record(list(hashes)))
    group = f"g{number}"
    row = {
        "run_id": RUN_ID, "rollout_id": f"{RUN_ID}:{group}:0:0", "task_id": group, "domain": None, "group_id": group,
        "attempt": 0, "try": 0, "policy": {"model": "m", "version": "v", "versions": ["v"]}, "desktop": "d0",
        "outcome": "graded", "reward": 1.0, "n_steps": steps, "steps": records,
    }  # fmt: skip
    return Bytes(batches, row)


def blob_name(data: bytes, kind: Literal["message", "image"]) -> BlobName:
    """The name of a blob."""
    return BlobName(sha256=sha256_hex(data), size=len(data), type=kind)


def step_record(messages: list[str]) -> dict[str, Any]:
    """A step of 200 tokens whose prompt held `messages`."""
    model = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "server_version"))
    return {
        "request": {"messages": messages, "params": {"temperature": 1.0}, "body_sha256": "0" * 64, "prompt": None},
        "response": {
            "content": "click the button. " * 40, "reasoning": None, "token_ids": list(range(10_000, 10_200)),
            "logprobs": [-0.123456 - i / 1000 for i in range(200)], "tokens": None, "finish_reason": "stop",
        },
        "model": {"seconds": 1.0, "queued_s": 0.0, "attempts": 1, "version": "v", **model},
        "parse_error": None,
        "actions": [],
    }  # fmt: skip


def write_plainly(folder: Path, rollouts: list[Bytes]) -> float:
    """Seconds to write `rollouts` with nothing but write, fsync and rename."""
    images, messages = folder / "images", folder / "messages"
    for part in (folder, images, messages):
        part.mkdir()
    lines = [json.dumps(rollout.row).encode() + b"\n" for rollout in rollouts]
    begun = time.perf_counter()
    with (folder / "rollouts.jsonl").open("ab", buffering=0) as rows:
        count = 0
        for rollout, line in zip(rollouts, lines, strict=True):
            for _, (image, message) in rollout.batches:
                for place, data in ((images, image), (messages, message)):
                    write_fsync(place / ".part", data)
                    (place / ".part").replace(place / str(count))
                    count += 1
                sync_folder(images)
                sync_folder(messages)
            rows.write(line)
            os.fsync(rows.fileno())
    return time.perf_counter() - begun


def write_fsync(path: Path, data: bytes) -> None:
    """Write one file and fsync it."""
    with path.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


class Worker:
    """A client that sends rollouts as a worker does: few batches in flight, the row when all are stored."""

    def __init__(self, client: Client, rollouts: list[Bytes]) -> None:
        self.client = client
        self._rollouts = deque(rollouts)
        self._batches = deque(self._rollouts[0].batches)
        self._open = 0
        self._row_sent = False
        self.done = 0

    def send(self) -> None:
        """Send what may be sent now."""
        while self._batches and self._open < IN_FLIGHT:
            put, blobs = self._batches.popleft()
            self.client.send(put, blobs)
            self._open += 1
        if self._rollouts and not self._batches and not self._open and not self._row_sent:
            self.client.send(PutRow(row=self._rollouts[0].row))
            self._row_sent = True

    def hear(self, message: Message) -> None:
        """Take an answer of the sink."""
        if isinstance(message, BlobsStored):
            self._open -= 1
        elif isinstance(message, RowStored):
            self._rollouts.popleft()
            self.done += 1
            self._row_sent = False
            self._batches = deque(self._rollouts[0].batches if self._rollouts else ())
        else:
            raise SystemExit(f"the sink answered {message!r}")


class SinkProcess:
    """A real sink over a new run folder, with `workers` clients."""

    def __init__(self, root: Path, groups: int, workers: int) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="lr-")
        sockets = Path(self._sockets.name)
        make_run(root, sockets, groups)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "legato_rl.broker.sink.main", str(root)], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        begun = [self.process.stderr.readline(), self.process.stderr.readline()]
        if "ready" not in begun[-1]:
            raise SystemExit(f"the sink did not start: {begun}")
        self._context = Context()
        self.clients = [self._context.client("rows", address(sockets, "rows")) for _ in range(workers)]
        self.rss = psutil.Process(self.process.pid).memory_info

    def cpu_s(self) -> float:
        """CPU seconds of the sink so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def store(self, rollouts: list[Bytes]) -> float:
        """Seconds until all of `rollouts`, dealt to the workers, are stored."""
        shares = [rollouts[i :: len(self.clients)] for i in range(len(self.clients))]
        workers = [Worker(client, share) for client, share in zip(self.clients, shares, strict=True) if share]
        begun = time.perf_counter()
        while sum(worker.done for worker in workers) < len(rollouts):
            for worker in workers:
                worker.send()
            wait(self.clients, 5.0)
            for worker in workers:
                for received in worker.client.receive():
                    worker.hear(received.message)
        return time.perf_counter() - begun

    def close(self) -> None:
        """End the sink and its sockets."""
        for client in self.clients:
            client.close()
        self._context.close()
        self.process.terminate()
        self.process.communicate()
        self._sockets.cleanup()


def make_run(root: Path, sockets: Path, groups: int) -> None:
    """A run folder of `groups` groups of one attempt."""
    root.mkdir()
    settings = Settings(policy=PolicyConfig("fake", "m"), desktop=DesktopConfig(backend="fake"), group=1)
    at = {"created_at": "2030-01-01T00:00:00Z", "today": "2030-01-01", "legato_rl": "0", "python": "3"}
    run = RunFile(run_id=RUN_ID, settings=settings, sockets=sockets, engine={}, **at)  # type: ignore[arg-type]
    RunDir(root).write_run(run)
    tasks = [TaskSpec(task_id=f"g{i}", group_id=f"g{i}", domain=None, config={}, max_steps=9) for i in range(groups)]
    RunDir(root).write_tasks(tasks)


def measure_speed(folder: Path, rounds: int, rollouts: int, steps: int, image_bytes: int, workers: int) -> dict[str, Any]:
    """Both ways over the same bytes, in turns."""
    plain_s, sink_s, cpu_s, moved = [], [], [], 0
    for number in range(rounds):
        made = [make_rollout(i, steps, image_bytes) for i in range(rollouts)]
        moved = sum(rollout.size for rollout in made)
        plain_s.append(write_plainly(folder / f"plain-{number}", made))
        sink = SinkProcess(folder / f"sink-{number}", rollouts, workers)
        cpu_before = sink.cpu_s()
        sink_s.append(sink.store(made))
        cpu_s.append(sink.cpu_s() - cpu_before)
        sink.close()
    plain, through = statistics.median(plain_s), statistics.median(sink_s)
    ratios = [sink / plain for plain, sink in zip(plain_s, sink_s, strict=True)]
    images = rollouts * steps
    return {
        "image_bytes": image_bytes, "images": images, "rows": rollouts, "bytes": moved, "workers": workers,
        "plain_s": round(plain, 4), "sink_s": round(through, 4), "time_ratio": round(statistics.median(ratios), 3),
        "ratio_by_round": [round(ratio, 3) for ratio in ratios],
        "plain_images_per_s": round(images / plain, 1), "sink_images_per_s": round(images / through, 1),
        "plain_rows_per_s": round(rollouts / plain, 1), "sink_rows_per_s": round(rollouts / through, 1),
        "sink_cpu_ms_per_image": round(1000 * statistics.median(cpu_s) / images, 3) if images else None,
    }  # fmt: skip


def measure_memory(folder: Path, rollouts: int, steps: int, image_bytes: int) -> dict[str, Any]:
    """The sink's memory (RSS) at its start, after a tenth of the rollouts, and at the end."""
    sink = SinkProcess(folder / "memory", rollouts, workers=4)
    marks, start = [], sink.rss().rss
    tenth = max(1, rollouts // 10)
    for first in range(0, rollouts, tenth):
        sink.store([make_rollout(i, steps, image_bytes) for i in range(first, min(rollouts, first + tenth))])
        marks.append(sink.rss().rss)
    sink.close()
    mib = [round(mark / 2**20, 2) for mark in marks]
    return {
        "rollouts": rollouts, "images": rollouts * steps, "rss_start_mib": round(start / 2**20, 2),
        "rss_by_tenth_mib": mib, "rss_end_mib": mib[-1], "end_over_first_tenth": round(marks[-1] / marks[0], 3),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=2000, help="of the memory measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="legato-bench-") as name:
        folder = Path(name)
        cases = {
            "screenshots_1_mb": {"rollouts": 16, "steps": 6, "image_bytes": 10**6, "workers": 4},
            "screenshots_100_kb": {"rollouts": 40, "steps": 6, "image_bytes": 10**5, "workers": 4},
            "rows_alone": {"rollouts": 400, "steps": 0, "image_bytes": 8, "workers": 4},
        }
        result: dict[str, Any] = {}
        for case, sizes in cases.items():
            (folder / case).mkdir()
            result[case] = measure_speed(folder / case, options.rounds, **sizes)
        result["memory"] = measure_memory(folder, options.rollouts, 3, 20_000)
    print(json.dumps({"bench": "sink", **result}, indent=1))


if __name__ == "__main__":
    main()
