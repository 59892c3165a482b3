"""How is the policy called? The client of a model server, for rollouts (through the proxy), probes and Python users.

`policy.PolicyClient(PolicyConfig(url, model)).complete(messages)` is one call; `probe` and `preflight` judge a server.
Imported when first asked for: workers use the pure modules beside this and need no HTTP library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato_rl.config import PolicyConfig
    from legato_rl.errors import PolicyError
    from legato_rl.policy.answer import Completion
    from legato_rl.policy.client import PolicyClient
    from legato_rl.policy.offer import ProbeReport, probe
    from legato_rl.policy.readiness import preflight

__all__ = ["Completion", "PolicyClient", "PolicyConfig", "PolicyError", "ProbeReport", "preflight", "probe"]

_HOMES = {
    "Completion": "legato_rl.policy.answer",
    "PolicyClient": "legato_rl.policy.client",
    "PolicyConfig": "legato_rl.config",
    "PolicyError": "legato_rl.errors",
    "ProbeReport": "legato_rl.policy.offer",
    "preflight": "legato_rl.policy.readiness",
    "probe": "legato_rl.policy.offer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
