"""Is a task that would reach for files of the service's machine refused when it is submitted?"""

from __future__ import annotations

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
