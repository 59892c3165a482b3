"""Does `legato-rl control` show and steer a real service? Every command, against processes on fake desktops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from whole_runs import PATIENCE_S, inline_task
from whole_services import serving

from legato_rl.cli.main import legato_rl
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode
from legato_rl.run.hold import held
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a service of two desktops, and processes for three."""
    folder = tmp_path_factory.mktemp("control") / "d"
    with serving(folder, "--desktops", 2, "--most-desktops", 3, "--seed", 1):
        yield folder


def control(name: str, *words: object) -> Result:
    """`legato-rl control` in this process."""
    return CliRunner().invoke(legato_rl, ["control", name, *map(str, words)])


def said(name: str, *words: object) -> str:
    """What a command says that is granted."""
    result = control(name, *words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(name: str, *words: object) -> str:
    """The one sentence that refuses."""
    result = control(name, *words)
    assert result.exit_code == ExitCode.BAD_INPUT, result.output
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    return result.output


def standing(root: Path, *words: object) -> dict[str, Any]:
    """`status --json`."""
    told: dict[str, Any] = json.loads(said("status", root, "--json", *words))
    return told


def soon(met: Callable[[], bool]) -> None:
    """Wait until that is so."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not met():
        assert SYSTEM_CLOCK.monotonic() < deadline
        SYSTEM_CLOCK.sleep(0.05)


def test_a_run_is_looked_at_stopped_and_resumed(root: Path) -> None:
    """It is named as long as it may be resumed; its events come as JSON lines, to its end."""
    assert said("drain", root) == f"draining: no further try is begun; go on with: legato-rl control resume {root}\n"
    with ControlClient(root) as client:
        client.submit([inline_task("a"), inline_task("b")], {"group": 2}, name="r", priority=3)
    assert "runs      r  running  version v1  priority 3  groups 0 of 2 closed\n" in said("status", root)
    assert "\ndraining  no further try is begun" in said("status", root)
    assert "\nattempts  0 of 4 ended\n" in said("status", root, "--run", "r")
    assert said("stop", root, "r", "--reason", "for now").startswith("r is stop")
    # The folder is closed a moment after the run.
    soon(lambda: [run["run"] for run in standing(root)["resumable"]] == ["r"])
    assert f"resumable  r (for now)\n           go on with: legato-rl control resume-run {root} RUN\n" in said("status", root)
    followed = control("events", root, "--run", "r", "--follow")
    assert (followed.exit_code, followed.output) == (ExitCode.STOPPED, "error: the run r stopped early: for now\n")
    assert said("resume", root) == "resumed\n"
    assert said("resume-run", root, "r") == f"r goes on in {ServiceDir(root).runs / 'r'}\n"
    events = [json.loads(line) for line in said("events", root, "--follow").splitlines()]
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert {event["run"] for event in events} == {"r"}
    assert events[-1]["kind"] == "run_finished"
    assert [json.loads(line) for line in said("events", root, "--run", "r", "--after", 3).splitlines()] == events[3:]
    assert "state     finished\n" in said("status", root, "--run", "r")
    assert standing(root)["resumable"] == []


def test_the_policy_is_set_while_calls_stand_still(root: Path) -> None:
    """Refused else, in one sentence; what is asked for shows in the status."""
    assert "model calls do not stand still: pause first" in refused("set-policy", root, "--version", "v2")
    assert said("pause", root, "--mode", "wait").endswith(f"; go on with: legato-rl control resume {root}\n")
    assert standing(root)["paused"] == "wait"
    assert said("set-policy", root, "--version", "v2") == "the policy is set\n"
    assert said("resume", root) == "resumed\n"
    assert said("set-policy", root, "--version", "v3", "--when", "new") == "the policy is set\n"
    with ControlClient(root) as client:
        run, _ = client.submit([inline_task("a")], {"group": 1})
    assert said("events", root, "--run", run, "--follow") != ""
    stands = standing(root, "--run", run)
    assert (stands["version"], stands["model"]) == ("v3", "fake")
    assert f"server    {stands['url']}, model fake" in said("status", root)
    assert "url is 'http://127.0.0.1:1/v1': this service may only call" in refused(
        "set-policy", root, "--url", "http://127.0.0.1:1/v1"
    )
    assert "name what is to change" in refused("set-policy", root)


def test_attempts_are_cancelled(root: Path) -> None:
    """Those of a group; the run ends without them."""
    said("drain", root)
    with ControlClient(root) as client:
        run, _ = client.submit([inline_task("a"), inline_task("b")], {"group": 1})
    assert said("cancel", root, "--run", run, "--group", "a") == "cancelled\n"
    assert "has no attempt with group 'b', attempt 7" in refused("cancel", root, "--run", run, "--group", "b", "--attempt", 7)
    said("resume", root)
    said("events", root, "--run", run, "--follow")
    assert standing(root, "--run", run)["rows"] == {"skipped": 1, "ok": 1}


def test_desktops_come_and_go(root: Path) -> None:
    """Within what the service was started for; a bound on calls is a number."""

    def working() -> int:
        desktops = standing(root)["desktops"]
        return sum(count for phase, count in desktops.items() if phase != "parked")

    assert said("add-desktops", root, 1) == "more desktops are to work: 1\n"
    soon(lambda: working() == 3)
    assert "the service has processes for 3" in refused("add-desktops", root, 1)
    assert said("remove-desktops", root, 1) == "fewer desktops are to work: 1\n"
    soon(lambda: working() == 2)
    assert said("set-max-inflight", root, 1) == "model calls at once: 1\n"
    assert said("set-max-inflight", root, "none") == "model calls at once: as many as there are desktops\n"
    assert "max-inflight is 0: it must be at least 1" in refused("set-max-inflight", root, 0)


def test_a_run_that_is_none(root: Path) -> None:
    """Said in the broker's words."""
    assert "run is 'none': none of that id was submitted here" in refused("stop", root, "none")
    assert "the service has no run of that name to resume" in refused("resume-run", root, "none")
    assert "run is 'none': none of that id was submitted here" in refused("status", root, "--run", "none")


def test_a_service_is_shut_down(tmp_path: Path) -> None:
    """Its `serve` ends well, and says how to go on; then nobody answers."""
    root = tmp_path / "d"
    with serving(root, "--desktops", 1) as (service, _):
        shown = said("shutdown", root)
        assert shown.startswith("the service is shutting down: ")
        assert shown.endswith("it is down\n")
        with held(RunDir(root)):
            assert service.end() == ExitCode.DONE, "whoever opens it next need not wait"
    result = control("status", root)
    assert result.exit_code == ExitCode.STOPPED
    assert result.output.startswith(f"error: nobody is at {root}: no process of it is up; start it with ")
