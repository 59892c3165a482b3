"""How does a machine get OSWorld's own package, for the `desktop` tests and for a first look? The wheel, in a venv of its own.

    python tests/desktop/install_osworld.py    install it where it is missing, print its interpreter

It goes to a folder in ${XDG_CACHE_HOME:-~/.cache}/legato-rl-osworld that is named by what it is made from: desktop-env 1.0.2
without its heavy dependencies, stand-ins for those, and this checkout, editable, with whatever versions OSWorld pins. One that
a run may be using is never touched; those of checkouts that are gone are removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WHEEL = "desktop-env==1.0.2"
PARTS = (HERE / "requirements.txt", HERE / "osworld_stand_ins.py", ROOT / "setup.cfg")
"""What the environment is made of beside the wheel."""
STAMP = ".made-for"
"""The file that is written last; it names the checkout."""


def install() -> Path:
    """The interpreter of the environment; what is missing or out of date is made, while a second process waits."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl-osworld"
    cache.mkdir(parents=True, exist_ok=True)
    made_from = hashlib.sha256(b"\0".join([str(ROOT).encode(), *(part.read_bytes() for part in PARTS)])).hexdigest()
    venv = cache / f"venv-{made_from[:12]}"
    python, stamp = venv / "bin" / "python", venv / STAMP
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file():
            return python
        for other in cache.glob("venv*"):
            if other == venv or not _checkout(other).is_dir():
                shutil.rmtree(other)
        _run(sys.executable, "-m", "venv", venv)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        # One resolution for both: our own bounds must allow what OSWorld pins.
        _run(*pip, "--requirement", HERE / "requirements.txt", "--editable", f"{ROOT}[test]")
        _run(*pip, "--no-deps", WHEEL)
        shutil.copy(HERE / "osworld_stand_ins.py", next((venv / "lib").glob("python3*")) / "site-packages")
        (next((venv / "lib").glob("python3*")) / "site-packages" / "osworld_stand_ins.pth").write_text(
            "import osworld_stand_ins\n"
        )
        stamp.write_text(str(ROOT))
    return python


def _checkout(venv: Path) -> Path:
    """The checkout that an environment was made for; no folder where its making was cut."""
    stamp = venv / STAMP
    return Path(stamp.read_text()) if stamp.is_file() else stamp


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


if __name__ == "__main__":
    print(install())
