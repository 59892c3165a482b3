"""What must be true before a service starts? Makes its root or opens it again, and writes `service.json`."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legato_rl._version import __version__
from legato_rl.bad_input import OPTIONS, told, without_secrets
from legato_rl.clock import SYSTEM_CLOCK, iso
from legato_rl.config import FAKE_URL, Settings
from legato_rl.curve import check_keys
from legato_rl.endpoints import address, tcp_address
from legato_rl.errors import ConfigError
from legato_rl.run.hold import held
from legato_rl.run.prepare import fits_sockets, sockets_folder
from legato_rl.run.processes import scripts_folder
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir, ServiceFile, origin
from legato_rl.sockets import Context
from legato_rl.supervisord import Layout
from legato_rl.up import is_up

MOST_DESKTOPS = 4096
"""As of the setting `desktops`."""
HALF_MADE: dict[str, tuple[str, ...]] = {"runs": (), "logs": ("fake-policy.log",), "sockets": ()}
"""The folders that are there before service.json is, and what may be in them."""
HALF_MADE_FILE = re.compile(r"command\.lock|supervisord\.conf|lock|\.service\.json\.[0-9]+\.tmp")
"""The files beside them."""
SAME = ("settings", "most_desktops", "origins")
"""What a service keeps as long as it lives."""
SAME_WHILE_UP = ("control", "keys")
"""What it keeps as long as any of its processes is up: its clients on this machine read the address from its file."""


@dataclass(frozen=True)
class Terms:
    """What a service is to be, beside what its runs get."""

    most_desktops: int | None = None
    """Worker processes; those beyond the settings' desktops wait to be asked for. None: no more than these."""
    origins: tuple[str, ...] = ()
    """URLs to whose origins, beside that of the settings' policy, a trainer may move the model calls."""
    control: str = ""
    """A `tcp://` address; empty for a socket of this machine."""
    keys: Path | None = None
    """The folder of the CURVE keys for it."""

    def allowed(self, settings: Settings) -> list[str]:
        """The origins that model calls, and with them the key, may go to."""
        return [origin(url) for url in (settings.policy.url, *self.origins)]

    def check(self, settings: Settings) -> None:
        """ConfigError names what is wrong."""
        if self.most_desktops is not None and not settings.desktops <= self.most_desktops <= MOST_DESKTOPS:
            raise ConfigError(
                f"most-desktops is {self.most_desktops}: it must be {settings.desktops}, the desktops, to {MOST_DESKTOPS}"
            )
        for url in self.origins:
            if not re.fullmatch(r"https?://[^/\s?#@:]+(:[0-9]{1,5})?(/[^\s?#]*)?", url):
                raise ConfigError(f"allow-origin is {told(without_secrets(url))}: it must be as in http://127.0.0.1:8000")
        if self.control:
            tcp_address(self.control)
            if self.keys is None:
                raise ConfigError("keys is missing: control over tcp is for those who have one; legato-rl keygen draws them")
            check_keys(self.keys)
        elif self.keys is not None:
            raise ConfigError(f"keys is {str(self.keys)!r}: it has no effect without control; give both or neither")


@contextmanager
def claimed(root: Path) -> Iterator[ServiceDir]:
    """`root` as a service's, made private to the user where it is new, and this command's alone while the block lasts.

    ConfigError where it holds something else, or another command has it. What was made is taken back at the end where no
    service.json was written; a root that another `serve` had begun, and left as it was killed, stays as it was found.
    """
    try:
        existed = root.exists()
        if existed and not root.is_dir():
            raise ConfigError(f"dir is {str(root)!r}: it is a file; name a folder")
        taken = existed and any(root.iterdir()) and not ServiceDir(root).service_file.exists()
        half_made = taken and is_half_made(root)
        if taken and not half_made:
            what = "it holds a run" if (root / "run.json").exists() else "it is not empty, and holds no service"
            raise ConfigError(f"dir is {str(root)!r}: {what}; name a new or empty folder, or one that holds a service")
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.chmod(0o700)
    except OSError as error:
        raise _unwritable(root, error) from None
    folder = ServiceDir(root.resolve())
    # Before anything else is in it: until service.json is there, it tells this folder from one that a killed `serve` left.
    with held(RunDir(folder.root), "dir"):
        try:
            _make_folders(folder)
            yield folder
        finally:
            if not half_made:
                _release(folder, existed)


def is_half_made(root: Path) -> bool:
    """Whether `root` holds what a `serve` makes before it writes service.json, and nothing else."""
    try:
        found = list(root.iterdir())
        folders = {path.name: path for path in found if path.is_dir() and not path.is_symlink()}
        return (
            # The first that is made, of a name that is nobody else's: without it the rest is somebody's own.
            any(path.name == "command.lock" for path in found)
            and all(path.name in folders or HALF_MADE_FILE.fullmatch(path.name) for path in found)
            and all(inner.name in HALF_MADE.get(name, ()) for name, path in folders.items() for inner in path.iterdir())
            and folders.keys() <= HALF_MADE.keys()
        )
    except OSError:
        return False


def _make_folders(folder: ServiceDir) -> None:
    try:
        for path in (folder.runs, folder.logs):
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)
    except OSError as error:
        raise _unwritable(folder.root, error) from None


def _unwritable(root: Path, error: OSError) -> ConfigError:
    return ConfigError(f"dir is {str(root)!r}: {error.strerror or error}; name a folder that can be written")


def _release(folder: ServiceDir, existed: bool) -> None:
    """Take back what was made, where nothing was started and no service is there. The lock last: this command's till then."""
    if folder.service_file.exists():
        return
    for file in (folder.supervisord_conf, *(folder.logs.iterdir() if folder.logs.is_dir() else ())):
        file.unlink(missing_ok=True)
    for name in HALF_MADE:
        with suppress(FileNotFoundError):
            (folder.root / name).rmdir()
    RunDir(folder.root).command_lock.unlink()
    if not existed:
        # The next `serve` may be in it already.
        with suppress(OSError):
            folder.root.rmdir()


def refuse_running(folder: ServiceDir, service: ServiceFile) -> None:
    """ConfigError where any process of the service is up: a second set would take the sockets from the first.

    Whoever started it: an operator's supervisord holds no lock, and what a killed `serve` leaves takes seconds to end.
    """
    if is_up(service.sockets):
        raise ConfigError(f"dir is {str(folder.root)!r}: its service is running; end that first")


def check_control(terms: Terms) -> None:
    """ConfigError where the address for trainers elsewhere cannot be had. It is, for a moment: nobody is let in."""
    if terms.control:
        with Context() as context:
            context.server("control", terms.control, terms.keys)


def describe(
    folder: ServiceDir, settings: Settings, terms: Terms, engine: dict[str, Any], bundled: bool = False
) -> ServiceFile:
    """What `service.json` will say. One that is there keeps its sockets, and must say the same of settings and terms, but for
    the address for trainers elsewhere while the service is down.

    `bundled`: the URL is the bundled server's, which has another one each time. ConfigError names the first difference.
    """
    old = folder.load() if folder.service_file.exists() else None
    sockets = old.sockets if old else place_sockets(folder.root)
    service = ServiceFile(
        created_at=old.created_at if old else iso(SYSTEM_CLOCK.wall()),
        legato_rl=__version__,
        python=platform.python_version(),
        settings=settings,
        most_desktops=settings.desktops if terms.most_desktops is None else terms.most_desktops,
        origins=terms.allowed(settings),
        sockets=sockets,
        control=terms.control or address(sockets, "control"),
        keys=terms.keys.resolve() if terms.keys else None,
        engine=engine,
        bundled=bundled,
    )
    if old is not None:
        _refuse_difference(old, service)
    return service


def place_sockets(root: Path) -> Path:
    """The folder of the sockets: below the root where that has a short name, else a temporary one. It is private."""
    folder = root / "sockets"
    return folder if fits_sockets(folder) else sockets_folder(lasting=True)


def layout(folder: ServiceDir, settings: Settings) -> Layout:
    """Where the service's processes find everything."""
    return Layout(folder.root, folder.logs, scripts_folder(), Path.cwd(), settings.desktop.osworld_python)


def _refuse_difference(old: ServiceFile, new: ServiceFile) -> None:
    same = (*SAME, *SAME_WHILE_UP) if is_up(old.sockets) else SAME
    before, now = dict(_leaves(_kept(old, same))), dict(_leaves(_kept(new, same)))
    for path in dict.fromkeys([*now, *before]):
        if before.get(path) != now.get(path):
            name = path.rpartition(".")[2]
            raise ConfigError(
                f"{OPTIONS.get(name, name)} is {told(now.get(path))}: this service was made with {told(before.get(path))}; "
                "leave it out, or name another folder"
            )


def _kept(service: ServiceFile, same: tuple[str, ...]) -> dict[str, Any]:
    """What a service keeps. Its first origin is that of the URL; the bundled server's differ each time."""
    kept = service.model_dump(mode="json", include=set(same))
    kept["origins"] = service.origins[1:]
    if service.bundled:
        kept["settings"]["policy"]["url"] = FAKE_URL
    return kept


def _leaves(value: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield from _leaves(part, f"{above}{name}.")
        else:
            yield f"{above}{name}", part
