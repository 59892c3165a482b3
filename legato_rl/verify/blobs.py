"""Is every message and image what its name says? Each file is read once, hashed and decoded, several at a time. DISK."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from PIL import Image

from legato_rl.canonical import canonical_json, image_hashes, is_hash, sha256_hex
from legato_rl.rundir import RunDir
from legato_rl.verify.key import Key
from legato_rl.verify.report import Report, Tell

Kind = Literal["message", "image"]
PART = ".part"
"""What the sink writes a blob to before it has its name; a crash leaves one at most per folder."""

AT_ONCE = min(8, os.cpu_count() or 1)
"""Threads: hashing and decoding leave Python's lock."""

BATCH = 256
"""Files that are handed out together, so that a large folder is not a queue in memory."""


@dataclass
class Blobs:
    """The blobs of a folder, and which of them rows have named so far."""

    messages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each good message: the images that it names."""
    images: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    """Names of files that were told as faults."""
    parts: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    """What rows name, there or not: a blob that is missing is told once."""
    _whole: dict[str, bool] = field(default_factory=dict)

    def name_message(self, sha256: str, where: str, report: Report) -> bool:
        """A row names this message; whether it and its images are there and good."""
        if sha256 not in self._whole:
            there = self._name(sha256, "message", where, report)
            # Every image is named, whatever became of the one before it.
            images = [self.name_image(image, where, report) for image in self.messages.get(sha256, ())]
            self._whole[sha256] = there and all(images)
        return self._whole[sha256]

    def name_image(self, sha256: str, where: str, report: Report) -> bool:
        """A row, or a message of one, names this image; whether it is there and good."""
        return self._name(sha256, "image", where, report)

    def _name(self, sha256: str, kind: Kind, where: str, report: Report) -> bool:
        good = sha256 in (self.messages if kind == "message" else self.images)
        if not good and sha256 not in self.bad and sha256 not in self.named:
            report.fault("blob-missing", _path(sha256, kind), f"{where} names it")
        self.named.add(sha256)
        return good

    def unnamed(self) -> list[str]:
        """Good files that no row names, by path from the folder."""
        messages = [_path(sha256, "message") for sha256 in self.messages.keys() - self.named]
        return sorted(messages + [_path(sha256, "image") for sha256 in self.images - self.named])


def check_all(run: RunDir, key: Key, report: Report, tell: Tell) -> Blobs:
    """Look at every file of the two folders of blobs."""
    blobs = Blobs()
    for kind, folder in (("message", run.messages), ("image", run.images)):
        _check_folder(folder, "message" if kind == "message" else "image", blobs, key, report, tell)
    report.messages, report.images = len(blobs.messages), len(blobs.images)
    return blobs


def _check_folder(folder: Path, kind: Kind, blobs: Blobs, key: Key, report: Report, tell: Tell) -> None:
    suffix = Path(_path("0", kind)).suffix
    good = []
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        sha256 = name.removesuffix(suffix)
        if name == PART:
            blobs.parts.append(f"{folder.name}/{name}")
        elif sha256 == name or not is_hash(sha256) or not (folder / name).is_file():
            report.fault("blob-foreign", f"{folder.name}/{name}", f"it is no {kind} under its hash")
        else:
            good.append(sha256)
    done = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for batch in _batches(good):
            for seen in pool.map(lambda sha256: _look(folder, sha256, kind, key), batch):
                _note(seen, kind, blobs, report)
            done += len(batch)
            tell(f"{kind}s", done, len(good))


@dataclass(frozen=True)
class _Seen:
    """What a look at one file gave: a fault (code, message) or none."""

    sha256: str
    fault: tuple[str, str] | None
    images: tuple[str, ...] = ()
    has_key: bool = False


def _note(seen: _Seen, kind: Kind, blobs: Blobs, report: Report) -> None:
    if seen.has_key:
        report.fault("key-found", _path(seen.sha256, kind), "it holds the key in LEGATO_POLICY_KEY")
    if seen.fault:
        blobs.bad.add(seen.sha256)
        report.fault(seen.fault[0], _path(seen.sha256, kind), seen.fault[1])
    elif kind == "message":
        blobs.messages[seen.sha256] = seen.images
    else:
        blobs.images.add(seen.sha256)


def _look(folder: Path, sha256: str, kind: Kind, key: Key) -> _Seen:
    try:
        data = (folder.parent / _path(sha256, kind)).read_bytes()
    except OSError as error:
        return _Seen(sha256, ("blob-missing", f"it cannot be read ({error.strerror})"))
    has_key = key.is_in(data)
    actual = sha256_hex(data)
    if actual != sha256:
        return _Seen(sha256, ("blob-hash", f"its {len(data)} bytes have the hash {actual}"), has_key=has_key)
    if kind == "image":
        fault = _picture_fault(data)
        return _Seen(sha256, ("blob-image", fault) if fault else None, has_key=has_key)
    images = _message_images(data)
    if images is None:
        return _Seen(sha256, ("blob-message", "it is no JSON object in canonical form, or holds an unnamed image"), (), has_key)
    return _Seen(sha256, None, images, has_key)


def _message_images(data: bytes) -> tuple[str, ...] | None:
    """The images that a chat message names; None where it is none, or has one that is not named by its hash."""
    try:
        message = json.loads(data)
        if not isinstance(message, dict) or canonical_json(message) != data:
            return None
    except (ValueError, RecursionError):
        return None
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    images = tuple(image_hashes(message))
    return images if len(images) == sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts) else None


def _picture_fault(png: bytes) -> str | None:
    """Why the picture is not whole; None where it is. Pillow raises many things for what is damaged."""
    try:
        # The chunks to the last one, each with its checksum, of which decoding needs not all; it asks for a new start.
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            image.verify()
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            image.load()
    except Exception as error:
        return f"it cannot be decoded whole ({error})"
    return None


def _path(sha256: str, kind: Kind) -> str:
    """A blob's path from the run folder."""
    run = RunDir(Path())
    return (run.message(sha256) if kind == "message" else run.image(sha256)).as_posix()


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    left = iter(names)
    while batch := list(islice(left, BATCH)):
        yield batch
