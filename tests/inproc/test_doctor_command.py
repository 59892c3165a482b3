"""Does `legato-rl doctor` look at the real machine, and end with the right exit code?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from qwen_stand_in import make_checkout

from legato_rl.cli.main import legato_rl
from legato_rl.errors import ExitCode
from legato_rl.machine import look_at_engine, look_at_vm

TASK = {"task_id": "t", "config": {"instruction": "Do it.", "evaluator": {"func": "infeasible"}}}


def doctor(*args: object) -> Result:
    """Run it."""
    return CliRunner().invoke(legato_rl, ["doctor", *map(str, args)])


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Docker engine that is not there, whatever this machine has."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


@pytest.mark.usefixtures("no_engine")
def test_fake_desktops_run_here(tmp_path: Path) -> None:
    """What the tests themselves need is there: nothing is missing, as JSON and as a table."""
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([TASK]))
    told = doctor("--backend", "fake", "--desktops", 1, "--tasks", tasks, "--json")
    assert told.exit_code == ExitCode.DONE, told.output
    found = json.loads(told.stdout)
    assert found["ready"]
    states = {row["name"]: row["state"] for row in found["rows"]}
    assert states["Python packages"] == states["setpriv"] == states["workers' Python"] == states["tasks"] == "ok"
    table = doctor("--backend", "fake", "--desktops", 1)
    assert table.exit_code == ExitCode.DONE
    assert table.stdout.endswith("ready; of the model server tells legato-rl probe\n")


@pytest.mark.usefixtures("no_engine")
def test_eighty_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be copied stands whole on a line, and what to do below what was found."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = doctor("--backend", "container", "--desktops", 16).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    at = next(n for n, line in enumerate(shown) if line.startswith("Docker engine"))
    assert re.match(r"Docker engine +missing +\S", shown[at])
    assert any(re.match(r" +-> start it, join the group docker", line) for line in shown[at:])


@pytest.mark.usefixtures("no_engine")
def test_what_is_missing(tmp_path: Path) -> None:
    """Without engine and workers' Python the exit code is 1, and each has its row and remedy."""
    (tmp_path / "evaluation_examples" / "examples").mkdir(parents=True)
    told = doctor("--backend", "container", "--osworld", tmp_path, "--osworld-python", tmp_path / "python", "--json")
    assert told.exit_code == ExitCode.SHORT, told.output
    found = json.loads(told.stdout)
    assert not found["ready"]
    missing = {row["name"]: row["remedy"] for row in found["rows"] if row["state"] == "missing"}
    assert missing.keys() >= {"Docker engine", "workers' Python"}
    assert all(missing.values())


@pytest.mark.usefixtures("no_engine")
def test_the_agent_of_a_checkout(tmp_path: Path) -> None:
    """Its class is named, whatever it prints while it is imported."""
    checkout, tasks = make_checkout(tmp_path / "osworld"), tmp_path / "tasks.json"
    tasks.write_text(json.dumps([TASK]))
    (checkout / "evaluation_examples" / "examples").mkdir(parents=True)
    with (checkout / "mm_agents" / "qwen" / "main.py").open("a") as module:
        module.write("print('hello')\n")
    told = doctor("--osworld", checkout, "--tasks", tasks, "--json")
    assert {row["name"]: row["value"] for row in json.loads(told.stdout)["rows"]}["OSWorld's agent"] == (
        "mm_agents.qwen.main.QwenAgent"
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--desktops", 0), "desktops is 0: it must be from 1 to 4096"),
        (("--backend", "vmware"), "backend is 'vmware': it must be"),
        (("--osworld", "none"), "osworld is 'none': there is no such folder"),
        (("--vm", "none"), "vm is 'none': No such file"),
        (("--tasks", "none"), "tasks is 'none': No such file"),
    ],
)
def test_wrong_input(args: tuple[object, ...], says: str) -> None:
    """One sentence and exit code 2; nothing is looked at."""
    told = doctor(*args)
    assert told.exit_code == ExitCode.BAD_INPUT
    assert says in told.stderr
    assert told.stdout == ""


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_is_not_there() -> None:
    """It has no version and a reason."""
    engine, root = look_at_engine(["x"])
    assert (engine.version, root, bool(engine.fault)) == (None, "", True)


@pytest.mark.parametrize(("start", "qcow2"), [(b"QFI\xfb\0\0\0\3", True), (b"PK\3\4", False), (b"", False)])
def test_a_file_of_a_vm(tmp_path: Path, start: bytes, qcow2: bool) -> None:
    """Told by its first bytes."""
    path = tmp_path / "Ubuntu.qcow2"
    path.write_bytes(start)
    assert (look_at_vm(path).size, look_at_vm(path).qcow2) == (len(start), qcow2)
