"""Has a guest of OSWorld's come to rest after its boot, and how often may it be looked at? A scripted guest, no time passes."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from bad.guest import SIZE, Answer, Guest, done
from driven_clock import DrivenClock
from PIL import Image

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop.cleaner import REST_S, START_S, come_to_rest
from legato_rl.workers.desktop.guest import Guest as Client
from legato_rl.workers.desktop.settle import SPARING, settle_by_looking


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer is late, not lost."""
    monkeypatch.setattr(guest_module, "SCREENSHOT_S", 60.0)


def sessions(*programs: str) -> list[Callable[[], Answer]]:
    """What the guest's processes are, turn by turn; the last stays."""
    return [lambda said=said: done(output=said) for said in programs]  # type: ignore[misc]


def blank() -> Answer:
    """A screen on which nothing is drawn."""
    file = io.BytesIO()
    Image.new("RGB", SIZE, (0, 0, 0)).save(file, "PNG")
    return Answer(file.getvalue(), kind="image/png")


def test_a_session_that_starts() -> None:
    """The last program to come begins the ten seconds."""
    with Guest(habits={"/execute": sessions("1 a", "1 a\n2 b", "1 a\n2 b", "1 a\n2 b\n3 c")}) as guest:
        clock = DrivenClock()
        start = clock.monotonic()
        come_to_rest(Client("127.0.0.1", guest.port, clock), SIZE, clock)
        assert clock.monotonic() - start >= 3 + REST_S
        assert len([1 for route, _ in guest.asked if route == "/screenshot"]) <= 3


@pytest.mark.parametrize("why", ["programs", "screen"])
def test_a_session_that_never_rests(why: str) -> None:
    """A failure, by which the guest has no fast reset."""
    habits = {"/execute": sessions(*(str(n) for n in range(500)))} if why == "programs" else {"/screenshot": [blank]}
    with Guest(habits=habits) as guest:
        clock = DrivenClock()
        start = clock.monotonic()
        with pytest.raises(DesktopFailure, match="its session still starts"):
            come_to_rest(Client("127.0.0.1", guest.port, clock), SIZE, clock)
        assert START_S <= clock.monotonic() - start < START_S + 2 * REST_S


def test_a_guest_that_has_given_many_pictures() -> None:
    """One more for each wait, not several."""
    with Guest() as guest:
        clock = DrivenClock()
        client = Client("127.0.0.1", guest.port, clock)
        client.screenshots = SPARING + 1
        assert settle_by_looking(client, SIZE, clock, 0.3, 5.0).frame is not None
        assert len([1 for route, _ in guest.asked if route == "/screenshot"]) == 1
