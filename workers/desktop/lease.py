"""Who keeps a guest of ours alive? A thread that renews its lease; a guest whose worker is gone ends by itself."""

from __future__ import annotations

import logging
import threading

from legato_rl.clock import Clock
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import PROBE_S, Guest

LEASE_S = 120.0
"""Seconds after which a guest that nobody renews ends, and its container with it."""
RENEW_S = 20.0

log = logging.getLogger("legato_rl.worker")


class Lease:
    """A guest's lease, renewed from now on until `end`. DesktopFailure where the guest does not take it."""

    def __init__(self, host: str, port: int, clock: Clock, token: str = "") -> None:
        self._guest = Guest(host, port, clock, token)
        self._over = threading.Event()
        self._renew()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Renew it no more."""
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        self._guest.json("POST", "/legato/lease", PROBE_S, {"seconds": LEASE_S})

    def _keep(self) -> None:
        while not self._over.wait(RENEW_S):
            try:
                self._renew()
            except DesktopFailure as failure:
                # The main thread will find the guest gone when it asks it something.
                log.warning("the guest's lease was not renewed: %s", failure)
