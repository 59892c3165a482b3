"""May this task begin here? Not where it names files of this machine that are none of its own.

Who submits a task to a service, and who starts a run, is told before; this holds whatever was overlooked there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from legato_rl.desktop import DesktopFailure
from legato_rl.host_files import outside


def check(task: Any, folders: Iterable[Path]) -> None:
    """DesktopFailure for a task that names a file outside of `folders`."""
    for path in outside(task, folders):
        raise DesktopFailure(
            "host_file",
            f"the task names {path!r}: files of the worker's machine may be only of the OSWorld checkout (--osworld) or of "
            "the rollout's own cache",
        )
