"""Do rows and desktop events, which lie in two files, keep one order?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.broker.sink.events import DesktopEvents
from legato_rl.errors import RecordError
from legato_rl.wire import PutDesktopEvent


def put(name: str) -> PutDesktopEvent:
    """An event as its sender names it."""
    return PutDesktopEvent(run="r1", id=name, desktop="d0", event="out", at="2030-01-01T00:00:00Z", reason="gone")


@given(st.lists(st.booleans(), max_size=30))
def test_the_true_order_follows_from_the_numbers(appended: list[bool]) -> None:
    """Whatever was appended when (here: true for a row, false for an event), sorting by `after` and number tells it."""
    events, lines, rows, order = DesktopEvents(), [], 0, []
    for is_row in appended:
        if is_row:
            rows += 1
            order.append(("row", rows))
        else:
            line = events.line(put(f"e{len(lines)}"), rows)
            lines.append(line)
            order.append(("event", events.add(line).n))
    again = DesktopEvents()
    for line in lines:
        again.add(line)
    told = again.after(0, 100)
    assert told == events.after(0, 100)
    places = [(n, 0, ("row", n)) for n in range(1, rows + 1)]
    places += [(event.after, event.n, ("event", event.n)) for event in told]
    assert [what for _, _, what in sorted(places)] == order


@given(st.integers(0, 20), st.integers(-3, 25), st.integers(-3, 25))
def test_the_feed_is_a_run_of_consecutive_events(count: int, after: int, limit: int) -> None:
    """Events after n, as many as asked for or as there are."""
    events = DesktopEvents()
    for n in range(count):
        events.add(events.line(put(f"e{n}"), 0))
    assert [event.n for event in events.after(after, limit)] == list(range(1, count + 1))[max(0, after) :][: max(0, limit)]


def test_an_event_is_held_under_its_id() -> None:
    """Its sender names it, and may send it again."""
    events = DesktopEvents()
    line = events.line(put("e1"), 3)
    assert not events.holds("e1")
    events.add(line)
    assert events.holds("e1")
    assert line == {"n": 1, "after": 3, **put("e1").model_dump(exclude={"run"})}


@pytest.mark.parametrize(
    ("change", "said"), [({"n": 2}, "says that it is number 2"), ({"event": "up"}, "event is 'up'"), ({"after": None}, "after")]
)
def test_a_line_that_is_no_event_is_damage(change: dict[str, Any], said: str) -> None:
    """Loading names the line and what is wrong with it."""
    events = DesktopEvents()
    with pytest.raises(RecordError, match=said):
        events.add({**events.line(put("e1"), 0), **change})
