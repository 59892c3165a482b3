"""How does a machine without KVM get a small VM? OSWorld's docker image and disk are played by an emulator and our desktop.

The disk is a container desktop's file system; it is kept among the user's caches, the image in the engine, both for as long
as what they were made of is the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from legato_rl.workers.desktop.image.build import DEBIAN, DIGEST, build

HERE = Path(__file__).resolve().parent / "vm_image"
THEIRS = "happysixd/osworld-docker"
"""The image that OSWorld's docker provider starts."""


def make_small_vm(engine: Any) -> tuple[str, Path]:
    """The tag of the image and the path of the disk, made where they are not there. Two minutes, once."""
    bootstrap = os.geteuid() == 0 and shutil.which("mmdebstrap") is not None
    desktop, _ = build(engine, size="mini", base=None if bootstrap else DEBIAN, tag=None, say=_say)
    made_of = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(HERE.iterdir())))
    image = f"legato-small-vm:{made_of.hexdigest()[:12]}"
    try:
        engine.images.get(image)
    except ImageNotFound:
        # Any Debian would do, and this one is there.
        engine.images.build(path=str(HERE), tag=image, buildargs={"BASE": desktop}, labels={DIGEST: image}, rm=True)
    made_of.update(engine.images.get(desktop).labels[DIGEST].encode())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl"
    disk = caches / f"small-vm-{made_of.hexdigest()[:12]}.qcow2"
    if not disk.is_file():
        caches.mkdir(parents=True, exist_ok=True)
        for older in caches.glob("small-vm-*"):
            older.unlink()
        _make_disk(engine, desktop, image, disk)
    return image, disk


def _make_disk(engine: Any, desktop: str, image: str, disk: Path) -> None:
    """Put the file system of image `desktop` on a disk, with the tools of `image`."""
    unstarted = engine.containers.create(desktop)
    unfinished = disk.with_suffix(".unfinished")
    make = ("docker", "run", "--rm", "--interactive", "--volume", f"{disk.parent}:/made", image, "make-disk")
    try:
        with subprocess.Popen((*make, f"/made/{unfinished.name}"), stdin=subprocess.PIPE, stdout=sys.stderr) as making:
            assert making.stdin is not None
            for piece in unstarted.export():
                making.stdin.write(piece)
    finally:
        unstarted.remove(v=True)
    assert making.returncode == 0, f"make-disk ended with {making.returncode}"
    unfinished.rename(disk)


@contextmanager
def named_as_theirs(engine: Any, image: str) -> Iterator[None]:
    """Give `image` the name of OSWorld's, unless this machine has the real one, which is left alone."""
    real = [tag for found in engine.images.list(THEIRS) if DIGEST not in found.labels for tag in found.tags]
    assert not real, f"{real} is on this machine: these tests would run on a real VM"
    engine.images.get(image).tag(THEIRS)
    yield
    engine.images.remove(THEIRS, noprune=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
