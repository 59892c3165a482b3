"""Does `collect --connect` say that its service is gone, and let itself be ended? Real services that are killed."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from whole_runs import PATIENCE_S, Cli, tasks_file
from whole_services import serve, until

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process

LEAVE_S = 60.0
"""Seconds that a client may take to leave: it asks the service for 15, and waits for it for 120 where nobody wants it to end;
this machine may be busy."""


def silent_once(output: str) -> bool:
    """Whether a silence that goes on was told, once. One that ended before (a busy machine) counts for nothing."""
    silent = output.count("the service does not answer: it is waited for; Ctrl-C leaves the run to it\n")
    return silent == output.count("the service answers again\n") + 1


def kill(service: Cli) -> None:
    """Kill a service and all that is below it, as the power does."""
    family = [psutil.Process(service.process.pid), *service.below()]
    for process in family:
        process.kill()
    service.process.wait(PATIENCE_S)
    psutil.wait_procs(family, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, ExitCode.INTERRUPTED, "interrupted"), (signal.SIGTERM, ExitCode.TERMINATED, "terminated")],
)
def test_a_service_that_dies_during_a_run(tmp_path: Path, number: signal.Signals, code: ExitCode, word: str) -> None:
    """That is told once; the first signal ends the client within seconds, and what becomes of the run is told."""
    root, tasks = tmp_path / "d", tasks_file(tmp_path, "a")
    with serve(root, "--desktops", 1, "--fake", "act_s=0.3") as service:
        service.wait_for("no run |")
        with Cli("collect", "--connect", root, "--tasks", tasks, "--name", "r", "--group", 64) as cli:
            with ControlClient(root) as client:
                until(client, "r", lambda status: status.desktops.get("act", 0) >= 1)
            cli.wait_for("r: the service's desktops (")
            kill(service)
            cli.wait_until(silent_once)
            began = SYSTEM_CLOCK.monotonic()
            cli.process.send_signal(number)
            assert cli.end() == code
            assert SYSTEM_CLOCK.monotonic() - began < LEAVE_S
    silent, again, last = cli.output.splitlines()[-3:]
    assert silent == "the service does not answer, so r was not stopped: a run that was begun goes on when it does"
    assert again == f"go on with: legato-rl collect --connect {root} --resume --name r"
    assert last == word
    assert silent_once(cli.output)
    assert RunDir(ServiceDir(root).runs / "r").load_end() is None
    began = SYSTEM_CLOCK.monotonic()
    with Cli("collect", "--connect", root, "--tasks", tasks) as again:
        assert again.end() == ExitCode.BAD_INPUT
    assert SYSTEM_CLOCK.monotonic() - began < LEAVE_S
    assert again.output == (
        f"error: connect is '{root}': no process of its service is up; start it with legato-rl serve --dir {root}, "
        "or the supervisord that runs it\n"
    )
