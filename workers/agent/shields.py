"""What may OSWorld's agent not do by itself? Write every prompt to disk, and change its prompt at midnight."""

from __future__ import annotations

import datetime
import os
import sys
import types
from typing import Any

FORMAT = "%A, %B %d, %Y"
"""How a run's date is written, and how the agent's prompt names it."""
DUMP = "dump_debug_messages"
"""QwenAgent's function that writes the prompt to a file, all its images in it."""


def quiet_and_dated(agent: type[Any], today: str) -> None:
    """Change the modules that the class is made of: no dumps, and the date is `today`."""
    day = datetime.datetime.strptime(today, FORMAT)
    package = agent.__module__
    root = ".".join(package.split(".")[:2])
    for name, module in list(sys.modules.items()):
        if module is not None and (name == root or name.startswith(root + ".")):
            _shield(module, day)


def _shield(module: types.ModuleType, day: datetime.datetime) -> None:
    for name, value in list(vars(module).items()):
        if name == DUMP:
            setattr(module, name, lambda *args, **kwargs: None)
        elif value is os:
            # Qwen3VLAgent dumps into a folder that it makes first, and goes on where it cannot.
            setattr(module, name, _OS())
        elif value is datetime.datetime:
            setattr(module, name, _fixed(datetime.datetime, day))
        elif value is datetime.date:
            setattr(module, name, _fixed(datetime.date, day))
        elif value is datetime:
            clock = types.SimpleNamespace(**vars(datetime))
            clock.datetime, clock.date = _fixed(datetime.datetime, day), _fixed(datetime.date, day)
            setattr(module, name, clock)


class _OS:
    """The module `os`, but that it makes no folders."""

    def makedirs(self, *args: Any, **kwargs: Any) -> None:
        raise PermissionError("the agent's dumps are off")

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _fixed(kind: Any, day: datetime.datetime) -> Any:
    """`kind` (date or datetime) for which it is always `day`."""

    class Fixed(kind):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return day.replace(tzinfo=tz)

        @classmethod
        def today(cls) -> Any:
            return day if issubclass(kind, datetime.datetime) else day.date()

    return Fixed
