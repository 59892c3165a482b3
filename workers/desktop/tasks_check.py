"""Can this OSWorld run these tasks? Looked at in the workers' own interpreter, before anything boots.

`python -m legato_rl.workers.desktop.tasks_check [CHECKOUT]` reads a JSON list of `{"task_id", "domain", "config"}` from
its standard input and writes `{"faults": […], "drive": […], "proxy": […]}`: what cannot run and why, which tasks need
Google Drive, which ask for a proxy. Exit code 2 and a sentence where OSWorld itself cannot be imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from legato_rl.config import DesktopConfig
from legato_rl.errors import ConfigError
from legato_rl.host_files import outside
from legato_rl.workers.desktop.env import import_osworld, own_folders

DRIVE = frozenset({"googledrive", "login"})
"""Setup steps that need real Google credentials."""
LISTS = ("result", "expected", "options")


class Names:
    """What an OSWorld has: metrics, getters, setup steps, and the folders of its own files."""

    def __init__(self, module: Any, folders: Sequence[Path] = ()) -> None:
        self._module = module
        self._folders = folders

    def metric(self, name: str) -> bool:
        """Whether there is such an evaluator function."""
        return callable(getattr(self._module.metrics, name, None))

    def getter(self, name: str) -> bool:
        """Whether there is such a getter."""
        return callable(getattr(self._module.getters, f"get_{name}", None))

    def step(self, name: str) -> bool:
        """Whether there is such a setup step."""
        return callable(getattr(self._module.SetupController, f"_{name}_setup", None))

    def strangers(self, task: dict[str, Any]) -> Iterator[str]:
        """The files of this machine that a task names and that are not OSWorld's."""
        return outside(task, self._folders)


def faults(task: dict[str, Any], names: Names) -> Iterator[str]:
    """What keeps an OSWorld task from running, in the words of a sentence's end."""
    evaluator = task["evaluator"]
    funcs = evaluator["func"]
    listed = funcs if isinstance(funcs, list) else [funcs]
    for func in dict.fromkeys(listed):
        if not names.metric(func):
            yield f"its evaluator function {func!r} is not in this OSWorld"
    if isinstance(funcs, list):
        if "infeasible" in listed:
            yield "its evaluator has 'infeasible' in a list, where it cannot be"
        for part in LISTS:
            if part in evaluator and isinstance(evaluator[part], list) and 0 < len(evaluator[part]) != len(listed):
                yield f"its evaluator has {len(listed)} functions and {len(evaluator[part])} of {part}"
        if evaluator.get("conj", "and") not in ("and", "or"):
            yield f"its evaluator's conj is {evaluator['conj']!r}: it must be and, or or"
    for part in ("result", "expected"):
        states = evaluator.get(part) or []
        for state in states if isinstance(states, list) else [states]:
            if state and not names.getter(state["type"]):
                yield f"its getter {state['type']!r} is not in this OSWorld"
            for name in _files(state or {}):
                yield f"its file name {name!r} leads out of the rollout's folder"
    for step in steps(task):
        if not names.step(step["type"]):
            yield f"its setup step {step['type']!r} is not in this OSWorld"
        for key in ("stdout", "stderr"):
            name = step.get("parameters", {}).get(key, "")
            if not _inside(name):
                yield f"its file name {name!r} leads out of the rollout's folder"
    for path in names.strangers(task):
        yield f"its file {path!r} of this machine is not one of the OSWorld checkout"


def steps(task: dict[str, Any]) -> list[dict[str, Any]]:
    """All setup steps of a task, those before its evaluation included."""
    return [*task.get("config", []), *task["evaluator"].get("postconfig", [])]


def _files(state: dict[str, Any]) -> list[str]:
    """The names below the rollout's folder that a getter writes or reads and that lead out of it."""
    names = state.get("dest", [])
    names = [*names] if isinstance(names, list) else [names]
    if state.get("type") == "cache_file":
        names.append(state.get("path", ""))
    return [name for name in names if not _inside(name)]


def _inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def check(entries: list[dict[str, Any]], names: Names) -> dict[str, list[Any]]:
    """What is to be said about a list of tasks."""
    found: dict[str, list[Any]] = {"faults": [], "drive": [], "proxy": []}
    for entry in entries:
        task, label = entry["config"], "/".join(filter(None, (entry.get("domain"), entry["task_id"])))
        found["faults"] += [{"task": label, "fault": fault} for fault in faults(task, names)]
        if any(step["type"] in DRIVE for step in steps(task)):
            found["drive"].append(label)
        if task.get("proxy"):
            found["proxy"].append(label)
    return found


def main() -> None:
    """The command above."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    # What OSWorld prints while it is imported is not part of the answer.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        module = import_osworld(DesktopConfig(osworld_path=path))
    except ConfigError as error:
        print(error, file=out)
        sys.exit(error.exit_code)
    print(json.dumps(check(json.load(sys.stdin), Names(module, own_folders(module, path)))), file=out)


if __name__ == "__main__":
    main()
