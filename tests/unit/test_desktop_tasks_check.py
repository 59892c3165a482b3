"""What is said of a task that this OSWorld cannot run?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from legato_rl.workers.desktop.tasks_check import Names, check, faults


def there(*args: Any) -> None:
    """Something that OSWorld has."""


NAMES = Names(
    SimpleNamespace(
        metrics=SimpleNamespace(exact_match=there, infeasible=there, data=3),
        getters=SimpleNamespace(get_rule=there, get_vm_file=there, get_cache_file=there),
        SetupController=SimpleNamespace(_launch_setup=there, _execute_setup=there, _googledrive_setup=there),
    )
)
RULE = {"type": "rule"}


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        ({"func": "exact_match", "result": RULE, "expected": RULE}, []),
        ({"func": "infeasible"}, []),
        ({"func": ["exact_match"] * 2, "result": [RULE] * 2, "expected": [RULE, None], "conj": "or"}, []),
        ({"func": "none"}, ["its evaluator function 'none' is not in this OSWorld"]),
        ({"func": "data"}, ["its evaluator function 'data' is not in this OSWorld"]),
        ({"func": ["exact_match", "infeasible"]}, ["its evaluator has 'infeasible' in a list, where it cannot be"]),
        ({"func": ["exact_match"] * 2, "result": [RULE]}, ["its evaluator has 2 functions and 1 of result"]),
        ({"func": ["exact_match"], "options": [{}, {}]}, ["its evaluator has 1 functions and 2 of options"]),
        ({"func": ["exact_match"], "conj": "xor"}, ["its evaluator's conj is 'xor': it must be and, or or"]),
        ({"func": "exact_match", "result": {"type": "x"}}, ["its getter 'x' is not in this OSWorld"]),
        (
            {"func": "exact_match", "result": {"type": "vm_file", "dest": "../x"}},
            ["its file name '../x' leads out of the rollout's folder"],
        ),
        (
            {"func": "exact_match", "result": {"type": "cache_file", "path": "/etc/passwd"}},
            ["its file name '/etc/passwd' leads out of the rollout's folder"],
        ),
        (
            {"func": "exact_match", "postconfig": [{"type": "execute", "parameters": {"stdout": "../x"}}]},
            ["its file name '../x' leads out of the rollout's folder"],
        ),
        ({"func": "exact_match", "postconfig": [{"type": "dance"}]}, ["its setup step 'dance' is not in this OSWorld"]),
    ],
)
def test_a_task(evaluator: dict[str, Any], said: list[str]) -> None:
    """Functions, getters, steps, lengths and file names."""
    assert list(faults({"evaluator": evaluator}, NAMES)) == said


def test_a_list_of_tasks() -> None:
    """Each fault with its task; Google Drive and proxies apart, since only the user can give them."""
    drive = {"config": [{"type": "googledrive"}], "evaluator": {"func": "exact_match"}, "proxy": True}
    bad = {"evaluator": {"func": "none"}}
    entries = [{"task_id": "a", "domain": "os", "config": drive}, {"task_id": "b", "domain": None, "config": bad}]
    assert check(entries, NAMES) == {
        "faults": [{"task": "b", "fault": "its evaluator function 'none' is not in this OSWorld"}],
        "drive": ["os/a"],
        "proxy": ["os/a"],
    }
