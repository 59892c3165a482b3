"""Which desktops of a service are out, and why? DISK, reads only: the broker's `state.json`, on this machine."""

from __future__ import annotations

import json

from legato_rl.service import ServiceDir


def desktops_out(root: ServiceDir) -> dict[str, str]:
    """The reason, on one line, by the desktop's name, in the order of names; none where nothing can be read."""
    try:
        state = json.loads(root.state.read_bytes())
        out = sorted(state.get("out", {}).items())
    except (OSError, ValueError, RecursionError, AttributeError):
        return {}
    return {name: " ".join(str(reason).split()) for name, reason in out}
