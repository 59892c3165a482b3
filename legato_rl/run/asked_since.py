"""What have trainers asked of a service since it was made, that its next start must heed? DISK: `state.json`.

That file is the broker's (broker/told.py); it is read here, and changed only while no process of the service is up.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from legato_rl.bad_input import json_fault
from legato_rl.config import Settings
from legato_rl.errors import RecordError
from legato_rl.rundir import json_bytes, write_file
from legato_rl.service import SHUTDOWN, ServiceDir, ServiceFile, origin


def in_force(folder: ServiceDir, settings: Settings, origins: Collection[str]) -> Settings:
    """`settings` as trainers have since had them changed: how many desktops work, and which model is asked where.

    RecordError where that is not at one of `origins`: nothing, and no key, is sent there.
    """
    state = _load(folder.state)
    default = state.get("default") or {}
    said = {"url": state.get("url"), "model": default.get("model"), "version": default.get("version")}
    policy = settings.policy.model_copy(update={name: value for name, value in said.items() if value})
    if origin(policy.url) not in origins:
        raise RecordError(f"{folder.state}: url is {policy.url!r}, and this service may only call {', '.join(origins)}")
    desktops = settings.desktops if state.get("desktops") is None else state["desktops"]
    return settings.model_copy(update={"policy": policy, "desktops": desktops})


def forget_what_is_gone(folder: ServiceDir, service: ServiceFile) -> None:
    """Before a service starts anew: what was asked of processes that are gone, or of the bundled server at its old place.

    A service that was killed while it was shutting down would at once go on with that, and the runs that were cut would
    stop. One that was stopped by itself does stop. `service` is what the file says from before.
    """
    state = _load(folder.state)
    kept = dict(state)
    if state.get("leaving"):
        # Those that somebody stopped by name before stay stopped.
        named = {run: reason for run, reason in state.get("stopping", {}).items() if reason != SHUTDOWN}
        kept |= {"leaving": False, "stopping": named}
    if service.bundled and state.get("url") and origin(state["url"]) == origin(service.settings.policy.url):
        kept["url"] = ""
    if kept != state:
        write_file(folder.state, json_bytes(kept))


def _load(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no JSON: {json_fault(error)}") from None
    if not isinstance(state, dict):
        raise RecordError(f"{path} is no JSON object")
    return state
