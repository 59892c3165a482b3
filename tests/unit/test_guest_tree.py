"""Does a folder go back to what it was, whatever was done to it?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato_rl.workers.desktop.guest_server.clock import now
from legato_rl.workers.desktop.guest_server.tree import Tree, copy_at_rest, remove

Deed = Callable[[Path], None]
NAMES = ("a", "a/b", "a/b/c", "d", "e", "link", "new", "a/new")


def deed(what: str, name: str) -> Deed:
    """Something that a program does to a file below the folder."""

    def do(root: Path) -> None:
        path = root / name
        if what == "remove":
            remove(str(path))
        elif not path.parent.is_dir():
            return
        elif what == "write" and not path.is_dir():
            path.unlink(missing_ok=True)
            path.write_text("other")
        elif what == "folder" and not os.path.lexists(path):
            path.mkdir()
        elif what == "link":
            remove(str(path))
            path.symlink_to("/etc")
        elif what == "same size" and path.is_file() and not path.is_symlink():
            before = path.stat()
            path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        elif what == "mode" and path.exists() and not path.is_symlink():
            path.chmod(0o711)
        elif what == "time" and path.exists() and not path.is_symlink():
            os.utime(path, (1, 1))
        elif what == "pipe":
            remove(str(path))
            os.mkfifo(path)

    return do


DEEDS = st.builds(
    deed, st.sampled_from(["remove", "write", "folder", "link", "same size", "mode", "time", "pipe"]), st.sampled_from(NAMES)
)


@settings(max_examples=60)
@given(st.lists(DEEDS, max_size=8))
def test_restored(deeds: list[Deed]) -> None:
    """After a restore nothing differs, and the files say what they said."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "c").write_text("c's text")
        (root / "d").write_text("d's text")
        (root / "e").mkdir()
        (root / "link").symlink_to("a")
        before = Path(scratch) / "before"
        shutil.copytree(root, before, symlinks=True)
        tree = Tree(str(root), str(Path(scratch) / "store"))
        for do in deeds:
            do(root)
        changed = tree.differences()
        assert tree.restore() == changed
        assert tree.differences() == []
        assert (root / "a" / "b" / "c").read_text() == "c's text"
        assert (root / "d").read_text() == "d's text"
        assert sorted(path.relative_to(root) for path in root.rglob("*")) == sorted(
            path.relative_to(before) for path in before.rglob("*")
        )
        if not deeds:
            assert changed == []


class Written:
    """A folder in which programs write: each time that it has been copied, one of them does so, until all have."""

    def __init__(self, scratch: Path, *writers: Deed) -> None:
        self.root = scratch / "root"
        self.root.mkdir()
        (self.root / "d").write_text("first")
        self.copies = 0
        self._store = str(scratch / "store")
        self._writers = list(writers)

    def copy(self) -> Tree:
        """A copy that is old when it is there, or the error of what went while it was read."""
        self.copies += 1
        tree = Tree(str(self.root), self._store)
        if self._writers:
            self._writers.pop(0)(self.root)
        return tree


def went(root: Path) -> None:
    """A file was there when the folder was listed, and not when it was read."""
    raise FileNotFoundError(2, "No such file or directory", str(root / "lock"))


def test_a_folder_that_comes_to_rest(tmp_path: Path) -> None:
    """It is copied until nothing has changed meanwhile, whatever did before; the copy is the last one."""
    written = Written(tmp_path, deed("same size", "d"), went, deed("write", "new"))
    tree = copy_at_rest(written.copy, "the folder", now() + 600)
    assert written.copies == 4
    assert tree.differences() == []
    remove(str(written.root / "new"))
    assert tree.restore() == ["new"]


@pytest.mark.parametrize(("writer", "what"), [(deed("write", "new"), "new"), (went, ".*No such file or directory: '.*/lock'")])
def test_a_folder_that_does_not_come_to_rest(tmp_path: Path, writer: Deed, what: str) -> None:
    """When the time is over the error says what changed; the next try begins anew."""
    written = Written(tmp_path, writer)
    with pytest.raises(OSError, match=rf"^the folder does not come to rest: {what}$"):
        copy_at_rest(written.copy, "the folder", now())
    assert written.copies == 1
    assert copy_at_rest(written.copy, "the folder", now()).differences() == []
