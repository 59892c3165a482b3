"""How is the policy called? The client of a model server, for rollouts (through the proxy), probes and Python users.

`policy.PolicyClient(PolicyConfig(url, model)).complete(messages)` is one call; `probe` and `preflight` judge a server.
"""

from __future__ import annotations

from legato_rl.config import PolicyConfig
from legato_rl.errors import PolicyError
from legato_rl.policy.answer import Completion
from legato_rl.policy.client import PolicyClient
from legato_rl.policy.preflight import preflight
from legato_rl.policy.probe import ProbeReport, probe

__all__ = ["Completion", "PolicyClient", "PolicyConfig", "PolicyError", "ProbeReport", "preflight", "probe"]
