"""What is told to whoever looks on? Where a run stands, and each group as it closes; a fault of theirs ends nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from legato_rl.control import ControlClient
from legato_rl.errors import ControlError, LegatoError
from legato_rl.run.stored_groups import closed_groups
from legato_rl.rundir import RunDir
from legato_rl.wire import RunStatus

log = logging.getLogger("legato_rl")

EVENTS_S = 2.0
"""Seconds that the broker has to tell what happened, before the run is looked at again."""


class Audience:
    """Hears every status of a run, and hands on what was asked for. One that raises is told once, and not called again."""

    def __init__(
        self,
        control: ControlClient,
        on_status: Callable[[RunStatus], None] | None = None,
        on_group: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._control = control
        self._on_status = _Guarded("on_status", on_status)
        self._on_group = _Guarded("on_group", on_group)
        self._heard = 0
        self._told: set[str] = set()
        """Groups that were told: each closes once."""
        self._heard_all = False

    def hear(self, status: RunStatus) -> None:
        """The run stands here now."""
        self._on_status(status)
        while self._on_group.wanted and status.events > self._heard:
            try:
                happened = self._control.events(self._heard, run=status.run, answer_s=EVENTS_S)
            except ControlError:
                # A broker that is away tells it later; one that has begun since the run ended never does.
                break
            for event in happened.events:
                self._heard = event.n
                if event.kind == "group_closed":
                    self._tell(event.data)
            if not happened.events:
                break
        self._heard_all = status.state == "finished" and status.events == self._heard > 0

    def tell_rest(self, folder: RunDir) -> None:
        """The run in `folder` has ended: the groups that closed and that no broker told, by their stored rows."""
        if not self._on_group.wanted or self._heard_all:
            return
        try:
            groups = closed_groups(folder)
        except (LegatoError, OSError, ValueError) as error:
            log.error("what closed last in %s cannot be told to on_group: %s", folder.root, error)
            return
        for group in groups:
            if group["group"] not in self._told:
                self._tell(group)

    def _tell(self, group: dict[str, Any]) -> None:
        self._told.add(group["group"])
        self._on_group(group)


class _Guarded:
    def __init__(self, name: str, call: Callable[[Any], None] | None) -> None:
        self._name = name
        self._call = call

    @property
    def wanted(self) -> bool:
        return self._call is not None

    def __call__(self, what: Any) -> None:
        if self._call is None:
            return
        try:
            self._call(what)
        except Exception:
            self._call = None
            log.exception("%s failed and is not called any more", self._name)
