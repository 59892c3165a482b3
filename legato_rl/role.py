"""How does a long-lived process begin and end? Log, signals, the guard against outliving the parent, exit codes.

SIGTERM and SIGINT set a flag and ring a bell; the role's loop sees them and leaves. Its exit code names the signal, so
that supervisord starts it again unless it sent that itself: an operator, or who frees memory, sends them too. Logs go to
stderr, which supervisord writes to the role's file under `logs/`.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.errors import ConfigError, ExitCode, LegatoError
from legato_rl.sockets import Bell
from legato_rl.supervisord import STARTER_VARIABLE

GUARD_S = 1.0
"""Seconds between two looks at the parent's pid."""

log = logging.getLogger("legato_rl")


class Quit:
    """Whether this process was asked to end; `bell` rings when it is."""

    def __init__(self) -> None:
        self.asked = False
        self.code = ExitCode.DONE
        """What this process exits with once its loop has left."""
        self.bell = Bell()

    def ask(self) -> None:
        """Ask the loop to leave."""
        self.asked = True
        self.bell.ring()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.code = ExitCode(128 + number)
        self.ask()

    def listen(self) -> None:
        """Take SIGTERM and SIGINT (main thread only)."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)


def guard_parent(clock: Clock = SYSTEM_CLOCK) -> None:
    """End this process when its parent is gone, also after SIGKILL. Started by supervisord only: a shell may leave.

    That went while this process was starting where somebody else is the parent by now (orphans need not go to the first
    process), so a supervisord of ours is looked at by its own pid too.
    """
    parent, starter = os.getppid(), os.environ.pop(STARTER_VARIABLE, "self")
    if parent == 1 and b"supervisord" not in Path("/proc/1/cmdline").read_bytes():
        # In a container, supervisord may be the first process itself.
        os._exit(ExitCode.ORPHANED)

    def watch() -> None:
        while os.getppid() == parent and Path("/proc", starter).exists():
            clock.sleep(GUARD_S)
        os._exit(ExitCode.ORPHANED)

    threading.Thread(target=watch, name="guard", daemon=True).start()


def raise_file_limit() -> None:
    """Open as many files as this user may: libzmq ends its process when it has no descriptor left for a connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_role(name: str, body: Callable[[Quit], None]) -> None:
    """Run `body` as process `name` and exit by its errors; `body` returns when its `Quit` was asked and work is handed back."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format=f"%(asctime)s.%(msecs)03d {name} %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    faulthandler.enable()
    if os.environ.get("SUPERVISOR_ENABLED"):
        guard_parent()
    quit_ = Quit()
    quit_.listen()
    try:
        body(quit_)
    except LegatoError as error:
        log.error("%s", error)
        sys.exit(error.exit_code)
    except Exception:
        log.exception("ended by an exception that nobody expected")
        sys.exit(ExitCode.BUG)
    sys.exit(quit_.code)


def run_folder() -> Path:
    """The one argument of a role's program. ConfigError where it is not there."""
    if len(sys.argv) != 2:
        raise ConfigError(f"{Path(sys.argv[0]).name} takes one argument, the run folder: {len(sys.argv) - 1} were given")
    return Path(sys.argv[1])
