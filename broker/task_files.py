"""Which files beside its rollout's own would a submitted task write or read on this machine? PURE: OSWorld's words for them.

OSWorld puts what a task fetches, and what its commands print, below the folder of the rollout, under names of the task's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

NAMES = frozenset({"dest", "stdout", "stderr"})
"""Where a getter or a setup step takes the name of a file below the rollout's folder, or a list of them."""


def strays(part: Any) -> Iterator[str]:
    """The names in a part of a task that lead out of the rollout's folder, or are none."""
    if isinstance(part, list):
        for inner in part:
            yield from strays(inner)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in NAMES or (key == "path" and part.get("type") == "cache_file"):
                names = value if isinstance(value, list) else [value]
                yield from (str(name) for name in names if not _inside(name))
            elif key != "rules":
                # What a metric compares with is text, and names no file.
                yield from strays(value)


def _inside(name: Any) -> bool:
    if name is None:
        return True
    if not isinstance(name, str) or "\0" in name:
        return False
    return not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
