"""Is anything of a service, or of a run of its own, up on this machine? Asks its sockets, which changes nothing there.

What listens is a process that lives: supervisord where `collect` or `serve` started it, and sink, proxy and broker under
whatever supervisord they are. While one of them is started anew the others listen on, so a service that restarts is up.
The sink's lock would say less, and a look at it could make a sink that starts at that moment believe there is another.
"""

from __future__ import annotations

import socket
from pathlib import Path

from legato_rl.endpoints import ENDPOINTS
from legato_rl.supervisord import control_socket


def is_up(sockets: Path) -> bool:
    """Whether any process listens in this folder of sockets."""
    return any(_listens(path) for path in (control_socket(sockets), *(sockets / name for name in ENDPOINTS)))


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            # Somebody is there, who has more callers than it has taken up.
            return True
        except OSError:
            return False
    return True
