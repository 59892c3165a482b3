"""Does what `serve --print-supervisord` prints run a service under an operator's own supervisord? That of docs/operating.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from whole_runs import PATIENCE_S, Cli, check_accounts, naming, tasks_file
from whole_services import serve, until

from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.service import ServiceDir
from legato_rl.supervisord import KEY_VARIABLE

pytestmark = pytest.mark.process

KEY = "sk-operators-own"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"


@contextmanager
def supervisord(conf: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An operator's supervisord, with the key in its environment."""
    command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(conf)]
    with (conf.parent / "supervisord.out").open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, KEY_VARIABLE: KEY}, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def conf_of_the_page(place: Path) -> str:
    """The supervisord.conf of docs/operating.md, its places replaced."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```ini\n(\[supervisord\].*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return re.sub(r"/(etc/supervisor|var/log|run)/", f"{place}/", found[1])


def supervisorctl(conf: Path, *words: str) -> str:
    """What supervisorctl says."""
    command = [sys.executable, "-m", "supervisor.supervisorctl", "-c", str(conf), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S).stdout


def workers(process: subprocess.Popen[bytes]) -> set[int]:
    """The pids of the workers."""
    children = psutil.Process(process.pid).children()
    return {child.pid for child in children if any("legato-rl-worker" in word for word in child.cmdline())}


def test_a_service_of_an_operators_own(tmp_path: Path) -> None:
    """A batch runs while all but the workers are restarted; the key is the proxy's alone; the workers stop first."""
    root = tmp_path / "d"
    with tempfile.TemporaryDirectory(prefix="lr-") as place, FakePolicyServer(FakePolicyConfig(api_key=KEY)) as url:
        given = ("--policy-url", url, "--desktops", 2, "--fake", "act_s=0.5", "--print-supervisord")
        with serve(root, "--model", "m", "--version", "v1", *given, **{KEY_VARIABLE: KEY}) as printed:
            assert printed.end() == ExitCode.DONE, printed.output
        assert KEY not in printed.output
        (Path(place) / "legato.conf").write_text(printed.output)
        conf = Path(place) / "supervisord.conf"
        conf.write_text(conf_of_the_page(Path(place)))
        with supervisord(conf) as process, ControlClient(root) as client:
            assert client.status(wait_s=PATIENCE_S) is not None
            with Cli("collect", "--connect", root, "--tasks", tasks_file(tmp_path, "a"), "--name", "r") as cli:
                until(client, "r", lambda status: status.attempts_ended >= 1)
                before = workers(process)
                for role in ("sink", "proxy", "broker"):
                    assert f"legato-rl-{role}: started" in supervisorctl(conf, "restart", f"legato-rl-{role}")
                assert cli.end(2 * PATIENCE_S) == ExitCode.DONE, cli.output
            assert workers(process) == before
            children = psutil.Process(process.pid).children(recursive=True)
            having = [" ".join(child.cmdline()) for child in children if KEY in str(child.environ())]
            assert ["legato-rl-proxy" in line for line in having] == [True]
        assert psutil.wait_procs(children, timeout=60.0)[1] == []
        log = (Path(place) / "supervisord.log").read_text().rpartition("received SIGTERM")[2]
    assert naming(str(root)) == []
    rows = check_accounts(ServiceDir(root).runs / "r")
    assert {row["try"] for row in rows} == {0}, "no desktop was lost"
    stopped = re.findall(r"stopped: (?:legato-rl-)?(\w+)", log)
    assert stopped == ["worker", "worker", "broker", "proxy", "sink"]
