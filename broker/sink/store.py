"""Where do rows and blobs lie, and when are they safe? DISK: the one writer of a run folder's records.

A blob is stored when it was written to a temporary file, fsynced, renamed to its hash and its folder fsynced. The
folders' fsyncs are shared by the blobs of one batch.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

from legato_rl.canonical import image_hashes, sha256_hex
from legato_rl.errors import SinkError
from legato_rl.records import Draft
from legato_rl.rundir import RunDir, sync_folder
from legato_rl.wire import BlobName

from .lines import Lines

TRIAL_BYTES = 2**20
"""What is written to find out whether a full disk has room again: about a screenshot."""

KEPT_MESSAGES = 4096
"""Messages of an open run whose images are kept in memory: about 2 MB at most."""

OnLine = Callable[[dict[str, Any]], object]

log = logging.getLogger(__name__)


class Store:
    """A run folder, whose lock the caller holds. Every method that returns has its result on the disk.

    OSError from a method: nothing was acknowledged, the same call may be made again. SinkError: an fsync failed, and
    the process must end.
    """

    def __init__(self, run: RunDir, on_row: OnLine, on_event: OnLine) -> None:
        """Read the stored rows and desktop events in file order, rows first.

        RecordError where the folder is damaged, OSError where it cannot be written.
        """
        self._run = run
        self._unsynced: set[Path] = set()
        self._folders: dict[Path, int] = {}
        # Most messages of a row are named by each of its steps, and again when it comes a second time.
        self._images_of = lru_cache(KEPT_MESSAGES)(self._read_images)
        with ExitStack() as opened:
            for folder in (run.images, run.messages):
                self._open_folder(folder, opened)
            self.rows = Lines(run.rollouts, on_row, run.logs)
            opened.callback(self.rows.close)
            self.events = Lines(run.desktop_events, on_event, run.logs)
            opened.callback(self.events.close)
            sync_folder(run.root)
            self._closing = opened.pop_all()

    def _open_folder(self, folder: Path, opened: ExitStack) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        _part(folder).unlink(missing_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        self._folders[folder] = fd
        # A predecessor may have died between a rename and this fsync; what is there is about to be told as stored.
        os.fsync(fd)

    def put_blobs(self, blobs: Iterable[tuple[BlobName, bytes]]) -> bool:
        """Store each of `blobs`, which were checked (drafts.check_blobs); whether any had to be written.

        One that is there is left as it is.
        """
        wrote = False
        for name, data in blobs:
            path = self._path(name.type, name.sha256)
            if not path.exists():
                self._put(path, data)
                wrote = True
        self._sync_folders()
        return wrote

    def _put(self, path: Path, data: bytes) -> None:
        part = _part(path.parent)
        try:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                # Unlike a row's, a blob's failed fsync is no doubt for later: the file goes, and the blob comes again.
                os.fsync(fd)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        self._unsynced.add(path.parent)

    def _sync_folders(self) -> None:
        for folder in list(self._unsynced):
            try:
                os.fsync(self._folders[folder])
            except OSError as error:
                raise SinkError(f"fsync of {folder} failed ({error.strerror}): check the disk, then resume") from error
            self._unsynced.discard(folder)

    def missing(self, draft: Draft) -> list[str]:
        """The hashes that `draft` names, itself or through its messages, and that are not stored; sorted."""
        missing: set[str] = set()
        images = {draft.final_image} if draft.final_image else set()
        for sha256 in {sha256 for step in draft.steps for sha256 in step.request.messages}:
            try:
                images.update(self._images_of(sha256))
            except FileNotFoundError:
                missing.add(sha256)
        missing.update(sha256 for sha256 in images if not self._run.image(sha256).exists())
        return sorted(missing)

    def _read_images(self, sha256: str) -> tuple[str, ...]:
        """The images that a stored message names. FileNotFoundError where it is not there, or not what its name says."""
        path = self._run.message(sha256)
        data = path.read_bytes()
        if sha256_hex(data) != sha256:
            log.error("%s is damaged: it is put aside in %s and asked for again", path, self._run.logs)
            self._run.logs.mkdir(exist_ok=True)
            path.replace(self._run.logs / f"{path.name}.damaged")
            raise FileNotFoundError(path)
        return tuple(image_hashes(json.loads(data)))

    def append_row(self, row: dict[str, Any]) -> None:
        """Append `row` to rollouts.jsonl."""
        # Blobs of a batch that failed half-way lie there unsynced, and the row may name them.
        self._sync_folders()
        self.rows.append(row)

    def append_event(self, event: dict[str, Any]) -> None:
        """Append `event` to desktops.jsonl."""
        self.events.append(event)

    def can_write(self) -> bool:
        """Whether a blob of ordinary size could be written now; tried, and taken back."""
        part = _part(self._run.images)
        try:
            # A read-only disk refuses to remove a file even where there is none.
            try:
                part.write_bytes(bytes(TRIAL_BYTES))
            finally:
                part.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def free_mb(self) -> int:
        """MiB that are free for this user where the run is stored; -1 where that cannot be told."""
        try:
            return shutil.disk_usage(self._run.root).free // 2**20
        except OSError:
            return -1

    def _path(self, type_: str, sha256: str) -> Path:
        return self._run.image(sha256) if type_ == "image" else self._run.message(sha256)

    def close(self) -> None:
        """Close the files."""
        self._closing.close()


def _part(folder: Path) -> Path:
    """The one temporary file of `folder`: its writer is alone, so a crash leaves one at most."""
    return folder / ".part"


REMEDIES = {
    errno.ENOSPC: "make space there",
    errno.EDQUOT: "raise the quota or make space there",
    errno.EROFS: "mount it writable",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EACCES: "give this user the right to write there",
}


def explain(folder: Path, error: OSError) -> str:
    """`error` in one sentence with what to do about it."""
    remedy = REMEDIES.get(error.errno or 0, "check the disk")
    return f"{folder} cannot be written ({error.strerror}): {remedy}; nothing acknowledged is lost"
