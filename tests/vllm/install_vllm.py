"""How does a machine get the real vLLM and the tiny model that the `vllm` tests are run against?

    python tests/vllm/install_vllm.py          install both where they are missing, print where they are

Everything goes to ${XDG_CACHE_HOME:-~/.cache}/legato-rl-vllm: `venv/` (2.5 GB, made in two to three minutes) and
`model/` (under 1 MB). Both carry a stamp, the digest of the files that they were made from, and are made anew only when
it differs. Needs pip, CPython 3.11 and x86_64 Linux, nothing else. Exit status 0, or 1 with one sentence.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
REPAIRS = HERE / "repair_wheels.py"
MODEL_MAKER = HERE / "make_tiny_model.py"
FREE_BYTES = 5 * 10**9
"""The finished environment, and the wheels that pip unpacks on the way."""


class InstallError(Exception):
    """This machine cannot have the server; the message says what to do, in one sentence."""


@dataclass(frozen=True)
class Install:
    """A finished installation: the interpreter of vLLM's environment, and the directory of the model."""

    python: Path
    model: Path

    @property
    def vllm(self) -> Path:
        """The `vllm` command."""
        return self.python.with_name("vllm")


def install() -> Install:
    """Make what is missing or out of date and say where it is; a second process waits for the first.

    Raises InstallError.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl-vllm"
    cache.mkdir(parents=True, exist_ok=True)
    done = Install(cache / "venv" / "bin" / "python", cache / "model")
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wheels = _digest(REQUIREMENTS, REPAIRS)
        if not _is_stamped(cache / "venv", wheels):
            _require_space(cache)
            _make_venv(cache / "venv", done.python)
            _stamp(cache / "venv", wheels)
        maker = _digest(MODEL_MAKER)
        if not _is_stamped(done.model, maker):
            shutil.rmtree(done.model, ignore_errors=True)
            _run([done.python, MODEL_MAKER, "--out", done.model])
            _stamp(done.model, maker)
    return done


def _require_space(cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < FREE_BYTES:
        raise InstallError(
            f"{cache} has {free / 1e9:.1f} GB free and vLLM needs {FREE_BYTES / 1e9:.0f} GB: "
            "free some, or set XDG_CACHE_HOME to a folder on a larger disk"
        )


def _python311() -> str:
    """The wheels are pinned for one Python, which need not be the one that runs the tests."""
    found = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if found is None:
        raise InstallError("the pinned vLLM needs python3.11 on PATH: install CPython 3.11, or leave the vllm tests out")
    return found


def _make_venv(venv: Path, python: Path) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    _run([_python311(), "-m", "venv", venv])
    try:
        _run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "-r", REQUIREMENTS])
    except subprocess.CalledProcessError as error:
        raise InstallError(
            f"pip could not install {REQUIREMENTS.name} (its own words are above): where it misses torch, set "
            "PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels"
        ) from error
    _run([python, REPAIRS])


def _run(command: list[str | Path]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _is_stamped(folder: Path, digest: str) -> bool:
    stamp = folder / ".made-from"
    return stamp.is_file() and stamp.read_text() == digest


def _stamp(folder: Path, digest: str) -> None:
    (folder / ".made-from").write_text(digest)


if __name__ == "__main__":
    try:
        made = install()
    except InstallError as error:
        sys.exit(str(error))
    print(f"vLLM: {made.vllm}\nmodel: {made.model}")
