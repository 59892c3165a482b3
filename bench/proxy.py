"""What does the policy-proxy add to a model call of 20 screenshots, against posting the ready-made body? JSON out.

Both ask the same canned server, a process of its own that waits as a model would and answers 100 tokens with the ids
of their 41,000-token prompt. The baseline posts one ready-made body with `requests` and reads the answer's JSON, from
as many threads as are in flight. Through the proxy, as many workers each send one new screenshot of 1 MB a call, as
they do in a run. Rounds of both alternate; the ratios are of their median rounds. CPU is of the process that calls: the
baseline's own, and the proxy's. A wait of 0 s shows the raw overhead. At 0.5 s, 32 in flight would move 1.7 GB a second:
on a small machine that measures its cores, on both sides; 2 s is nearer to what 32 such prompts take a model server.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.config import PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.policy.body import message_fragment, sampling_params, wire_body
from legato_rl.rundir import RunDir, RunFile
from legato_rl.sockets import Client, Context, Server, wait
from legato_rl.wire import (
    BlobName,
    CallAsk,
    CallId,
    CallNeeds,
    CallReply,
    PolicyName,
    ProxyBeat,
    ProxyOrder,
    RunPolicy,
)

SCREENSHOTS = 20
IMAGE_BYTES = 10**6
IMAGE_TOKENS = 2040
TOKENS = 100
PLACEHOLDER = 151655
RUN = "bench"


def canned_answer() -> bytes:
    """The HTTP answer that every request gets."""
    prompt = []
    for n in range(SCREENSHOTS):
        prompt += [*range(1000 + 10 * n, 1010 + 10 * n), *[PLACEHOLDER] * IMAGE_TOKENS]
    entries = [{"token": " word", "logprob": -0.123456, "bytes": [32, 119], "top_logprobs": []} for _ in range(TOKENS)]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": " word" * TOKENS},
        "logprobs": {"content": entries},
        "finish_reason": "stop",
        "token_ids": list(range(5000, 5000 + TOKENS)),
    }
    usage = {"prompt_tokens": len(prompt), "completion_tokens": TOKENS}
    body = json.dumps({"choices": [choice], "usage": usage, "prompt_token_ids": prompt}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def serve(wait_s: float) -> None:
    """Be the canned server: print the port, then answer each request `wait_s` seconds after its last byte."""
    answer = canned_answer()
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)

    def talk(connection: socket.socket) -> None:
        buffer = bytearray(1 << 20)
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            head, _, begun = head.partition(b"\r\n\r\n")
            lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            left = (lengths[0] if lengths else 0) - len(begun)
            while left > 0:
                left -= connection.recv_into(buffer, min(left, len(buffer)))
            if head.startswith(b"POST"):
                time.sleep(wait_s)
            connection.sendall(answer)

    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


@contextmanager
def canned_server(wait_s: float) -> Iterator[str]:
    """The base URL of a canned server in a process of its own."""
    command = [sys.executable, __file__, "--serve", str(wait_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


def tell_policy(orders: Server) -> None:
    """Be the broker until the proxy knows the run's policy."""
    policy = RunPolicy(run=RUN, names=[PolicyName(model="m", version="v")], step_timeout=60.0, retries=1)
    done = 0
    while not done:
        wait([orders], 1.0)
        for received in orders.receive():
            if isinstance(received.message, ProxyBeat):
                done = received.message.order
                orders.send(received.peer, ProxyOrder(boot=received.message.boot, number=1, policies=[policy]))


@contextmanager
def proxy_process(url: str, slots: int) -> Iterator[tuple[Path, psutil.Process]]:
    """The socket folder and the process of a real proxy before `url`."""
    with tempfile.TemporaryDirectory(prefix="lr") as folder:
        root = Path(folder)
        settings = Settings(policy=PolicyConfig(url, "m", version="v"), desktops=slots)
        RunDir(root).write_run(
            RunFile(
                run_id=RUN,
                created_at="",
                today="",
                legato_rl="",
                python="",
                settings=settings,
                sockets=root,
                engine={},
            )
        )
        process = subprocess.Popen([str(Path(sys.executable).with_name("legato-rl-proxy")), folder])
        try:
            with Context() as context, context.server("orders", address(root, "orders")) as orders:
                tell_policy(orders)
            yield root, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


@dataclass
class Worker:
    """One rollout: asks call after call, each with one new screenshot at the end of a window of 20."""

    socket: Client
    rollout: str
    window: list[bytes]
    parts: dict[str, bytes] = field(default_factory=dict)
    step: int = 0
    previous: str = ""

    def call(self, message: bytes, image: bytes) -> None:
        """One model call, from the ask to the reply."""
        self.window = [*self.window[1:], message]
        hashes = [sha256_hex(text) for text in self.window]
        call = CallId(rollout=self.rollout, lease=1, step=self.step, digest=hashes[-1])
        self.step, blobs = self.step + 1, [image, message]
        while True:
            names = [BlobName(sha256=sha256_hex(b), size=len(b), type="message" if b[:1] == b"{" else "image") for b in blobs]
            ask = CallAsk(call=call, messages=hashes, params=PARAMS, deadline_s=None, blobs=names, previous=self.previous)
            self.socket.send(ask, list(blobs))
            blobs = []
            while not blobs:
                wait([self.socket], 2.0)
                for received in self.socket.receive():
                    if isinstance(received.message, CallReply):
                        self.previous = received.message.ids_hash()
                        return
                    if isinstance(received.message, CallNeeds):
                        blobs = [self.parts[sha256] for sha256 in received.message.hashes]


PARAMS = sampling_params(PolicyConfig("http://unused/v1", "m"), 1)


def screenshot() -> tuple[bytes, bytes]:
    """A new message and the image that it names."""
    image = b"\x89PNG\r\n\x1a\n" + os.urandom(IMAGE_BYTES - 8)
    part = {"type": "image_url", "image_url": {"url": image_name(sha256_hex(image))}}
    return canonical_json({"role": "user", "content": [part]}), image


@dataclass
class Round:
    """One round's figures: seconds of each call, of all, and CPU seconds of the side that calls."""

    latencies: list[float]
    seconds: float
    cpu: float


def run_round(calls: list[Any], threads: int, process: psutil.Process) -> Round:
    """Make `calls` (each a list of functions, one after the other) side by side."""
    latencies: list[float] = []

    def one_after_another(steps: list[Any]) -> None:
        for step in steps:
            begun = time.perf_counter()
            step()
            latencies.append(time.perf_counter() - begun)

    with ThreadPoolExecutor(threads) as pool:
        cpu, begun = sum(process.cpu_times()[:2]), time.perf_counter()
        list(pool.map(one_after_another, calls))
        return Round(latencies, time.perf_counter() - begun, sum(process.cpu_times()[:2]) - cpu)


def measure(wait_s: float, in_flight: int, rounds: int, steps: int) -> dict[str, Any]:
    """Both ways, alternating, at one wait and one number in flight."""
    window = [screenshot() for _ in range(SCREENSHOTS)]
    parts = {sha256_hex(blob): blob for pair in window for blob in pair}
    fragments = [message_fragment(message, {sha256_hex(image): image}) for message, image in window]
    body = b"".join(wire_body({**PARAMS, "model": "m"}, fragments))
    with canned_server(wait_s) as url, proxy_process(url, in_flight) as (folder, process), Context() as context:
        workers = [
            Worker(context.client("policy", address(folder, "policy")), f"{RUN}:g:{n}:0", [m for m, _ in window], parts)
            for n in range(in_flight)
        ]
        sessions = [requests.Session() for _ in range(in_flight)]

        def post(session: requests.Session) -> None:
            session.post(f"{url}/chat/completions", data=body, headers={"Content-Type": "application/json"}).json()

        def through_proxy(count: int) -> Round:
            shots = [[screenshot() for _ in range(count)] for _ in workers]
            calls = [
                [lambda worker=worker, pair=pair: worker.call(*pair) for pair in mine]
                for worker, mine in zip(workers, shots, strict=True)
            ]
            return run_round(calls, in_flight, process)

        def directly(count: int) -> Round:
            calls = [[lambda session=session: post(session)] * count for session in sessions]
            return run_round(calls, in_flight, psutil.Process())

        through_proxy(1)  # the whole window is sent once, as at a rollout's later steps it long was
        directly(1)
        pairs = [(directly(steps), through_proxy(steps)) for _ in range(rounds)]
        for worker in workers:
            worker.socket.close()
        calls = in_flight * steps
        return {
            "wait_s": wait_s,
            "in_flight": in_flight,
            "calls": calls * rounds,
            "latency_ratio": round(ratio([(fmean(b.latencies), fmean(p.latencies)) for b, p in pairs]), 3),
            "makespan_ratio": round(ratio([(b.seconds, p.seconds) for b, p in pairs]), 3),
            "added_ms_per_call": round(1000 * (middle([fmean(p.latencies) - fmean(b.latencies) for b, p in pairs])), 1),
            "direct_ms_per_call": round(1000 * middle([fmean(b.latencies) for b, _ in pairs]), 1),
            "cpu_ms_per_call": {
                "direct": round(1000 * middle([b.cpu for b, _ in pairs]) / calls, 1),
                "proxy": round(1000 * middle([p.cpu for _, p in pairs]) / calls, 1),
            },
            "proxy_rss_mb": process.memory_info().rss // 2**20,
        }


fmean, middle = statistics.fmean, statistics.median


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median of the second over median of the first."""
    return middle([second for _, second in pairs]) / middle([first for first, _ in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", type=float, metavar="S", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waits", type=float, nargs="+", default=[2.0, 0.5, 0.0], help="seconds that the server waits")
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
    figures = [
        measure(wait_s, in_flight, args.rounds, steps=6 if in_flight == 1 else 2)
        for wait_s in args.waits
        for in_flight in (1, 32)
    ]
    print(json.dumps({"bench": "proxy", "screenshots": SCREENSHOTS, "image_bytes": IMAGE_BYTES, "runs": figures}))


if __name__ == "__main__":
    main()
