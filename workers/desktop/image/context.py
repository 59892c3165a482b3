"""What goes into the image? The build's context, laid out in a folder, and the hash that names its content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from legato_rl.errors import ConfigError

HERE = Path(__file__).resolve().parent
GUEST_SERVER = HERE.parent / "guest_server"
SIZES = ("mini", "office", "full")
"""mini: X, window manager, panel, terminal, editor, file manager. office: and LibreOffice. full: and Chromium."""
GUEST_PYTHON = "3.11"
"""Of Debian 12."""


def inputs() -> dict[str, Path]:
    """The files of the context that come with this package: their place in it, and where they are."""
    found = {"Dockerfile": HERE / "Dockerfile"}
    for folder in ("packages", "files"):
        found.update({f"{folder}/{path.name}": path for path in sorted((HERE / folder).iterdir())})
    found.update({f"guest_server/{path.name}": path for path in sorted(GUEST_SERVER.glob("*.py"))})
    return found


def digest(base: str, size: str) -> str:
    """The hash of all that the image is made of, but for what Debian's and Python's archives answer on the day."""
    sha = hashlib.sha256(f"{base}\n{size}\n".encode())
    for name, path in inputs().items():
        data = path.read_bytes()
        sha.update(f"{name}\n{len(data)}\n".encode())
        sha.update(data)
    return sha.hexdigest()


def lay_out(folder: Path) -> None:
    """Put the context into `folder`, which is there and empty. ConfigError where the Python packages cannot be had."""
    for name, path in inputs().items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
    shutil.copytree(_python_packages(), folder / "python")


def _python_packages() -> Path:
    """The folder of what packages/python names, for the guest's Python; made once and kept among the user's caches."""
    wanted = HERE / "packages" / "python"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl"
    kept = caches / f"desktop-python-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]}"
    if kept.is_dir():
        return kept
    caches.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=caches) as scratch:
        made = Path(scratch) / "python"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(made)]
        command += ["--python-version", GUEST_PYTHON, "--requirement", str(wanted)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise ConfigError(f"pip did not get the guest's Python packages ({said[-1] if said else 'it said nothing'})")
        made.rename(kept)
    return kept
