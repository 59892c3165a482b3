"""Which names in a task lead out of the folder of its rollout?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.broker.task_files import strays


def getter(**fields: Any) -> dict[str, Any]:
    """A task whose evaluator fetches a file."""
    return {"evaluator": {"func": "f", "result": {"type": "vm_file", "path": "/home/user/x", **fields}}}


def step(**parameters: Any) -> dict[str, Any]:
    """A task that runs a command before its evaluation."""
    return {"evaluator": {"func": "f", "postconfig": [{"type": "execute", "parameters": parameters}]}}


@pytest.mark.parametrize(
    ("task", "found"),
    [
        (getter(dest="x.png"), []),
        (getter(dest="folder/x.png"), []),
        (getter(dest=["a", "../b", "/c"], multi=True), ["../b", "/c"]),
        (getter(dest="/home/me/.ssh/authorized_keys"), ["/home/me/.ssh/authorized_keys"]),
        (getter(dest="a/../../x"), ["a/../../x"]),
        (getter(dest=3), ["3"]),
        (getter(dest={"x": "y"}), ["{'x': 'y'}"]),
        (getter(dest="a\0b"), ["a\0b"]),
        (getter(dest=None), []),
        (getter(type="cache_file", path="../other/x"), ["../other/x"]),
        (getter(type="cache_file", path="x"), []),
        (step(command="ls", stdout="out.txt", stderr="../err"), ["../err"]),
        (step(command="cat ../x > /y"), []),
        (getter(type="rule", rules={"stdout": "/home/user\n"}), []),
        ({"config": [{"type": "download", "parameters": {"files": [{"url": "http://x/..", "path": "/home/user/x"}]}}]}, []),
        ({"config": [{"type": "execute", "parameters": {"command": "ls", "stdout": "/x"}}]}, ["/x"]),
    ],
)
def test_names_that_lead_out(task: dict[str, Any], found: list[str]) -> None:
    """Absolute ones, those with `..`, and what is no name at all; paths of the guest are the task's own affair."""
    assert list(strays(task)) == found


KEYS = st.sampled_from(["dest", "path", "type", "x"])
JSON = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))


@given(JSON)
def test_any_json_can_be_looked_at(value: Any) -> None:
    """What trainers send may be of any shape."""
    assert all(isinstance(name, str) for name in strays(value))
