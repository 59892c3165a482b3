"""Where does an export go? To a file that appears whole or not at all, or to standard output. DISK."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from legato_rl.errors import ConfigError
from legato_rl.rundir import RunDir, sync_folder

Write = Callable[[bytes], object]


@contextmanager
def open_output(run: RunDir, out: str | Path, overwrite: bool = False) -> Iterator[Write]:
    """Gives the function that writes to `out`: `-` is standard output, what is no regular file (a pipe) is written to.

    A file is written beside its place and renamed to it when the block ends well. ConfigError where it cannot be made,
    where it is one of the run's own files, or where it is there already, unless `overwrite` lets it be replaced.
    """
    if str(out) == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    path = Path(out).resolve()
    _refuse_own(run, path, out)
    if path.exists() and not path.is_file():
        with _checked(out):
            file = path.open("wb")
        with file:
            yield file.write
        return
    if path.exists() and not overwrite:
        raise ConfigError(f"out is {str(out)!r}: the file exists; name another, or have it replaced (--overwrite)")

    def write(data: bytes) -> None:
        with _checked(out):
            file.write(data)

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _checked(out):
        file = temporary.open("wb")
    try:
        with file:
            yield write
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def _checked(out: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"out is {str(out)!r}: it cannot be written ({error.strerror})") from None


def _refuse_own(run: RunDir, path: Path, out: str | Path) -> None:
    """An export must not take the place of what it is made from."""
    files = (
        *(run.run_file, run.tasks, run.rollouts, run.desktop_events, run.summary, run.end),
        *(run.lock, run.command_lock, run.supervisord_conf),
    )
    folders = (run.images, run.messages, run.logs)
    if path in {file.resolve() for file in files} or path.parent in {folder.resolve() for folder in folders}:
        raise ConfigError(f"out is {str(out)!r}: that is the run's own, so name another file")
