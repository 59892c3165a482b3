"""Which desktop events of a run are stored, and where among its rows? PURE: no sockets, no files, no clock.

An event's line holds its own number `n` and how many rows were stored before it (`after`), so that rows and events, which
lie in two files, have one order: an event comes behind row `after` and before the next one.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from legato_rl.bad_input import one_sentence
from legato_rl.errors import RecordError
from legato_rl.wire import DesktopEvent, PutDesktopEvent


class DesktopEvents:
    """The lines of one run's desktops.jsonl in file order. They are few: desktops that were rebuilt or are out."""

    def __init__(self) -> None:
        self._events: list[DesktopEvent] = []
        self._ids: set[str] = set()

    @property
    def last(self) -> int:
        """The number of the last event; 0 where there is none."""
        return len(self._events)

    def holds(self, id_: str) -> bool:
        """Whether the event that its sender named `id_` is stored."""
        return id_ in self._ids

    def after(self, number: int, limit: int) -> list[DesktopEvent]:
        """The events after event `number` in file order, `limit` at most."""
        first = max(0, number)
        return self._events[first : first + max(0, limit)]

    def line(self, put: PutDesktopEvent, rows: int) -> dict[str, Any]:
        """The line that `put` becomes if it is appended now, behind `rows` rows. Changes nothing."""
        return {"n": self.last + 1, "after": rows, **put.model_dump(exclude={"run"})}

    def add(self, line: dict[str, Any]) -> DesktopEvent:
        """Note the next line of the file. RecordError where it is no event, or has another's number."""
        number = self.last + 1
        try:
            event = DesktopEvent.model_validate({name: value for name, value in line.items() if name != "id"})
        except ValidationError as error:
            raise RecordError(f"desktop event {number} of the run is damaged: {one_sentence(error)}") from None
        if event.n != number:
            raise RecordError(f"desktop event {number} of the run says that it is number {event.n}: its file was changed")
        self._events.append(event)
        self._ids.add(str(line.get("id")))
        return event
