"""How does a test session run a real vLLM server, and end it whole?"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import requests
from install_vllm import Install

MODEL = "tiny-qwen-vl"
START_SECONDS = 600.0
"""24 to 30 s on two idle cores; over 240 s where thirty others want them."""
STOP_SECONDS = 8.0
"""With requests in flight vLLM waits for their clients to hang up about every second time: then it is killed."""
TAIL_LINES = 40


@dataclass(frozen=True)
class VllmServer:
    """A server that answers: where, under which name and key, and what it is made of."""

    url: str
    """Base URL, ending in /v1."""
    key: str = field(repr=False)
    python: Path
    """Interpreter of vLLM's own environment, which has torch and transformers."""
    model_dir: Path
    """The directory that is served."""
    model: str = MODEL


@contextmanager
def serve(install: Install, log: Path) -> Iterator[VllmServer]:
    """Serve the tiny model on 127.0.0.1 for the length of a `with` block; all output goes to `log`.

    Raises RuntimeError with the end of the log when the server exits, or does not answer within START_SECONDS.
    """
    port = _free_port()
    key = "sk-" + secrets.token_hex(16)
    with log.open("wb") as output:
        process = psutil.Popen(
            _command(install, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(key),
            start_new_session=True,  # a Ctrl-C at the terminal is for pytest, which then ends the server below
        )
    try:
        _wait_until_healthy(process, port, log)
        yield VllmServer(f"http://127.0.0.1:{port}/v1", key, install.python, install.model)
    finally:
        _end(process)


def _command(install: Install, port: int) -> list[str]:
    # setpriv: a test session that is itself killed takes the server with it (TERM, since KILL would orphan the engine)
    return [
        *("setpriv", "--pdeathsig", "TERM", "--", str(install.vllm), "serve", str(install.model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL),
        *("--load-format", "auto", "--enforce-eager", "--max-model-len", "65536", "--max-num-seqs", "8"),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--limit-mm-per-prompt", '{"image": 20, "video": 0}', "--skip-mm-profiling"),
    ]


def _environment(key: str) -> dict[str, str]:
    return os.environ | {
        "VLLM_API_KEY": key,  # as --api-key, and in no process list
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "TORCHDYNAMO_DISABLE": "1",  # else the first request with logprobs compiles C++ for 20 s
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB: millions of tokens of this model
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_healthy(process: psutil.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            process.wait(timeout=0.5)
        except psutil.TimeoutExpired:
            if _is_healthy(port):
                return
        else:
            raise RuntimeError(f"vLLM ended with code {process.returncode} before it answered:\n{_tail(log)}")
    raise RuntimeError(f"vLLM did not answer within {START_SECONDS:.0f} s:\n{_tail(log)}")


def _is_healthy(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    except requests.RequestException:
        return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


def _end(process: psutil.Popen) -> None:
    """End the server and the processes that it started, each by its pid."""
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
    for member in alive:
        member.kill()
    psutil.wait_procs(alive, timeout=STOP_SECONDS)
