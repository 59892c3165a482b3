"""Does a service go on when somebody else than its supervisord tells its processes to end? SIGTERM, as `kill` sends it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S, Cli, check_accounts, naming, tasks_file
from whole_services import serving

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process

PROGRAMS = ["broker", "proxy", "sink", "worker-000"]


def told(log: Path, what: str, times: int = 1) -> list[str]:
    """The programs of which supervisord told something that often, once they are all of them."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while True:
        names = re.findall(rf"{what}: '?([\w-]+)", log.read_text())
        found = sorted({name for name in names if names.count(name) >= times})
        if found == PROGRAMS or SYSTEM_CLOCK.monotonic() > deadline:
            return found
        SYSTEM_CLOCK.sleep(0.1)


def test_what_is_terminated_is_started_again(tmp_path: Path) -> None:
    """All four programs at once: none counts as done, the service does not count as shut down, and a batch runs on it."""
    root = tmp_path / "d"
    with serving(root, "--desktops", 1) as (service, client):
        log = ServiceDir(root).logs / "supervisord.log"
        # What ends before it counts as started is started again whatever its exit code is.
        assert told(log, "success") == PROGRAMS
        below = [one for one in service.below() if any(f"legato-rl-{name[:6]}" in str(one.cmdline()) for name in PROGRAMS)]
        for one in below:
            one.terminate()
        assert told(log, "spawned", times=2) == PROGRAMS
        with Cli("collect", "--connect", root, "--tasks", tasks_file(tmp_path, "a"), "--name", "r", "--group", 1) as cli:
            assert cli.end(2 * PATIENCE_S) == ExitCode.DONE, cli.output
        assert service.process.poll() is None, service.output
        client.shutdown()
        assert service.end() == ExitCode.DONE, service.output
    assert naming(str(root)) == []
    assert len(check_accounts(ServiceDir(root).runs / "r")) == 1
