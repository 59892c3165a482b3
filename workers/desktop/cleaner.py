"""Which fast reset does a guest have? Ours is a route of its server; to OSWorld's a tool is brought that does as much."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import requests

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import vm_tool
from legato_rl.workers.desktop.guest import Guest, read_json
from legato_rl.workers.desktop.reset import Cleaner

CLEAN_S = 100.0
"""Seconds that a fast reset may take; OSWorld's server ends a command after 120 s. It takes a tenth of a second to a few."""
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


def find_cleaner(guest: Guest, own: bool) -> Cleaner | None:
    """The fast reset of a guest that has just been booted, its baseline taken; None where it has none."""
    try:
        if not own:
            return ToolCleaner(guest)
        if guest.json("GET", "/legato/health", CLEAN_S).get("baseline") is not True:
            guest.json("POST", "/legato/baseline", CLEAN_S, {})
        return RouteCleaner(guest)
    except DesktopFailure as failure:
        log.warning("this guest has no fast reset: %s", failure)
        return None


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
