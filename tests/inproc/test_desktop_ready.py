"""What must a guest show until a task's start is there? Guests that show it late, in part, or never."""

from __future__ import annotations

from typing import Any

import pytest
from bad.guest import SIZE, Answer, Guest, done
from driven_clock import DrivenClock

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop import ready as ready_module
from legato_rl.workers.desktop.guest import Guest as Client
from legato_rl.workers.desktop.look import LOOK
from legato_rl.workers.desktop.ready import AFTER_RESET_S, AT_WORK_S, Readiness
from legato_rl.workers.desktop.sense import StockSense

TASK: dict[str, Any] = {"config": [{"type": "launch", "parameters": {"command": ["mousepad"]}}]}
BARE = (160, 120, 320, 240)
"""Left, top, right, bottom of a part of the picture in which nothing is drawn."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer is late, not lost."""
    for module, name in ((ready_module, "PROBE_S"), (guest_module, "SCREENSHOT_S")):
        monkeypatch.setattr(module, name, 60.0)


def look(area: tuple[int, int, int, int] = (0, 0, 320, 240), *, mapped: bool = True, working: bool = False) -> Answer:
    """What LOOK writes where the guest has that one window."""
    left, top, right, bottom = area
    return done(
        output=f"0x00000000  0 207 host a note\nxwininfo: Window id: 0x0\n"
        f"  Absolute upper-left X: {left}\n  Absolute upper-left Y: {top}\n"
        f"  Width: {right - left}\n  Height: {bottom - top}\n  Map State: {'IsViewable' if mapped else 'IsUnMapped'}\n"
        f"/proc/207/schedstat:5 5 1\n/proc/207/schedstat:5 {200_000_000 if working else 6} 2\n"
    )


def waits(guest: Guest) -> Readiness:
    """The waits on a guest of OSWorld's kind."""
    clock = DrivenClock()
    asked = Client("127.0.0.1", guest.port, clock)
    return Readiness(asked, StockSense(asked, SIZE, clock), SIZE, clock, None)


class Shown(Guest):
    """A guest with that window. A look at it gives these answers, the last one for ever."""

    def __init__(self, *looks: Answer) -> None:
        super().__init__(windows=["mousepad.Mousepad host a note"])
        self._looks = list(looks)
        self.looked = 0

    def _command(self, command: Any) -> Answer:
        if command != LOOK:
            return super()._command(command)
        self.looked += 1
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]


@pytest.mark.parametrize(
    "late", [look(working=True), look(BARE), look(mapped=False)], ids=["at work", "not drawn", "not mapped"]
)
def test_a_window_that_is_not_there_yet(late: Answer) -> None:
    """Its program loads, it is of one colour, it is not mapped: the wait goes on until it is there."""
    with Shown(late, late, look()) as guest:
        readiness = waits(guest)
        ready = readiness.after_reset(TASK)
    assert (ready.state, guest.looked) == ("ready", 3)
    assert readiness.frame is not None


@pytest.mark.parametrize(("area", "mapped"), [(BARE, True), ((0, 0, 320, 240), False)])
def test_a_window_that_never_is(monkeypatch: pytest.MonkeyPatch, area: Any, mapped: bool) -> None:
    """A failure that says which window."""
    monkeypatch.setattr(ready_module, "AFTER_RESET_S", 5.0)
    with Shown(look(area, mapped=mapped)) as guest:
        with pytest.raises(DesktopFailure, match="of mousepad is not drawn") as failure:
            waits(guest).after_reset(TASK)
    assert failure.value.type == "not_ready"


def test_a_program_that_is_always_at_work() -> None:
    """It plays something: after a while it is taken as it is."""
    with Shown(look(working=True)) as guest:
        ready = waits(guest).after_reset(TASK)
    assert AT_WORK_S <= ready.seconds < AT_WORK_S + 5 < AFTER_RESET_S
