"""Is a folder as it was? A copy of it that nobody else can write, compared by content, and put back where it differs."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from .clock import now, sleep

TURN_S = 0.05
"""Seconds between two looks at a folder that is to come to rest."""


@dataclass(frozen=True)
class Entry:
    """One file, folder or link. `content` is a file's SHA-256 and a link's target."""

    kind: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    content: bytes
    attributes: tuple[tuple[str, bytes], ...]


KEPT = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
"""What can be kept: sockets and pipes are made by the programs that use them."""


def entries(root: str) -> Iterator[tuple[str, Entry]]:
    """Path from `root` and entry of `root` itself (`.`) and all below, folders before what is in them."""
    yield ".", read(root)
    folders = ["."]
    while folders:
        folder = folders.pop()
        try:
            inside = list(os.scandir(os.path.join(root, folder)))
        except FileNotFoundError:
            continue  # it went meanwhile, as temporary files do
        for found in inside:
            path = os.path.normpath(os.path.join(folder, found.name))
            try:
                entry = read(found.path)
            except FileNotFoundError:
                continue
            yield path, entry
            if entry.kind == stat.S_IFDIR:
                folders.append(path)


def read(path: str) -> Entry:
    """The entry at `path`."""
    seen = os.lstat(path)
    kind = stat.S_IFMT(seen.st_mode)
    content = b""
    if kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).digest()
    elif kind == stat.S_IFLNK:
        content = os.readlink(path).encode("utf-8", "surrogateescape")
    attributes: list[tuple[str, bytes]] = []
    with suppress(OSError):
        attributes = [
            (name, os.getxattr(path, name, follow_symlinks=False)) for name in os.listxattr(path, follow_symlinks=False)
        ]
    # a folder's time changes with what is in it, a link's is nobody's business
    mtime = seen.st_mtime_ns if kind == stat.S_IFREG else 0
    return Entry(kind, stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, mtime, content, tuple(sorted(attributes)))


class Tree:
    """The folder `root` as it is now. `store` is a folder of ours for the copy."""

    def __init__(self, root: str, store: str) -> None:
        self._root = root
        self._store = store
        shutil.rmtree(store, ignore_errors=True)
        self._entries = {path: entry for path, entry in entries(root) if entry.kind in KEPT}
        os.makedirs(store)
        for path, entry in self._entries.items():
            target = os.path.join(store, path)
            if entry.kind == stat.S_IFDIR:
                os.makedirs(target, exist_ok=True)
            elif entry.kind == stat.S_IFREG:
                shutil.copyfile(os.path.join(root, path), target)

    def __len__(self) -> int:
        return len(self._entries)

    def differences(self) -> list[str]:
        """Paths that were added, changed or removed, in order."""
        now = dict(entries(self._root))
        kept = self._entries
        return sorted(path for path in now.keys() | kept.keys() if now.get(path) != kept.get(path))

    def restore(self) -> list[str]:
        """Put back what differs; the paths that did. What cannot be put back still differs."""
        paths = self.differences()
        for path in paths:
            if path not in self._entries:
                with suppress(OSError):
                    remove(os.path.join(self._root, path))
        for path in paths:
            if path in self._entries:
                with suppress(OSError):
                    self._put_back(path, self._entries[path])
        return paths

    def _put_back(self, path: str, entry: Entry) -> None:
        target = os.path.join(self._root, path)
        kind = stat.S_IFMT(os.lstat(target).st_mode) if os.path.lexists(target) else 0
        if entry.kind == stat.S_IFDIR:
            if kind != stat.S_IFDIR:
                remove(target)
                os.mkdir(target)
        else:
            # a new file each time: a link elsewhere to the old one keeps the old content, and is none of ours
            remove(target)
            if entry.kind == stat.S_IFREG:
                shutil.copyfile(os.path.join(self._store, path), target)
            else:
                os.symlink(entry.content, target)
        os.chown(target, entry.uid, entry.gid, follow_symlinks=False)
        if entry.kind != stat.S_IFLNK:
            os.chmod(target, entry.mode)
            for name in os.listxattr(target):
                os.removexattr(target, name)
            for name, value in entry.attributes:
                os.setxattr(target, name, value)
        if entry.kind == stat.S_IFREG:
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))


def copy_at_rest(copy: Callable[[], Tree], what: str, deadline: float) -> Tree:
    """A folder as it was while nothing in it changed. `copy` makes a Tree of it, `what` is its name in an error.

    OSError, which names what changed last, where it has not come to rest by the deadline (of `now`). It is tried once anyway.
    """
    while True:
        try:
            tree = copy()
            changes = tree.differences()
        except OSError as error:  # it went while it was read
            changes = [str(error)]
        if not changes:
            return tree
        if now() >= deadline:
            raise OSError(f"{what} does not come to rest: {', '.join(changes[:5])}")
        sleep(TURN_S)


def remove(path: str) -> None:
    """Remove whatever is at `path`, if anything is."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def names(roots: tuple[str, ...]) -> set[str]:
    """Paths of all that is below `roots`."""
    found: set[str] = set()
    for root in roots:
        for folder, folders, files in os.walk(root):
            found.update(os.path.join(folder, name) for name in (*folders, *files))
    return found
