"""Which files of the worker's machine may a task bring into its desktop? DISK: those of OSWorld and of its own rollout.

A setup step `upload_file` puts a file of the worker's machine on the desktop, and others read settings from one. Tasks
come from trainers too, which may be on another machine and have no right to this one's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KEYS = frozenset({"local_path", "settings_file"})
"""Where OSWorld's setup steps and getters take a path of the worker's machine."""
TASKS = "evaluation_examples"
"""OSWorld's folder of tasks and their files, which its own tasks name from the working folder."""


def outside(part: Any, folders: Iterable[Path]) -> Iterator[str]:
    """The paths of this machine that a part of a task names and that lie neither in `folders` nor in TASKS, links followed."""
    allowed = [Path(TASKS).resolve(), *(folder.resolve() for folder in folders)]
    for named in _named(part):
        if not isinstance(named, str) or not _within(named, allowed):
            yield str(named)


def _within(path: str, allowed: list[Path]) -> bool:
    try:
        found = Path(path).resolve()
    except (ValueError, OSError, RuntimeError):
        return False
    return any(found.is_relative_to(folder) for folder in allowed)


def _named(part: Any) -> Iterator[Any]:
    if isinstance(part, list):
        for inner in part:
            yield from _named(inner)
    elif isinstance(part, dict):
        for key, inner in part.items():
            if key in KEYS:
                yield inner
            else:
                yield from _named(inner)
