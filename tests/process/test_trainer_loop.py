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
from whole_services import serving

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


def versions_of(root: Path, run: str) -> set[str]:
    """The policy versions of all steps of a run, whose accounts are good."""
    rows = check_accounts(ServiceDir(root).runs / run)
    return {step["model"]["version"] for row in rows for step in row["steps"]}


def test_the_loop_trains_on_each_group_as_it_closes(root: Path, tmp_path: Path) -> None:
    """Two batches of two groups: each told once; the second is sampled from the version that the first one made."""
    lines = run_example("trainer_loop.py", root, tasks_file(tmp_path, "a", "b"), 2)
    groups = sorted(re.findall(r"^(batch-\d \w): rewards \[[\d., ]+\], sampled from (\S+)$", "\n".join(lines), re.MULTILINE))
    assert groups == [("batch-0 a", "v1"), ("batch-0 b", "v1"), ("batch-1 a", "step-1"), ("batch-1 b", "step-1")]
    weights = [line for line in lines if line.startswith("weights ")]
    assert [line.split(":")[0] for line in weights] == ["weights step-1", "weights step-2"]
    assert (versions_of(root, "batch-0"), versions_of(root, "batch-1")) == ({"v1"}, {"step-1"})


def test_the_loop_with_zmq_and_msgpack_alone(root: Path, tmp_path: Path) -> None:
    """The same from another machine: an address, and the two keys that a trainer is given."""
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in (CLIENT_SECRET, SERVER_PUBLIC):
        (keys / name).write_bytes((root.parent / "keys" / name).read_bytes())
    control = json.loads(ServiceDir(root).service_file.read_bytes())["control"]
    lines = run_example("trainer_loop_raw.py", control, tasks_file(tmp_path, "a", "b"), 2, keys)
    assert sorted(line.partition(":")[0] for line in lines) == ["raw-0 a", "raw-0 b", "raw-1 a", "raw-1 b"]
    assert versions_of(root, "raw-1") == {"raw-step-1"}


@pytest.mark.parametrize("name", ["trainer_loop.py", "trainer_loop_raw.py"])
def test_the_loops_are_short(name: str) -> None:
    """Under 100 lines; the raw one imports nothing of this project."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert text.count("\n") < 100
    assert ("legato_rl import" in text) == (name == "trainer_loop.py")
