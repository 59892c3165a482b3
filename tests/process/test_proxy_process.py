"""Does `legato-rl-proxy` start from a run folder, answer, keep its key to itself, and end when it is told?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import ModelServer
from proxy_scene import KEY, Worker

from legato_rl.config import PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.rundir import RunDir, RunFile
from legato_rl.sockets import Context
from legato_rl.wire import CallReply

SCRIPT = str(Path(sys.executable).with_name("legato-rl-proxy"))


@pytest.mark.process
def test_the_process_answers_and_ends_on_sigterm(tmp_path: Path) -> None:
    """One call through a real process; it exits with 0, and its log does not hold the key that it sent."""
    server = ModelServer()
    settings = Settings(policy=PolicyConfig(server.url, "m"), desktops=1)
    facts = {"run_id": "r", "created_at": "", "today": "", "legato_rl": "", "python": "", "engine": {}}
    RunDir(tmp_path).write_run(RunFile.model_validate({**facts, "settings": settings, "sockets": tmp_path}))
    process = subprocess.Popen(
        [SCRIPT, str(tmp_path)], env={**os.environ, "LEGATO_POLICY_KEY": KEY}, stderr=subprocess.PIPE, text=True
    )
    try:
        with Context() as context, context.client("policy", address(tmp_path, "policy")) as socket:
            worker = Worker(socket)
            worker.ask()
            worker.hear(CallReply)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    finally:
        process.kill()
        server.stop()
    assert process.returncode == 0
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in log


@pytest.mark.process
def test_a_folder_without_a_run_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Bad input: exit code 2, nothing started, no traceback."""
    done = subprocess.run([SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "run.json" in done.stderr
    assert "Traceback" not in done.stderr
