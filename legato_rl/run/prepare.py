"""What must be true before a run starts? Checks the backend and the folder, and writes the run's files."""

from __future__ import annotations

import os
import platform
import secrets
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from legato_rl._version import __version__
from legato_rl.clock import SYSTEM_CLOCK, iso
from legato_rl.config import Settings
from legato_rl.endpoints import address
from legato_rl.errors import ConfigError
from legato_rl.fake.layout import check_size
from legato_rl.run.processes import child_environment, scripts_folder
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.supervisord import render
from legato_rl.tasks import find_examples


def check_backend(settings: Settings) -> None:
    """The backend's class is there and whole. Looked at in a process of its own, since importing it may be heavy.

    ConfigError in one sentence where it is not.
    """
    desktop = settings.desktop
    if desktop.backend == "osworld":
        if desktop.osworld_path is None:
            raise ConfigError("osworld is missing: name an OSWorld checkout, or use another backend such as fake")
        find_examples(desktop.osworld_path)
    if desktop.backend == "fake":
        check_size(desktop.screen_size)
        return
    command = [sys.executable, "-m", "legato_rl.backend", desktop.backend]
    check = subprocess.run(command, env=child_environment(None), capture_output=True, text=True, check=False)
    if check.returncode == ConfigError.exit_code and check.stdout.strip():
        raise ConfigError(check.stdout.strip())
    if check.returncode != 0:
        last = check.stderr.strip().splitlines()[-1:] or [f"it ended with {check.returncode}"]
        raise ConfigError(f"backend is {desktop.backend!r}: importing it fails with {last[0]}")


def claim_folder(out: Path) -> RunDir:
    """`out` as a new run folder, private to the user. ConfigError where it holds something, or cannot be written."""
    try:
        if out.exists() and not out.is_dir():
            raise ConfigError(f"out is {str(out)!r}: it is a file; name a new or empty folder")
        if out.is_dir() and any(out.iterdir()):
            what = "it holds a run" if (out / "run.json").exists() else "it is not empty"
            raise ConfigError(f"out is {str(out)!r}: {what}, and a run is never overwritten; name a new or empty folder")
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        out.chmod(0o700)
        folder = RunDir(out.resolve())
        for path in (folder.images, folder.messages, folder.logs):
            path.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(f"out is {str(out)!r}: {error.strerror or error}; name a folder that can be written") from None
    return folder


def release_folder(folder: RunDir, existed: bool) -> None:
    """Take back what claim_folder made, where nothing was started."""
    for file in (folder.run_file, folder.tasks, folder.supervisord_conf, *folder.logs.iterdir()):
        file.unlink(missing_ok=True)
    for path in (folder.images, folder.messages, folder.logs):
        path.rmdir()
    if not existed:
        folder.root.rmdir()


def sockets_folder() -> Path:
    """A private folder for the run's sockets, of a short name (a socket's path has 107 bytes at most)."""
    roots = [Path(root) for root in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if root]
    for root in roots:
        if root.is_dir() and os.access(root, os.W_OK) and len(str(root)) < 80:
            folder = Path(tempfile.mkdtemp(prefix="legato-", dir=root))
            address(folder, "control")
            return folder
    raise ConfigError(f"the temporary folder is {tempfile.gettempdir()!r}: set TMPDIR to a writable folder of a short name")


def write_run(folder: RunDir, settings: Settings, tasks: list[TaskSpec], engine: dict[str, Any], sockets: Path) -> RunFile:
    """Write what the run's processes start from: run.json, tasks.jsonl, supervisord.conf."""
    now = SYSTEM_CLOCK.wall()
    run = RunFile(
        run_id=f"run-{secrets.token_hex(4)}",
        created_at=iso(now),
        today=date.fromtimestamp(now).strftime("%A, %B %d, %Y"),
        legato_rl=__version__,
        python=platform.python_version(),
        settings=settings,
        sockets=sockets,
        engine=engine,
    )
    conf = render(folder.root, sockets, folder.logs, scripts_folder(), settings.desktops, Path.cwd())
    folder.supervisord_conf.write_text(conf)
    folder.write_tasks(tasks)
    folder.write_run(run)
    return run
