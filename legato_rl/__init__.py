"""Graded desktop rollouts for computer-use RL, true to the token: the names that trainers use.

Everything is imported when it is first asked for, so that `import legato_rl` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato_rl._version import __version__

if TYPE_CHECKING:
    from legato_rl import policy
    from legato_rl.config import DesktopConfig, PolicyConfig
    from legato_rl.control import ControlClient
    from legato_rl.errors import ControlError, LegatoError
    from legato_rl.export.steps import export_steps
    from legato_rl.request import load_request
    from legato_rl.run.api import collect
    from legato_rl.run.resume import resume

__all__ = [
    "ControlClient",
    "ControlError",
    "DesktopConfig",
    "LegatoError",
    "PolicyConfig",
    "__version__",
    "collect",
    "export_steps",
    "load_request",
    "policy",
    "resume",
]

_HERE = Path(__file__).parent
if not (_HERE / "workers").is_dir() and (_HERE.parent / "workers").is_dir():
    # A checkout's `workers/` and `broker/` are packages of this one. A plain install moves them inside; a Python that is
    # started in the checkout finds this folder first, and them only by this.
    __path__.append(str(_HERE.parent))

_HOMES = {
    "ControlClient": "legato_rl.control",
    "ControlError": "legato_rl.errors",
    "DesktopConfig": "legato_rl.config",
    "LegatoError": "legato_rl.errors",
    "PolicyConfig": "legato_rl.config",
    "collect": "legato_rl.run.api",
    "export_steps": "legato_rl.export.steps",
    "load_request": "legato_rl.request",
    "resume": "legato_rl.run.resume",
}


def __getattr__(name: str) -> Any:
    if name == "policy":
        return import_module("legato_rl.policy")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
