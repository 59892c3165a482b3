"""Is a run's folder made whole, or taken back as if nothing had been? Real folders."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from worker_scene import run_file

from legato_rl.errors import ConfigError
from legato_rl.run.prepare import check_backend, claim_folder, release_folder, sockets_folder, write_run
from legato_rl.rundir import TaskSpec

SETTINGS = run_file(Path("/x")).settings
TASKS = [TaskSpec(task_id="t", group_id="t", domain=None, config={"id": "t"}, max_steps=5)]


def test_a_run_folder_is_private(tmp_path: Path) -> None:
    """It and what is in it belong to the user alone; parents are made."""
    folder = claim_folder(tmp_path / "runs" / "step-1")
    run = write_run(folder, SETTINGS, TASKS, {"engine": "x"}, tmp_path)
    assert [path.stat().st_mode & 0o077 for path in (folder.root, folder.images, folder.messages, folder.logs)] == [0] * 4
    assert folder.load_run() == run
    assert folder.load_tasks() == TASKS


@pytest.mark.parametrize("existed", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_a_folder_is_taken_back(tmp_path: Path, existed: bool, written: bool) -> None:
    """Where nothing was started nothing is left, however far the preparation came."""
    out = tmp_path / "run"
    if existed:
        out.mkdir()
    folder = claim_folder(out)
    (folder.logs / "fake-policy.log").write_text("x")
    if written:
        write_run(folder, SETTINGS, TASKS, {}, tmp_path)
    release_folder(folder, existed)
    assert out.exists() == existed
    assert not existed or list(out.iterdir()) == []


@pytest.mark.parametrize("name", ["a ;b", "a #b", "a\nb"])
def test_a_path_that_supervisord_cannot_read(tmp_path: Path, name: str) -> None:
    """Said in a sentence before anything is written."""
    folder = claim_folder(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be used: supervisord reads none with"):
        write_run(folder, SETTINGS, TASKS, {}, tmp_path)
    release_folder(folder, False)
    assert list(tmp_path.iterdir()) == []


def test_an_out_that_cannot_be_used(tmp_path: Path) -> None:
    """A file, a folder that holds something, a run, a place that cannot be written: a sentence each, nothing touched."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match="it is a file; name a new or empty folder"):
        claim_folder(tmp_path / "file")
    with pytest.raises(ConfigError, match="it is not empty, and a run is never overwritten"):
        claim_folder(tmp_path / "full")
    with pytest.raises(ConfigError, match="it holds a run, and a run is never overwritten"):
        claim_folder(tmp_path / "run")
    with pytest.raises(ConfigError, match="Not a directory; name a folder that can be written"):
        claim_folder(tmp_path / "file" / "run")
    with pytest.raises(ConfigError, match="name a folder that can be written"):
        claim_folder(Path("/proc/run"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_the_socket_folder_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of a long name is passed over; what is made is private, and a socket can be bound there."""
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    folder = sockets_folder()
    assert not folder.is_relative_to(long)
    assert folder.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "supervisor"))
    os.unlink(folder / "supervisor")
    folder.rmdir()


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("nonsense", "backend is 'nonsense': it must be osworld, container, fake or package.module:Class"),
        ("no.such.module:X", "backend is 'no.such.module:X': No module named 'no'; install it or correct the name"),
        ("json:X", "backend is 'json:X': json has no class X; correct the name"),
        (
            "json:JSONDecoder",
            "backend is 'json:JSONDecoder': JSONDecoder lacks the method reset of the Desktop protocol; "
            "add it (docs/desktops.md)",
        ),
        ("broken_at_import:X", "backend is 'broken_at_import:X': importing it fails with ZeroDivisionError: division by zero"),
        (
            "osworld",
            f"osworld is missing: name an OSWorld checkout, install desktop-env beside {sys.executable}, "
            "or use another backend such as fake",
        ),
    ],
)
def test_a_backend_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, said: str) -> None:
    """Looked at in a process of its own; whatever it does there is a sentence here."""
    (tmp_path / "broken_at_import.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    desktop = SETTINGS.desktop.model_copy(update={"backend": backend})
    with pytest.raises(ConfigError) as error:
        check_backend(SETTINGS.model_copy(update={"desktop": desktop}), TASKS)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (None, "vm is missing: name the file of OSWorld's VM image"),
        ("no.qcow2", "vm is 'no.qcow2': there is no such file; name OSWorld's VM image"),
    ],
)
def test_a_vm_without_its_image(monkeypatch: pytest.MonkeyPatch, path: str | None, said: str) -> None:
    """Said before anything boots, where OSWorld itself is there."""
    monkeypatch.setattr("legato_rl.run.prepare.ask_workers", lambda *args, **kwargs: '{"faults": [], "drive": [], "proxy": []}')
    desktop = SETTINGS.desktop.model_copy(update={"backend": "osworld", "path_to_vm": path and Path(path)})
    with pytest.raises(ConfigError, match=said):
        check_backend(SETTINGS.model_copy(update={"desktop": desktop}), TASKS)


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    """One that is not there, and one that lacks this package."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    said = {
        tmp_path / "none": "No such file or directory; name a Python interpreter",
        bare: "No module named 'legato_rl'.*; install this package there too",
    }
    for python, sentence in said.items():
        desktop = SETTINGS.desktop.model_copy(update={"backend": "container", "osworld_python": python})
        with pytest.raises(ConfigError, match=f"osworld-python is '{python}': .*{sentence}"):
            check_backend(SETTINGS.model_copy(update={"desktop": desktop}), TASKS)
