"""How is supervisord run so that no program that it starts misses a SIGTERM?

Between fork and exec a child of supervisord has supervisord's own handler of SIGTERM, which notes it in the child's memory,
where nobody looks: a program that is stopped in that moment is never told, and lives until supervisord kills it, which is
`stopwaitsecs` later. Here SIGTERM waits over the fork, and ends the child as it would end the program.
"""

from __future__ import annotations

import os
import signal

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


def main() -> None:
    """supervisord, with the arguments of the command line."""
    from supervisor.supervisord import main as supervisord

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_child)
    supervisord()


if __name__ == "__main__":
    main()
