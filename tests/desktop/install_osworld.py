"""How does a machine get OSWorld's own package, for the `desktop` tests and for a first look? The wheel, in a venv of its own.

    python tests/desktop/install_osworld.py    install it where it is missing, print its interpreter

It goes to ${XDG_CACHE_HOME:-~/.cache}/legato-rl-osworld/venv: desktop-env 1.0.2 without its heavy dependencies, stand-ins
for those, and this checkout, editable, with whatever versions OSWorld pins. A stamp says what it was made from.
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


def install() -> Path:
    """The interpreter of the environment; what is missing or out of date is made, while a second process waits."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legato-rl-osworld"
    cache.mkdir(parents=True, exist_ok=True)
    venv, python, stamp = cache / "venv", cache / "venv" / "bin" / "python", cache / "venv" / ".made-from"
    made_from = hashlib.sha256(b"\0".join([str(ROOT).encode(), *(part.read_bytes() for part in PARTS)])).hexdigest()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == made_from:
            return python
        shutil.rmtree(venv, ignore_errors=True)
        _run(sys.executable, "-m", "venv", venv)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        # One resolution for both: our own bounds must allow what OSWorld pins.
        _run(*pip, "--requirement", HERE / "requirements.txt", "--editable", f"{ROOT}[test]")
        _run(*pip, "--no-deps", WHEEL)
        shutil.copy(HERE / "osworld_stand_ins.py", next((venv / "lib").glob("python3*")) / "site-packages")
        (next((venv / "lib").glob("python3*")) / "site-packages" / "osworld_stand_ins.pth").write_text(
            "import osworld_stand_ins\n"
        )
        stamp.write_text(made_from)
    return python


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


if __name__ == "__main__":
    print(install())
