"""Which files of this machine may a task bring into its desktop?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legato_rl.desktop import DesktopFailure
from legato_rl.host_files import outside
from legato_rl.workers.desktop.env import trusted
from legato_rl.workers.desktop.tasks_check import Names, faults
from legato_rl.workers.desktop.watch import Watch


def upload(path: object) -> dict[str, Any]:
    """A setup step that brings a file of this machine."""
    return {"type": "upload_file", "parameters": {"files": [{"local_path": path, "path": "/home/user/x"}]}}


def login(path: object) -> dict[str, Any]:
    """A setup step that types what a file of this machine holds."""
    return {"type": "login", "parameters": {"config": {"settings_file": path}}}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a file, beside it a secret, and in it links to both; somewhere else is the working folder."""
    for folder in ("checkout", "work/evaluation_examples"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("checkout/given.png", "secret"):
        (tmp_path / name).write_text(name)
    (tmp_path / "checkout" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "checkout" / "fair").symlink_to(tmp_path / "checkout" / "given.png")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "checkout"


@pytest.mark.parametrize("step", [upload, login])
@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("{checkout}/given.png", True),
        ("{checkout}/fair", True),
        ("../checkout/given.png", True),
        ("evaluation_examples/settings.yml", True),
        ("{checkout}/../secret", False),
        ("{checkout}/link", False),
        ("{checkout}x/given.png", False),
        ("evaluation_examples/../../secret", False),
        ("/etc/passwd", False),
        ("secret", False),
        ("\0", False),
    ],
)
def test_a_file_of_this_machine(checkout: Path, step: Any, name: str, may: bool) -> None:
    """Of the checkout and of its tasks' folder only, by whatever way it is named; in a setup step wherever it stands."""
    path = name.format(checkout=checkout)
    names = Names(None, [checkout])
    for task in ({"config": [step(path)]}, {"evaluator": {"postconfig": [step(path)]}}):
        assert list(outside(task, [checkout])) == ([] if may else [path])
    assert may or list(names.strangers({"config": [step(path)]})) == [path]


def test_a_file_that_is_open_already(checkout: Path) -> None:
    """Python opens a number as a descriptor of this process: it is no path."""
    assert list(outside({"config": [upload(3), upload(True), upload(None)]}, [checkout])) == ["3", "True", "None"]


def test_a_desktop_takes_no_such_task(checkout: Path) -> None:
    """A trainer's own task is looked at where it begins, before anything is done; the cache of its rollout is its own."""
    begun: list[Any] = []

    class Env:
        cache_dir_base = str(checkout.parent / "cache")

        def reset(self, task_config: Any = None) -> None:
            begun.append(task_config)
            raise InterruptedError

    env = trusted(Env, Watch(), [checkout])()
    with pytest.raises(DesktopFailure, match=r"the task names '/etc/passwd': .* only of the OSWorld checkout") as failed:
        env.reset(task_config={"config": [upload("/etc/passwd")]})
    assert (failed.value.type, begun) == ("host_file", [])
    for mine in (f"{env.cache_dir_base}/x", f"{checkout}/given.png"):
        with pytest.raises(InterruptedError):
            env.reset(task_config={"config": [upload(mine)]})
    assert len(begun) == 2


def test_a_batch_is_refused_before_it_starts(checkout: Path) -> None:
    """With the file's name."""
    osworld = SimpleNamespace(
        metrics=SimpleNamespace(infeasible=print), SetupController=SimpleNamespace(_upload_file_setup=print)
    )
    task = {"config": [upload("/etc/passwd")], "evaluator": {"func": "infeasible"}}
    said = "its file '/etc/passwd' of this machine is not one of the OSWorld checkout"
    assert list(faults(task, Names(osworld, [checkout]))) == [said]
