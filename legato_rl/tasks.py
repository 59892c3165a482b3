"""What are the tasks? Reads a tasks file (or a list), looks OSWorld tasks up, and refuses what could not run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from legato_rl.bad_input import json_fault, json_kind, told
from legato_rl.canonical import plain_fault
from legato_rl.errors import ConfigError, TaskError
from legato_rl.records import is_id
from legato_rl.rundir import TaskSpec

LAYOUTS = ("evaluation_examples/examples", "examples")
"""Where a checkout (or a copy of its task files) keeps `<domain>/<task_id>.json`."""

FIELDS = frozenset({"task_id", "domain", "config", "group_id", "max_steps", "meta"})


def read_tasks(source: str) -> Any:
    """The JSON value of a tasks file; `-` is stdin. TaskError where it cannot be read, is no JSON or says a thing twice."""
    name = "stdin" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=partial(_once, name))
    except OSError as error:
        raise TaskError(f"tasks is {name!r}: {error.strerror or error}; name a file that can be read") from None
    except (ValueError, RecursionError) as error:
        raise TaskError(f"tasks is {name!r}: it is no JSON ({json_fault(error)}); it must hold a list of tasks") from None


def _once(source: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these fields. json would take the last of two of a name without a word."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise TaskError(f"tasks is {source!r}: {told(twice)} comes twice in one object; leave one of them out")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def resolve_tasks(tasks: Any, osworld_path: Path | None, max_steps: int) -> list[TaskSpec]:
    """The groups of a run, one per entry of `tasks`, in order. TaskError, naming the entry, for the first that is wrong.

    An entry is `{"task_id", "domain"}` (an OSWorld task file below `osworld_path`) or `{"task_id", "config"}` (the task
    itself), and may carry `group_id`, `max_steps` and `meta`. A task may come more than once under its own group_ids.
    """
    if not isinstance(tasks, list):
        raise TaskError(f"tasks holds {json_kind(tasks)}: it must hold a list of tasks")
    if not tasks:
        raise TaskError("tasks is an empty list: name at least one task")
    if osworld_path is not None:
        find_examples(osworld_path)
    specs: list[TaskSpec] = []
    places: dict[str, int] = {}
    for i, entry in enumerate(tasks):
        spec = _resolve(f"tasks[{i}]", entry, osworld_path, max_steps)
        if spec.group_id in places:
            raise TaskError(
                f"tasks[{i}]: the group_id {spec.group_id!r} is that of tasks[{places[spec.group_id]}] too: "
                "give each its own group_id"
            )
        places[spec.group_id] = i
        specs.append(spec)
    return specs


def _resolve(where: str, entry: Any, osworld_path: Path | None, max_steps: int) -> TaskSpec:
    if not isinstance(entry, dict):
        raise TaskError(f"{where} is {json_kind(entry)}: it must be an object with a task_id")
    unknown = sorted(entry.keys() - FIELDS)
    if unknown:
        raise TaskError(f"{where}.{unknown[0]} is no field of a task: use {', '.join(sorted(FIELDS))}")
    task_id = _id(where, "task_id", entry.get("task_id"))
    group_id = _id(where, "group_id", entry.get("group_id", task_id))
    steps = entry.get("max_steps", max_steps)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise TaskError(f"{where}.max_steps is {steps!r}: it must be a whole number from 1")
    domain = entry.get("domain")
    if domain is not None and not is_id(domain):
        raise TaskError(f"{where}.domain is {domain!r}: it must be a plain name such as chrome")
    if "config" in entry:
        config = entry["config"]
    elif domain is not None:
        config = _look_up(where, task_id, domain, osworld_path)
    else:
        raise TaskError(f"{where} has neither domain nor config: give one of them")
    for field, value in (("config", config), ("meta", entry.get("meta"))):
        fault = plain_fault(value)
        if fault:
            raise TaskError(f"{where}.{field} holds what cannot be sent: {fault}; use plain JSON values")
    return TaskSpec(
        task_id=task_id,
        group_id=group_id,
        domain=domain,
        config=_check_config(f"{where}.config", task_id, config),
        max_steps=steps,
        meta=entry.get("meta"),
    )


def _id(where: str, field: str, value: Any) -> str:
    if not is_id(value):
        raise TaskError(
            f"{where}.{field} is {value!r}: it must be 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit"
        )
    return str(value)


def _look_up(where: str, task_id: str, domain: str, osworld_path: Path | None) -> Any:
    if osworld_path is None:
        raise TaskError(f"{where} names the domain {domain!r} and no config: say with osworld where OSWorld's tasks are")
    examples = find_examples(osworld_path)
    if not (examples / domain).is_dir():
        known = ", ".join(sorted(entry.name for entry in examples.iterdir() if entry.is_dir()))
        raise TaskError(f"{where}.domain is {domain!r}: the domains under {examples} are {known}")
    path = examples / domain / f"{task_id}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaskError(f"{where}.task_id is {task_id!r}: there is no {path}") from None
    except OSError as error:
        raise TaskError(f"{where}.task_id is {task_id!r}: {path} cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where}.task_id is {task_id!r}: {path} is no JSON ({json_fault(error)})") from None


def find_examples(osworld_path: Path) -> Path:
    """The folder of task files in an OSWorld checkout. ConfigError where there is none."""
    if not osworld_path.is_dir():
        raise ConfigError(f"osworld is {str(osworld_path)!r}: there is no such folder; name an OSWorld checkout")
    for layout in LAYOUTS:
        if (osworld_path / layout).is_dir():
            return osworld_path / layout
    raise ConfigError(f"osworld is {str(osworld_path)!r}: it has no {LAYOUTS[0]}; name an OSWorld checkout")


def _check_config(where: str, task_id: str, config: Any) -> dict[str, Any]:
    """What every desktop needs of an OSWorld task: an instruction and an evaluator that names its functions."""
    if not isinstance(config, dict):
        raise TaskError(f"{where} is {json_kind(config)}: it must be an OSWorld task (instruction, evaluator …)")
    instruction = config.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise TaskError(f"{where}.instruction is {instruction!r}: it must say what to do")
    evaluator = config.get("evaluator")
    if not isinstance(evaluator, dict):
        raise TaskError(f"{where}.evaluator is {evaluator!r}: it must be an object with a func")
    func = evaluator.get("func")
    names = func if isinstance(func, list) else [func]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TaskError(f"{where}.evaluator.func is {func!r}: it must name a function, or a list of them")
    setup = config.get("config", [])
    if not isinstance(setup, list) or not all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in setup):
        raise TaskError(f"{where}.config is {str(setup)[:60]!r}: it must be a list of setup steps, each with a type")
    if config.get("id", task_id) != task_id:
        raise TaskError(f"{where}.id is {config['id']!r}: it must be the task_id {task_id!r}, or be left out")
    return {"id": task_id, **config}


def task_list(tasks: str | Path | Iterable[dict[str, Any]]) -> Any:
    """The tasks value of whatever a Python caller gives: a path, `-`, or the entries themselves."""
    if isinstance(tasks, str | Path):
        return read_tasks(str(tasks))
    return list(tasks)
