"""How is supervisord run so that no program that it starts misses a SIGTERM?

Between fork and exec a child of supervisord has supervisord's own handler of SIGTERM, which notes it in the child's memory,
where nobody looks; and a child that has not come so far as to lead a process group is not there when its group is told. A
program that is stopped in that moment would live until supervisord kills it, which is `stopwaitsecs` later. Here SIGTERM
waits over the fork, and ends the child as it would end the program, and the child leads its group as soon as it is there.

Nor does it begin for a command that died before `setpriv` asked for the signal that tells so.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

import supervisor.loggers
import supervisor.supervisord
from supervisor.options import ServerOptions

from legato_rl.errors import ExitCode
from legato_rl.run.log_files import LogFile
from legato_rl.supervisord import STARTER_VARIABLE

STOPS = frozenset({signal.SIGTERM})


def hold() -> None:
    """Let SIGTERM wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def release() -> None:
    """Let SIGTERM in again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def release_child() -> None:
    """Let SIGTERM end the child."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    release()


class Leading(ServerOptions):  # type: ignore[misc]
    """supervisord's options, whose `fork` gives a child that leads a process group."""

    def fork(self) -> int:
        """As `os.fork`. Both sides see to the group, so that it is there whichever comes first."""
        pid: int = super().fork()
        # Of a child that has begun its program, or ended, nothing is left to be done.
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        return pid


def main() -> None:
    """supervisord, with the arguments of the command line."""
    parent = str(os.getppid())
    if os.environ.get(STARTER_VARIABLE, parent) != parent:
        sys.exit(ExitCode.ORPHANED)
    os.environ[STARTER_VARIABLE] = str(os.getpid())
    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_child)
    supervisor.supervisord.ServerOptions = Leading
    supervisor.loggers.RotatingFileHandler = LogFile
    supervisor.supervisord.main()


if __name__ == "__main__":
    main()
