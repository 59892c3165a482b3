"""Which class is a backend's desktop? `fake`, `osworld`, `container`, or `package.module:Class` of the user's own."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from legato_rl.desktop import DESKTOP_METHODS
from legato_rl.errors import ConfigError

OSWORLD = "legato_rl.workers.desktop.osworld:OSWorldDesktop"
BUILT_IN = {"fake": "legato_rl.fake.desktop:FakeDesktop", "osworld": OSWORLD, "container": OSWORLD}
"""Where the desktops of this package are."""
OSWORLD_BACKENDS = frozenset({"osworld", "container"})
"""Those that need OSWorld itself."""


def load_backend(backend: str) -> type[Any]:
    """The Desktop class of `backend`; the current folder is importable. ConfigError where it is none.

    Importing may be heavy: call it in the worker, or in a process of its own.
    """
    name = BUILT_IN.get(backend, backend)
    module_name, colon, class_name = name.partition(":")
    if not colon or not module_name or not class_name:
        raise ConfigError(f"backend is {backend!r}: it must be osworld, container, fake or package.module:Class")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"backend is {backend!r}: {error}; install it or correct the name") from None
    desktop = getattr(module, class_name, None)
    if not isinstance(desktop, type):
        raise ConfigError(f"backend is {backend!r}: {module_name} has no class {class_name}; correct the name")
    for method in DESKTOP_METHODS:
        if not callable(getattr(desktop, method, None)):
            raise ConfigError(
                f"backend is {backend!r}: {class_name} lacks the method {method} of the Desktop protocol; "
                "add it (docs/desktops.md)"
            )
    return desktop


def main() -> None:
    """`python -m legato_rl.backend BACKEND`: check it in a process of its own; the fault on stdout, exit code 2."""
    try:
        load_backend(sys.argv[1])
    except ConfigError as error:
        print(error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
