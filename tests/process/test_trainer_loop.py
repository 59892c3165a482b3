"""Do the two training loops of docs/examples run as they stand? A real service over tcp, with keys."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S, check_accounts, tasks_file
from whole_services import serving, until

from legato_rl.control import ControlClient
from legato_rl.curve import CLIENT_SECRET, SERVER_PUBLIC, write_keys
from legato_rl.service import ServiceDir

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a service whose control is at tcp://."""
    folder = tmp_path_factory.mktemp("loop")
    write_keys(folder / "keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        control = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with serving(folder / "d", "--desktops", 2, "--control", control, "--keys", folder / "keys", "--seed", 1):
        yield folder / "d"


def run_example(name: str, *args: object) -> list[str]:
    """The lines that an example printed."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def groups_told(lines: list[str]) -> dict[str, list[tuple[str, str]]]:
    """By run, in order, its groups and the versions that they were sampled from."""
    told: dict[str, list[tuple[str, str]]] = {}
    for run, group, version in re.findall(r"^(\S+) (\w): rewards \[[\d., ]+\], sampled from (\S+)$", "\n".join(lines), re.M):
        told.setdefault(run, []).append((group, version))
    return {run: sorted(groups) for run, groups in told.items()}


def versions_of(root: Path, run: str) -> set[str]:
    """The policy versions of all steps of a run, whose accounts are good."""
    rows = check_accounts(ServiceDir(root).runs / run)
    return {step["model"]["version"] for row in rows for step in row["steps"]}


def test_the_loop_trains_on_each_group_as_it_closes(root: Path, tmp_path: Path) -> None:
    """Two batches of two groups: each told once; the second is sampled from the version that the first one made."""
    lines = run_example("trainer_loop.py", root, tasks_file(tmp_path, "a", "b"), 2)
    (first, second), groups = groups_told(lines), groups_told(lines).values()
    assert list(groups) == [[("a", "v1"), ("b", "v1")], [("a", "step-1"), ("b", "step-1")]]
    weights = [line for line in lines if line.startswith("weights ")]
    assert [line.split(":")[0] for line in weights] == ["weights step-1", "weights step-2"]
    assert (versions_of(root, first), versions_of(root, second)) == ({"v1"}, {"step-1"})


def test_a_loop_that_was_cut_goes_on(root: Path, tmp_path: Path) -> None:
    """With the run of its checkpoint, which had stopped: each group is told once, and the batch is not begun anew."""
    tasks, checkpoint = tasks_file(tmp_path, "a", "b"), tmp_path / "loop.json"
    with ControlClient(root) as client:
        client.drain()
        run, _ = client.submit(json.loads(tasks.read_text()), {"group": 2})
        client.stop("cut", run)
        until(client, run, lambda status: status.state == "stopped")
        client.resume()
    checkpoint.write_text(json.dumps({"batch": 1, "run": run, "tokens": 40, "signal": 1.5}))
    lines = run_example("trainer_loop.py", root, tasks, 3, checkpoint)
    told = groups_told(lines)
    assert next(iter(told)) == run
    assert [[group for group, _ in groups] for groups in told.values()] == [["a", "b"], ["a", "b"]]
    assert [line.split(":")[0] for line in lines if line.startswith("weights ")] == ["weights step-2", "weights step-3"]
    saved = json.loads(checkpoint.read_text())
    assert (saved["batch"], saved["run"]) == (3, "")
    assert saved["tokens"] > 40
    assert run_example("trainer_loop.py", root, tasks, 3, checkpoint) == []


def test_a_loop_that_was_cut_before_its_run_was_there(root: Path, tmp_path: Path) -> None:
    """The name is chosen and saved first: the run is submitted under it, and no other."""
    tasks, checkpoint = tasks_file(tmp_path, "a"), tmp_path / "loop.json"
    checkpoint.write_text(json.dumps({"batch": 0, "run": "loop-0123", "tokens": 0, "signal": 0.0}))
    lines = run_example("trainer_loop.py", root, tasks, 1, checkpoint)
    assert [(run, [group for group, _ in groups]) for run, groups in groups_told(lines).items()] == [("loop-0123", ["a"])]
    assert [path.name for path in tmp_path.glob("loop*")] == ["loop.json"]


def test_the_raw_loop_says_that_it_needs_keys(tmp_path: Path) -> None:
    """Nobody would answer it without: at once, in one line."""
    (tmp_path / "service.json").write_text('{"control": "tcp://127.0.0.1:1"}')
    command = [sys.executable, str(EXAMPLES / "trainer_loop_raw.py"), str(tmp_path), str(tasks_file(tmp_path, "a")), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("tcp://127.0.0.1:1 is for those who have keys: ")


def test_the_loop_with_zmq_and_msgpack_alone(root: Path, tmp_path: Path) -> None:
    """The same from another machine: an address, and the two keys that a trainer is given. As often as one likes."""
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in (CLIENT_SECRET, SERVER_PUBLIC):
        (keys / name).write_bytes((root.parent / "keys" / name).read_bytes())
    control = json.loads(ServiceDir(root).service_file.read_bytes())["control"]
    told = groups_told(run_example("trainer_loop_raw.py", control, tasks_file(tmp_path, "a", "b"), 2, keys))
    assert [[group for group, _ in groups] for groups in told.values()] == [["a", "b"], ["a", "b"]]
    assert versions_of(root, list(told)[1]) == {"raw-step-1"}
    told = groups_told(run_example("trainer_loop_raw.py", root, tasks_file(tmp_path, "a"), 1, keys))
    assert list(told.values()) == [[("a", "raw-step-2")]]


@pytest.mark.parametrize("name", ["trainer_loop.py", "trainer_loop_raw.py"])
def test_the_loops_are_short(name: str) -> None:
    """Under 100 lines; the raw one imports nothing of this project."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert text.count("\n") < 100
    assert ("legato_rl import" in text) == (name == "trainer_loop.py")
    assert f"`python docs/examples/{name} svc docs/examples/tasks.json 2`" in text.partition("\n")[0]
    assert (EXAMPLES / "tasks.json").exists()
