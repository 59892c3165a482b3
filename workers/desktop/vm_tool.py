"""How does a guest of OSWorld's get clean without a boot? Runs in the guest, as its user, with Python 3.10 alone.

    python3 vm_tool.py baseline      note the processes and settings, copy the home folder
    python3 vm_tool.py reset         end what is not of the baseline, put the home back, say what is not as it was

Each prints one line of JSON. What this user cannot undo (settings that live in the session's memory, processes of root's)
is told, so that whoever asked boots the guest instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

HOME = Path.home()
STORE = Path("/var/tmp/legato-rl-baseline")
DCONF = shutil.which("dconf")
SERVER = HOME / "server"
APART = (SERVER.name, *([".config/dconf"] if DCONF else []))
"""Folders of the home that are neither kept nor put back: OSWorld's own server, which runs, and settings.

Those are put back through their own service: programs that live on would not hear of a changed file, and the service
would write its old copy over it.
"""
MADE = ("screenshots", "__pycache__")
"""Folders of the server's that it writes itself."""
CACHE = ".cache"
"""The home's folder that is put back but not checked: what lives on writes there again."""
TMP = (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"))
SYSTEM = (
    *("/etc", "/opt", "/srv", "/usr/local", "/usr/bin", "/usr/sbin"),
    *("/usr/share/applications", "/usr/share/glib-2.0", "/usr/share/mime"),
)
"""What only root can change. A change there is told, not undone."""
SELECTIONS = ("PRIMARY", "SECONDARY", "CLIPBOARD")
GRACE_S, END_S = 2.0, 10.0
"""Seconds that a process gets to end by itself, and those in which all must have ended."""
TURN_S = 0.05
TOLD = 10

Key = tuple[int, int]
"""A process: pid and start time."""


def processes() -> dict[Key, tuple[int, str]]:
    """Uid and command of every living process but the kernel's, this one and its ancestors."""
    found, parents = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            parents[int(folder.name)] = int(fields[1])
            if fields[0] not in "ZX" and command:
                found[int(folder.name), int(fields[19])] = (owner(folder), command)
    pid: int | None = os.getpid()
    own = set()
    while pid:
        own.add(pid)
        pid = parents.get(pid)
    return {key: value for key, value in found.items() if key[0] not in own}


def owner(folder: Path) -> int:
    """Who a process belongs to: its user, or this user's for one that runs as root because this user said sudo."""
    uid, logged_in = folder.stat().st_uid, (folder / "loginuid").read_text()
    return -1 if uid == 0 and logged_in == str(os.getuid()) else uid


def end(known: set[Key]) -> None:
    """End this user's processes that are not of the baseline, and what they start meanwhile: ask, wait, force."""
    asked: set[Key] = set()
    for turn in range(int(END_S / TURN_S)):
        strangers = {key for key, (uid, _) in processes().items() if key not in known and uid == os.getuid()}
        if not strangers:
            return
        force = turn * TURN_S >= GRACE_S
        for pid, _ in strangers if force else strangers - asked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        asked |= strangers
        threading.Event().wait(TURN_S)


def tree(root: Path) -> dict[str, list[Any]]:
    """Kind, mode, time and content of everything below a folder, by path."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if str(Path(folder, name).relative_to(root)) not in APART]
        for name in (*folders, *files):
            path = Path(folder, name)
            with suppress(OSError):
                seen = path.lstat()
                content = ""
                if stat.S_ISLNK(seen.st_mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(seen.st_mode):
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                elif not stat.S_ISDIR(seen.st_mode):
                    continue  # a socket or a pipe is made by whoever uses it
                found[str(path.relative_to(root))] = [stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode), content]
    return found


def restore(kept: dict[str, list[Any]]) -> None:
    """Put the home back where it differs."""
    now = tree(HOME)
    for path in sorted(now.keys() - kept.keys(), reverse=True):
        remove(HOME / path)
    for path in sorted(kept):
        if now.get(path) != kept[path]:
            kind, mode, _ = kept[path]
            place = HOME / path
            if kind != stat.S_IFDIR or not place.is_dir() or place.is_symlink():
                remove(place)
            if kind == stat.S_IFDIR:
                place.mkdir(exist_ok=True)
                place.chmod(mode)
            else:
                shutil.copy2(STORE / "home" / path, place, follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove whatever is there."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def temporary() -> set[str]:
    """What lies in the folders for temporary files, this user's."""
    own = (Path(__file__), STORE)
    return {str(path) for root in TMP for path in root.iterdir() if path.lstat().st_uid == os.getuid() and path not in own}


def server() -> str:
    """A digest of OSWorld's server: it does what the next rollout is graded by, and this user may write there."""
    seen = hashlib.sha256()
    for folder, folders, files in os.walk(SERVER):
        folders[:] = sorted(name for name in folders if name not in MADE)
        for path in (Path(folder, name) for name in sorted((*folders, *files))):
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            seen.update(f"{path}\0{path.lstat().st_mode}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return seen.hexdigest()


def changed_since(taken: float) -> list[str]:
    """Paths in SYSTEM that were changed since `taken` (seconds since the epoch), by a time that nobody can set."""
    roots = [path for path in SYSTEM if Path(path).exists()]
    command = ["find", *roots, "-xdev", "-newerct", f"@{taken:.6f}", "-print"]
    return sorted(subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.split("\n")[:-1])


def settings(*command: str, given: str = "") -> str:
    """What the settings' service says to a command; empty where there is none."""
    if DCONF is None:
        return ""
    return subprocess.run([DCONF, *command], input=given, capture_output=True, text=True, timeout=10, check=False).stdout


def baseline() -> dict[str, Any]:
    """Take what is there now for clean."""
    remove(STORE)
    STORE.mkdir(mode=0o700)
    kept = tree(HOME)
    for path, (kind, *_) in kept.items():
        place = STORE / "home" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind != stat.S_IFDIR:
            shutil.copy2(HOME / path, place, follow_symlinks=False)
    dump = settings("dump", "/")
    base = {
        "home": kept,
        "temporary": sorted(temporary()),
        "settings": dump,
        "server": server(),
        "taken": STORE.stat().st_ctime,
        "processes": [[*key, *value] for key, value in processes().items()],
    }
    text = json.dumps(base)
    (STORE / "baseline.json").write_text(text)
    return {"clean": True, "left": {}, "digest": hashlib.sha256(text.encode()).hexdigest()}


def reset() -> dict[str, Any]:
    """Go back to the baseline."""
    text = (STORE / "baseline.json").read_text()
    base = json.loads(text)
    known = {(pid, start) for pid, start, _, _ in base["processes"]}
    needed = {command for _, _, uid, command in base["processes"] if uid == os.getuid()}
    end(known)
    unheld = let_go()
    restore(base["home"])
    if settings("dump", "/") != base["settings"]:
        settings("reset", "-f", "/")
        settings("load", "/", given=base["settings"])
    for path in temporary() - set(base["temporary"]):
        remove(Path(path))
    end(known)
    now, alive = tree(HOME), processes()
    left = {
        "settings": ["dconf"] if settings("dump", "/") != base["settings"] else [],
        "processes": [name[:80] for key, (uid, name) in alive.items() if key not in known and uid in (os.getuid(), -1)],
        # A panel or window manager that the last rollout ended: the next one would have to do without.
        "gone": sorted(needed - {command for _, command in alive.values()}),
        "home": [
            path
            for path in sorted(now.keys() | base["home"].keys())
            if now.get(path) != base["home"].get(path) and path.partition("/")[0] != CACHE
        ],
        "server": [str(SERVER)] if server() != base["server"] else [],
        "system": changed_since(base["taken"]),
        "x": unheld,
        "temporary": sorted(temporary() - set(base["temporary"])),
    }
    left = {what: which[:TOLD] for what, which in left.items() if which}
    return {"clean": not left, "left": left, "digest": hashlib.sha256(text.encode()).hexdigest()}


def let_go() -> list[str]:
    """Let go of every key and button, which X holds on after the program that pressed them is gone, and of what was copied.

    What is not let go of: a session's clipboard service, which lives on, takes what was copied up again.
    """
    try:
        from Xlib import X
        from Xlib.display import Display
        from Xlib.ext import xtest
        from Xlib.protocol import request
    except ImportError:
        return ["no Xlib for keys and clipboard"]
    display = Display(os.environ.get("DISPLAY", ":0"))
    for code, byte in enumerate(display.query_keymap()):
        for bit in range(8):
            if byte >> bit & 1:
                xtest.fake_input(display, X.KeyRelease, code * 8 + bit)
    for button in (1, 2, 3):
        xtest.fake_input(display, X.ButtonRelease, button)
    atoms = {name: display.intern_atom(name) for name in SELECTIONS}
    for atom in atoms.values():
        request.SetSelectionOwner(display=display.display, window=X.NONE, selection=atom, time=X.CurrentTime)
    display.sync()
    threading.Event().wait(TURN_S)
    owned = [f"selection {name}" for name, atom in atoms.items() if display.get_selection_owner(atom) != X.NONE]
    display.close()
    return owned


if __name__ == "__main__":
    print(json.dumps({"baseline": baseline, "reset": reset}[sys.argv[1]]()))
