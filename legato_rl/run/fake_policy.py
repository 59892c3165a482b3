"""How is the bundled model server started for a run? As our child, before the pre-flight; it ends when we do."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from legato_rl.errors import ConfigError
from legato_rl.run.processes import child_command, child_environment, log_tail, scripts_folder

START_S = 30.0
"""Seconds that the server may take to name its address."""


@contextmanager
def fake_policy(logs: Path, seed: int | None) -> Iterator[str]:
    """The bundled server's base URL while the block runs. ConfigError where it does not come up."""
    command = [str(scripts_folder() / "legato-rl"), "fake-policy", "--port", "0"]
    if seed is not None:
        command += ["--seed", str(seed)]
    log = logs / "fake-policy.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            child_command(command, "KILL"),
            env=child_environment(None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_S)
        url = process.stdout.readline().decode().strip() if readable else ""
        if not url:
            raise ConfigError(f"policy-url is 'fake': the bundled server did not start; it said: {log_tail(log)}")
        yield url
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
