"""Is a task that would reach for files of the service's machine refused when it is submitted?"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from control_scene import Service

from legato_rl.config import DesktopConfig
from legato_rl.errors import ConfigError
from legato_rl.wire import Submit


@pytest.fixture
def one(tmp_path: Path) -> Service:
    """A service whose desktops are OSWorld's."""
    one = Service(tmp_path)
    settings = one.control.service.settings.model_copy(update={"desktop": DesktopConfig(backend="container")})
    one.control.service = one.control.service.model_copy(update={"settings": settings})
    return one


def task(**result: Any) -> dict[str, Any]:
    """A task whose evaluator looks at a file."""
    evaluator = {"func": "f", "result": {"type": "vm_file", "path": "/home/user/x", **result}}
    return {"task_id": "t", "config": {"id": "t", "instruction": "do", "evaluator": evaluator}}


def test_a_task_that_writes_elsewhere_is_refused_and_leaves_nothing(one: Service) -> None:
    """No desktop ever has it, so none fails by it."""
    with pytest.raises(ConfigError, match=r"task 't' names the file '\.\./\.\./x': it would lie outside .* give a plain name"):
        one.ask(Submit(id="s", tasks=[task(dest="x"), {**task(dest="../../x"), "group_id": "u"}]))
    assert not list((one.root / "runs").glob("*"))
    assert one.ask(Submit(id="s", tasks=[task(dest="x")])).run


def test_what_a_task_of_another_backend_means_is_its_own_affair(tmp_path: Path) -> None:
    """Its words are not OSWorld's."""
    assert Service(tmp_path).ask(Submit(id="s", tasks=[task(dest="/x")])).run


def brings(path: object, key: str = "local_path") -> dict[str, Any]:
    """A task that puts a file of the service's machine on its desktop."""
    return {**task(), "config": {**task()["config"], "config": [{"type": "x", "parameters": {"files": [{key: path}]}}]}}


def with_checkout(one: Service, checkout: Path | None) -> None:
    """Have the service's OSWorld there."""
    if checkout:
        (checkout / "evaluation_examples" / "examples").mkdir(parents=True, exist_ok=True)
    made = one.control.service
    desktop = made.settings.desktop.model_copy(update={"osworld_path": checkout})
    one.control.service = made.model_copy(update={"settings": made.settings.model_copy(update={"desktop": desktop})})


@pytest.mark.parametrize("key", ["local_path", "settings_file"])
@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "{root}/secret", "secret", "evaluation_examples/../secret", "{root}/osworld/../secret", "\0", 3, None],
)
def test_a_task_that_brings_a_file_of_the_machine_is_refused(one: Service, key: str, path: object) -> None:
    """Before a desktop has it: one that failed by it would be held to be broken."""
    with_checkout(one, one.root / "osworld")
    path = path.format(root=one.root) if isinstance(path, str) else path
    said = (
        rf"^task 't' names the file {re.escape(repr(str(path)))} of the service's machine: it may be only of the OSWorld "
        r"checkout \(--osworld\); leave it out, or give a path below evaluation_examples/$"
    )
    with pytest.raises(ConfigError, match=said):
        one.ask(Submit(id="s", tasks=[brings(path, key)]))
    assert not list((one.root / "runs").glob("*"))


@pytest.mark.parametrize("key", ["local_path", "settings_file"])
@pytest.mark.parametrize(
    "path",
    [
        "evaluation_examples/settings/googledrive/settings.yml",
        "./evaluation_examples/settings/google/settings.json",
        "{root}/osworld/assets/given.png",
        "{root}/alias/assets/given.png",
        "{root}/python/site-packages/desktop_env/given.png",
    ],
)
def test_a_task_that_brings_a_file_of_osworld_is_taken(one: Service, key: str, path: str) -> None:
    """By whatever way it is named; what is of an installed OSWorld the workers know, whose Python that is."""
    (one.root / "alias").symlink_to("osworld")
    for number, checkout in enumerate([one.root / "osworld", Path(os.path.relpath(one.root / "osworld"))]):
        with_checkout(one, checkout)
        assert one.ask(Submit(id=f"s{number}", tasks=[brings(path.format(root=one.root), key)])).run


def test_without_a_checkout_osworld_s_own_tasks_are_taken(one: Service) -> None:
    """Their files are named from the working folder."""
    assert one.ask(Submit(id="s", tasks=[brings("evaluation_examples/settings/google/settings.json")])).run
    with pytest.raises(ConfigError, match="names the file '/etc/passwd' of the service's machine"):
        one.ask(Submit(id="t", tasks=[brings("/etc/passwd")]))
