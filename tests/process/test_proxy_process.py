"""Does `legato-rl-proxy` start from a folder, answer, keep its key to itself, bear a want of files, and end when told?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from model_server import ModelServer
from proxy_scene import KEY, Broker, Worker, run_policy, service_file

from legato_rl.config import PolicyConfig
from legato_rl.endpoints import address
from legato_rl.errors import ExitCode
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context
from legato_rl.wire import CallReply

pytestmark = pytest.mark.process

SCRIPT = str(Path(sys.executable).with_name("legato-rl-proxy"))
FILES = 40
"""A limit that leaves the proxy some twenty files beside its own."""
ENOUGH = 20
"""Desktops that need more than that: two each."""


class House:
    """A service's folder and sockets, its broker and workers, which are the test's, and the proxy's process."""

    def __init__(self, root: Path, context: Context, process: subprocess.Popen[str], broker: Broker) -> None:
        self.root, self.context, self.process, self.broker = root, context, process, broker

    def worker(self) -> Worker:
        """One more worker, connected."""
        return Worker(self.context.client("policy", address(self.root, "policy")))

    def log(self) -> str:
        """What the process wrote, once it has ended."""
        return self.process.communicate(timeout=60)[1]


@contextmanager
def house(root: Path, server: ModelServer, *before: str, desktops: int = 1) -> Iterator[House]:
    """A real proxy before `server`, which knows run `r`; its command comes after that of `before`."""
    ServiceDir(root).write(service_file(PolicyConfig(server.url, "m"), root, desktops=desktops))
    command, environment = [*before, SCRIPT, str(root)], {**os.environ, "LEGATO_POLICY_KEY": KEY}
    with Context() as context, context.server("orders", address(root, "orders")) as orders:
        broker = Broker(orders, [run_policy()])
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            broker.beat()
            broker.order()
            yield House(root, context, process, broker)
        finally:
            process.kill()
            process.wait()
            server.let_go()
            server.stop()


@pytest.mark.parametrize(
    ("how", "code"), [("SIGTERM", ExitCode.TERMINATED), ("leave", ExitCode.DONE)], ids=["SIGTERM", "leave"]
)
def test_the_process_answers_and_ends(tmp_path: Path, how: str, code: ExitCode) -> None:
    """One call through a real process; asked to end or told to leave it says so by its code; its log does not hold the key."""
    server = ModelServer()
    with house(tmp_path, server) as here:
        worker = here.worker()
        worker.ask()
        worker.hear(CallReply)
        if how == "leave":
            here.broker.push(leave=True)
        else:
            here.process.send_signal(signal.SIGTERM)
        log = here.log()
    assert here.process.returncode == code
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in log


def test_too_few_files_are_told_and_waited_for(tmp_path: Path) -> None:
    """No call fails and nothing ends: the beats name the limit, and when files are free again all calls are answered."""
    server = ModelServer()
    with house(tmp_path, server, "prlimit", f"--nofile={FILES}", desktops=ENOUGH) as here:
        server.hold()
        workers = [here.worker() for _ in range(ENOUGH)]
        for n, worker in enumerate(workers):
            worker.ask(rollout=f"r:g:{n}:0")
        beat = here.broker.beat(lambda beat: beat.state == "down")
        assert "too many open files" in beat.message
        assert "ulimit -n" in beat.message
        for worker in workers[5:]:
            worker.socket.close()
        server.let_go()
        for n, worker in enumerate(workers[:5]):
            worker.ask(rollout=f"r:g:{n}:0")
            worker.hear(CallReply)
        assert here.process.poll() is None


def test_a_folder_without_a_run_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Bad input: exit code 2, nothing started, no traceback."""
    done = subprocess.run([SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "run.json" in done.stderr
    assert "Traceback" not in done.stderr
