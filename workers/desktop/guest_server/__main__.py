"""How does the guest server start? `python3 -m guest_server --session-env "$ENV"`, as root, in the foreground."""

from __future__ import annotations

import argparse
import os
import sys
import threading

from .commands import Commands
from .files import Files
from .front import Front
from .hands import Hands
from .identity import find_user
from .lease import Lease
from .legato import Legato
from .reset import Resetter
from .screen import Screen
from .session import Session
from .windows import Windows

PORT = 5000


def main() -> None:
    """Serve until the lease ends."""
    options = argparse.ArgumentParser()
    options.add_argument("--user", default="user")
    options.add_argument("--session-env", default="", help="a line NAME=VALUE for each variable of the user's session")
    options.add_argument("--store", default="/var/lib/legato", help="where the baseline is kept")
    options.add_argument("--port", type=int, default=PORT)
    given = options.parse_args()
    user = find_user(given.user, given.session_env)
    hands = Hands(user)
    files = Files(user)
    screen = Screen(user, files)
    # the end of this process is the container's: nothing here is worth a tidy exit
    lease = Lease(float(os.environ.get("LEGATO_LEASE_S") or 0), lambda: os._exit(0))
    legato = Legato(user, screen, hands, lease, Resetter(user, hands, given.store))
    routes = {}
    for part in (Commands(user, hands), Windows(user), files, screen, Session(user), legato):
        routes.update(part.routes())
    # not before the first request: that comes while it gets ready
    threading.Thread(target=hands.start, args=(None,), name="hands", daemon=True).start()
    print(f"guest server on port {given.port}", file=sys.stderr, flush=True)
    Front(("0.0.0.0", given.port), routes, os.environ.pop("LEGATO_TOKEN", "")).serve_forever()


if __name__ == "__main__":
    main()
