"""What must be true before a run starts? Checks the backend and the folder, and writes the run's files."""

from __future__ import annotations

import json
import logging
import os
import platform
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from legato_rl._version import __version__
from legato_rl.backend import OSWORLD_BACKENDS
from legato_rl.clock import SYSTEM_CLOCK, day, iso
from legato_rl.config import DesktopConfig, Settings
from legato_rl.endpoints import IPC_LIMIT
from legato_rl.errors import ConfigError
from legato_rl.fake.layout import check_size
from legato_rl.run.processes import child_environment, scripts_folder
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.supervisord import Layout, control_socket, render

log = logging.getLogger("legato_rl")

MOST_PID = 2**22
"""The largest pid; supervisord adds its own to its socket's name while it binds it."""
SOCKETS_PREFIX = "legato-"
"""How the name of a private folder of sockets begins."""
CHECK_S = 180.0
"""Seconds that one look at a backend may take; OSWorld with all its libraries on a cold disk takes long to import."""


def check_backend(settings: Settings, tasks: list[TaskSpec], start: bool = True) -> None:
    """The backend's class is there and whole, and where it is OSWorld's, that can run the tasks and has an agent.

    Looked at in processes of their own, by the workers' interpreter, since importing it may be heavy. `start`: desktops are
    about to be started here, now and by this user, so that the image of container desktops must be there too. ConfigError in
    one sentence where something is missing.
    """
    desktop = settings.desktop
    if desktop.backend == "fake":
        check_size(desktop.screen_size)
        return
    ask_workers(desktop, "legato_rl.backend", desktop.backend)
    check_tasks(desktop, tasks)
    if settings.osworld_agent:
        ask_workers(desktop, "legato_rl.workers.agent.checkout", *_checkout(desktop))
    if (desktop.backend, desktop.provider) == ("osworld", "docker"):
        _find_vm(desktop.path_to_vm)
    if start and "container" in (desktop.backend, desktop.provider):
        _find_image(desktop.image)


def check_tasks(desktop: DesktopConfig, tasks: list[TaskSpec]) -> None:
    """The backend, where it is OSWorld's, is there and can run the tasks. ConfigError names the first that it cannot."""
    if desktop.backend in OSWORLD_BACKENDS:
        entries = [{"task_id": task.task_id, "domain": task.domain, "config": task.config} for task in tasks]
        module = "legato_rl.workers.desktop.tasks_check"
        _judge_tasks(json.loads(ask_workers(desktop, module, *_checkout(desktop), given=json.dumps(entries))))


def _checkout(desktop: DesktopConfig) -> list[str]:
    return [str(desktop.osworld_path)] if desktop.osworld_path else []


def ask_workers(desktop: DesktopConfig, module: str, *arguments: str, given: str = "") -> str:
    """What a module of ours says in the workers' interpreter. ConfigError with its sentence where it ends with one."""
    python = str(desktop.osworld_python or sys.executable)
    command = [python, "-m", module, *arguments]
    try:
        check = subprocess.run(
            command, env=child_environment(None), input=given, capture_output=True, text=True, check=False, timeout=CHECK_S
        )
    except OSError as error:
        raise ConfigError(f"osworld-python is {python!r}: {error.strerror or error}; name a Python interpreter") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"backend is {desktop.backend!r}: importing it takes over {CHECK_S:.0f} s") from None
    if check.returncode == ConfigError.exit_code and check.stdout.strip():
        raise ConfigError(check.stdout.strip())
    if check.returncode != 0:
        last = check.stderr.strip().splitlines()[-1:] or [f"it ended with {check.returncode}"]
        if desktop.osworld_python is not None and "No module named" in last[0]:
            raise ConfigError(f"osworld-python is {python!r}: {last[0]}; install this package there too")
        raise ConfigError(f"backend is {desktop.backend!r}: importing it fails with {last[0]}")
    return check.stdout


def _find_vm(path: Path | None) -> None:
    """The VM's image is there: OSWorld would have every worker download 24 GB into the same file."""
    if path is None:
        raise ConfigError("vm is missing: name the file of OSWorld's VM image (Ubuntu.qcow2)")
    if not path.is_file():
        raise ConfigError(f"vm is {str(path)!r}: there is no such file; name OSWorld's VM image (Ubuntu.qcow2)")


def _find_image(image: str) -> None:
    """The engine has the image of container desktops: without it none of them would ever start."""
    # That module asks the workers' interpreter through this one.
    from legato_rl.machine import has_image

    if not has_image(image):
        raise ConfigError(
            f"image is {image!r}: the Docker engine has none of that name; make it with legato-rl desktop build, "
            "or name another with --image"
        )


def _judge_tasks(found: dict[str, list[Any]]) -> None:
    """Refuse a run of which a task cannot run here; name the tasks that lack something that only the user can give."""
    if found["faults"]:
        first, more = found["faults"][0], len({fault["task"] for fault in found["faults"]}) - 1
        others = f" (and {more} more tasks)" if more else ""
        raise ConfigError(f"task {first['task']}: {first['fault']}{others}; leave it out, or name a newer checkout")
    for what, needs in (("drive", "Google Drive credentials"), ("proxy", "a proxy")):
        if found[what]:
            log.warning("%d tasks ask for %s, and may fail without: %s", len(found[what]), needs, ", ".join(found[what][:5]))


def claim_folder(out: Path) -> RunDir:
    """`out` as a new run folder, private to the user. ConfigError where it holds something, or cannot be written."""
    try:
        if out.exists() and not out.is_dir():
            raise ConfigError(f"out is {str(out)!r}: it is a file; name a new or empty folder")
        if out.is_dir() and any(out.iterdir()):
            holds_run = (out / "run.json").exists()
            what, also = ("it holds a run", ", or go on with that run (--resume)") if holds_run else ("it is not empty", "")
            raise ConfigError(f"out is {str(out)!r}: {what}, and a run is never overwritten; name a new or empty folder{also}")
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
    for file in (folder.run_file, folder.tasks, folder.supervisord_conf, folder.command_lock, *folder.logs.iterdir()):
        file.unlink(missing_ok=True)
    for path in (folder.images, folder.messages, folder.logs):
        path.rmdir()
    if not existed:
        folder.root.rmdir()


def sockets_folder(lasting: bool = False) -> Path:
    """A private temporary folder for sockets, of a short name (a socket's path has 107 bytes at most).

    `lasting`: not below XDG_RUNTIME_DIR, which goes when the user logs out.
    """
    runtime = None if lasting else os.environ.get("XDG_RUNTIME_DIR")
    for root in [Path(root) for root in (runtime, tempfile.gettempdir(), "/tmp") if root]:
        if root.is_dir() and os.access(root, os.W_OK) and fits_sockets(root / f"{SOCKETS_PREFIX}12345678"):
            return Path(tempfile.mkdtemp(prefix=SOCKETS_PREFIX, dir=root))
    raise ConfigError(f"the temporary folder is {tempfile.gettempdir()!r}: set TMPDIR to a writable folder of a short name")


def fits_sockets(folder: Path) -> bool:
    """Whether sockets in `folder` have paths that are short enough: supervisord's is the longest while it is bound."""
    return len(f"{control_socket(folder)}.{MOST_PID}".encode()) <= IPC_LIMIT


def write_run(
    folder: RunDir,
    settings: Settings,
    tasks: list[TaskSpec],
    engine: dict[str, Any],
    sockets: Path,
    bundled: bool = False,
) -> RunFile:
    """Write what the run's processes start from: tasks.jsonl, supervisord.conf, and last run.json, without which nothing was
    started."""
    now = SYSTEM_CLOCK.wall()
    run = RunFile(
        run_id=f"run-{secrets.token_hex(4)}",
        created_at=iso(now),
        today=day(now),
        legato_rl=__version__,
        python=platform.python_version(),
        settings=settings,
        sockets=sockets,
        engine=engine,
        bundled=bundled,
        folder=Path.cwd(),
    )
    write_supervisord(folder, settings, sockets)
    folder.write_tasks(tasks)
    folder.write_run(run)
    return run


def write_supervisord(folder: RunDir, settings: Settings, sockets: Path) -> None:
    """Write supervisord.conf."""
    layout = Layout(folder.root, folder.logs, scripts_folder(), Path.cwd(), settings.desktop.osworld_python)
    folder.supervisord_conf.write_text(render(layout, sockets, settings.desktops))
