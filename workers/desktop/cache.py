"""Where do a rollout's files lie? In a folder of its own, seeded with what other rollouts have downloaded.

OSWorld names its files by task alone: two rollouts of one task would grade each other's. What it downloads is named by
URL or by the task's own words; a shared copy of each URL is linked in before a rollout and kept after it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from legato_rl.workers.desktop.owners import gone, owner


def default_cache() -> Path:
    """Where downloads are kept unless something else is said."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl" / "osworld"


OWNED = ".owner"
"""The file in a desktop's folder that names the process whose it is, as `owners.owner` does."""


class Cache:
    """The files of one desktop below `root`; `name` is the desktop's.

    Wipes what an earlier one of its name left, and what processes that are gone left under any name.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._shared = root / "downloads"
        self._own = root / "desktops" / name
        self.folder = self._own
        """Where the present rollout's files lie."""
        self._seeded: dict[Path, tuple[int, int]] = {}
        self._files: dict[str, Path] = {}
        self._shared.mkdir(parents=True, exist_ok=True)
        self.delete()
        for named in (root / "desktops").glob(f"*/{OWNED}"):
            with suppress(OSError):
                if gone(named.read_text()):
                    # first out of the way: a new process of its name may come for the folder while it is deleted
                    doomed = named.parent.with_name(f".{named.parent.name}.{os.getpid()}")
                    named.parent.rename(doomed)
                    shutil.rmtree(doomed, ignore_errors=True)
        self._own.mkdir(parents=True)
        self._claim()

    def begin(self, rollout: str, task: dict[str, Any]) -> Path:
        """A fresh folder for a rollout, with links to what is known of `task`'s downloads; the last one's is deleted."""
        self.delete()
        self.folder = self._own / hashlib.sha256(rollout.encode()).hexdigest()[:16]
        files = self.folder / task["id"]
        files.mkdir(parents=True)
        self._claim()
        self._files = {url: files / name for url, name in downloads(task) if Path(name).name == name}
        for url, path in self._files.items():
            with suppress(FileNotFoundError, FileExistsError):
                os.link(self._shared / _name(url), path)
                self._seeded[path] = _stamp(path)
        return self.folder

    def _claim(self) -> None:
        (self._own / OWNED).write_text(owner())

    def keep(self) -> None:
        """What has been downloaded whole may be shared from now on. Call it when OSWorld's work on it ended well."""
        for url, path in self._files.items():
            if path not in self._seeded and path.is_file():
                new = self._shared / f".{_name(url)}.{os.getpid()}"
                new.unlink(missing_ok=True)
                os.link(path, new)
                new.replace(self._shared / _name(url))
                self._seeded[path] = _stamp(path)

    def delete(self) -> None:
        """Delete the rollout's folder. A shared file that was written through its link is dropped too."""
        for url, path in self._files.items():
            if path in self._seeded and (not path.is_file() or _stamp(path) != self._seeded[path]):
                (self._shared / _name(url)).unlink(missing_ok=True)
        self._seeded, self._files = {}, {}
        shutil.rmtree(self._own, ignore_errors=True)


def downloads(task: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The URLs that OSWorld downloads for a task, each with the name that it gives the file."""
    evaluator = task.get("evaluator", {})
    for step in [*task.get("config", []), *evaluator.get("postconfig", [])]:
        if step["type"] == "download":
            for file in step["parameters"]["files"]:
                yield file["url"], f"{uuid.uuid5(uuid.NAMESPACE_URL, file['url'])}_{os.path.basename(file['path'])}"
    for part in ("result", "expected"):
        states = evaluator.get(part) or []
        for state in states if isinstance(states, list) else [states]:
            if state and state.get("type") == "cloud_file":
                several = state.get("multi", False)
                yield from zip(
                    state["path"] if several else [state["path"]],
                    state["dest"] if several else [state["dest"]],
                    strict=False,
                )


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
