"""How is the image made? From a Debian 12 image, or where no registry can be reached from one that mmdebstrap makes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound

from legato_rl.errors import ConfigError
from legato_rl.workers.desktop.image.context import HERE, digest, lay_out

DIGEST = "legato-rl.digest"
"""The label that holds the hash of what an image was made of."""
DEBIAN = "debian:12"
BUILD_S = 3600
"""Seconds in which the engine must say something more about a running build."""

Say = Callable[[str], None]


def build(engine: Any, *, size: str, base: str | None, tag: str | None, say: Say) -> tuple[str, bool]:
    """Make the image and tell its tag, and whether it had to be made: one of the same content is reused.

    `base` None: make the base too. ConfigError where something that is needed is not there.
    """
    tag = tag or f"legato-desktop:{size}"
    base = base or _bootstrapped_name()
    made_of = digest(base, size)
    if _label(engine, tag) == made_of:
        return tag, False
    if base == _bootstrapped_name() and not _there(engine, base):
        _bootstrap(base, say)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        arguments = {
            "BASE": base,
            "OFFICE": "yes" if size in ("office", "full") else "",
            "BROWSER": "yes" if size == "full" else "",
        }
        try:
            lines = engine.api.build(
                path=folder, tag=tag, buildargs=arguments, labels={DIGEST: made_of}, rm=True, decode=True, timeout=BUILD_S
            )
            for line in lines:
                if "error" in line:
                    raise ConfigError(
                        f"the engine did not make {tag} ({str(line['error']).strip()}); where {base} cannot be fetched, "
                        "try --bootstrap"
                    )
                say(str(line.get("stream") or "").rstrip())
        except (DockerException, OSError) as error:
            raise ConfigError(f"the engine did not make {tag} ({error})") from None
    return tag, True


def _label(engine: Any, tag: str) -> str | None:
    """The content's hash of the image called `tag`, if it is there and has one."""
    try:
        labels: dict[str, str] = engine.images.get(tag).labels
    except ImageNotFound:
        return None
    return labels.get(DIGEST)


def _there(engine: Any, tag: str) -> bool:
    try:
        engine.images.get(tag)
    except ImageNotFound:
        return False
    return True


def _bootstrapped_name() -> str:
    """The tag of the base that build_base.sh makes: another script, another base."""
    return f"legato-desktop-base:{hashlib.sha256((HERE / 'build_base.sh').read_bytes()).hexdigest()[:12]}"


def _bootstrap(tag: str, say: Say) -> None:
    """Make the base with mmdebstrap."""
    missing = [program for program in ("mmdebstrap", "docker") if shutil.which(program) is None]
    if missing:
        raise ConfigError(f"--bootstrap needs {' and '.join(missing)}; install the package of that name")
    if os.geteuid() != 0:
        raise ConfigError("--bootstrap must be run as root: it makes a root file system")
    say(f"making {tag} with mmdebstrap")
    done = subprocess.run(["bash", str(HERE / "build_base.sh"), tag], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise ConfigError(f"build_base.sh did not make {tag}: it ended with {done.returncode}; its last lines say why")
