"""Which fast reset does a guest have? Ours is a route of its server; to OSWorld's a tool is brought that does as much."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import requests

from legato_rl.clock import Clock
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import vm_tool
from legato_rl.workers.desktop.guest import Guest, read_json
from legato_rl.workers.desktop.reset import Cleaner
from legato_rl.workers.desktop.settle import settle_by_looking

CLEAN_S = 100.0
"""Seconds that a fast reset may take; OSWorld's server ends a command after 120 s. It takes a tenth of a second to a few."""
START_S = 120.0
"""Seconds in which a guest of OSWorld's that has just been booted must have come to rest."""
REST_S = 10.0
"""Seconds for which its user's processes must be the same: a session starts its programs one after the other, and one that
is not of the baseline would be ended by every reset."""
TURN_S = 1.0
PROGRAMS = "ps -u $(id -u) -o pid=,comm= | grep -vE ' (ps|sh|grep|bash|id)$'"
"""A shell's words: the user's processes but for its own."""
TOOL = "/var/tmp/legato-rl-tool.py"
"""Where the tool lies in a guest of OSWorld's."""

log = logging.getLogger("legato_rl.worker")


class RouteCleaner:
    """The fast reset of a guest that runs our server, against the baseline that it has."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def clean(self) -> list[str]:
        """As Cleaner.clean."""
        return _left(self._guest.json("POST", "/legato/reset", CLEAN_S, {}))


class ToolCleaner:
    """The fast reset of a guest that runs OSWorld's server, by a tool in it. DesktopFailure where no baseline can be taken."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        _upload(guest, Path(vm_tool.__file__).read_bytes(), TOOL)
        # A policy has the same rights as the tool: what it would have to forge is remembered here.
        self._digest = self._run("baseline").get("digest")

    def clean(self) -> list[str]:
        """As Cleaner.clean."""
        _upload(self._guest, Path(vm_tool.__file__).read_bytes(), TOOL)
        said = self._run("reset")
        return ["its baseline was changed"] if said.get("digest") != self._digest else _left(said)

    def _run(self, what: str) -> dict[str, Any]:
        ran = self._guest.execute(["python3", TOOL, what], CLEAN_S)
        if ran.rc != 0:
            raise DesktopFailure("fast_reset", f"{what} ended with {ran.rc}: {ran.stderr[-300:]}")
        return read_json(f"the tool's {what}", ran.stdout.encode())


def find_cleaner(guest: Guest, own: bool, size: tuple[int, int]) -> Cleaner | None:
    """The fast reset of a guest that has just been booted, its baseline taken; None where it has none.

    `size`: of its screen. OSWorld's server answers while the session behind it still starts: that is waited for.
    """
    try:
        if not own:
            come_to_rest(guest, size, guest.clock)
            return ToolCleaner(guest)
        if guest.json("GET", "/legato/health", CLEAN_S).get("baseline") is not True:
            guest.json("POST", "/legato/baseline", CLEAN_S, {})
        return RouteCleaner(guest)
    except DesktopFailure as failure:
        log.warning("this guest has no fast reset: %s", failure)
        return None


def come_to_rest(guest: Guest, size: tuple[int, int], clock: Clock) -> None:
    """Return when the screen is drawn and quiet and no process has come or gone for REST_S. DesktopFailure after START_S."""
    start = since = clock.monotonic()
    known: str | None = None
    while True:
        found, now = guest.execute(PROGRAMS, shell=True).stdout, clock.monotonic()
        if found != known:
            known, since = found, now
        elif now - since >= REST_S:
            # each picture costs such a guest an X connection, so it is looked at last
            settled = settle_by_looking(guest, size, clock, 0.5, 2.0)
            if settled.ready and settled.frame is not None and not settled.frame.blank():
                return
            since = now
        if now - start > START_S:
            raise DesktopFailure("not_ready", f"after {now - start:.0f} s its session still starts: every reset is a revert")
        clock.sleep(TURN_S)


def _upload(guest: Guest, data: bytes, path: str) -> None:
    """Bring a file into the guest."""
    form = requests.Request("POST", guest.origin, files={"file_data": ("tool", data)}, data={"file_path": path}).prepare()
    assert isinstance(form.body, bytes)
    status, answer = guest.send("POST", "/setup/upload", CLEAN_S, form.body, dict(form.headers))
    if status != 200:
        raise DesktopFailure("fast_reset", f"the tool was not taken: {status} {answer[:200]!r}")


def _left(said: dict[str, Any]) -> list[str]:
    """What an answer says is left."""
    if said.get("clean") is True:
        return []
    left = said.get("left")
    named = [f"{what}: {json.dumps(which)[:100]}" for what, which in left.items()] if isinstance(left, dict) else []
    return named or ["something that it does not name"]
