"""Which fast reset does a guest have? Ours is a route of its server; OSWorld's server has none."""

from __future__ import annotations

import logging
from typing import Any

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.reset import Cleaner

CLEAN_S = 60.0
"""Seconds that a fast reset may take. It takes a tenth of a second to half of one."""
BASELINE_S = 120.0

log = logging.getLogger("legato_rl.worker")


class RouteCleaner:
    """The fast reset of a guest that runs our server, against the baseline that it has."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def clean(self) -> list[str]:
        """As Cleaner.clean."""
        said = self._guest.json("POST", "/legato/reset", CLEAN_S, {})
        left = said.get("left")
        if said.get("clean") is True:
            return []
        return _words(left) or ["something that it does not name"]


def find_cleaner(guest: Guest, own: bool) -> Cleaner | None:
    """The fast reset of a guest that has just been booted, its baseline taken; None where it has none."""
    if not own:
        return None
    health = guest.json("GET", "/legato/health", BASELINE_S)
    if health.get("baseline") is not True:
        try:
            guest.json("POST", "/legato/baseline", BASELINE_S, {})
        except DesktopFailure as failure:
            log.warning("no fast reset of this guest: %s", failure)
            return None
    return RouteCleaner(guest)


def _words(left: Any) -> list[str]:
    if not isinstance(left, dict):
        return []
    return [f"{what}: {str(which)[:100]}" for what, which in left.items() if which]
