"""Is each answer of a guest told apart: its own word, or none? Our client, on a scripted guest over real sockets."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from bad.guest import FAULTS, SIZE, Answer, Guest, as_json, done, hang, picture
from driven_clock import DrivenClock
from PIL import Image, ImageDraw

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop import ready as ready_module
from legato_rl.workers.desktop.guest import Guest as Client
from legato_rl.workers.desktop.guest import Ran
from legato_rl.workers.desktop.picture import Frame
from legato_rl.workers.desktop.ready import Readiness, writes_late
from legato_rl.workers.desktop.sense import OwnSense, StockSense
from legato_rl.workers.desktop.settle import settle_by_looking


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer is late, not lost."""
    for module, name in ((guest_module, "PROBE_S"), (guest_module, "SCREENSHOT_S"), (ready_module, "PROBE_S")):
        monkeypatch.setattr(module, name, 60.0)


def client(guest: Guest) -> Client:
    """Our client of a guest."""
    return Client("127.0.0.1", guest.port, SYSTEM_CLOCK)


@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (done(output="hi\n"), Ran(0, "hi\n", "")),
        (done(rc=3, error="no"), Ran(3, "", "no")),
        (as_json({"status": "error", "message": "[Errno 2] No such file or directory: 'x'"}, 500), None),
        (as_json({"status": "error", "message": "[Errno 13] Permission denied: 'x'"}, 500), None),
        (as_json({"status": "error", "message": "'utf-8' codec can't decode byte 0xff in position 0"}, 500), None),
    ],
)
def test_the_guests_own_word(answer: Answer, ran: Ran | None) -> None:
    """Any exit code, and a program that is not there, for which its only status is 500."""
    with Guest(commands={"^x": answer}) as guest:
        said = client(guest).execute(["x"])
    assert said == ran or (ran is None and said.rc == 127 and said.stderr.startswith(("[Errno", "'utf-8'")))


@pytest.mark.parametrize(
    ("habit", "type_"),
    [
        (FAULTS["error"], "guest_error"),
        (FAULTS["page"], "bad_body"),
        (FAULTS["empty"], "bad_body"),
        (FAULTS["half"], "answer_lost"),
        (FAULTS["drop"], "answer_lost"),
        (hang, "guest_timeout"),
        (lambda: as_json({"status": "error", "message": "the prepared interpreter timed out"}, 500), "guest_error"),
        (lambda: as_json([1]), "bad_body"),
        (lambda: as_json({"status": "success"}), "bad_body"),
        (lambda: as_json({"error": "what?"}, 400), "guest_refused"),
    ],
)
def test_no_answer(habit: Callable[[], Answer], type_: str) -> None:
    """Sent once, a failure of a type that says what was wrong."""
    with Guest(habits={"/execute": [habit]}) as guest:
        with pytest.raises(DesktopFailure) as failure:
            client(guest).execute(["x"], 0.2 if habit is hang else 60.0)
        # none where the guest was so slow that it has not read it yet
        assert len(guest.asked) <= 1
    assert failure.value.type == type_


ENDLESS = "Command '['python', '-c', 'input()']' timed out after 120 seconds"
"""The words of both servers for a command that they gave up."""


@pytest.mark.parametrize("own", [False, True], ids=["stock", "own"])
@pytest.mark.parametrize("fixed", [None, 3.0])
def test_an_action_that_does_not_end(own: bool, fixed: float | None) -> None:
    """The policy's own doing: a result with `timeout`'s exit code, and the desktop goes on."""
    said = as_json({"status": "error", "message": ENDLESS}, 500)
    with Guest(habits={"/legato/act": [lambda: said], "/execute": [lambda: said]}) as guest:
        asked, clock = client(guest), DrivenClock()
        sense = OwnSense(asked) if own else StockSense(asked, SIZE, clock)
        answer, _, ready = Readiness(asked, sense, SIZE, clock, fixed).act("input()")
    assert answer == Ran(124, "", ENDLESS, ended=False)
    assert ready.state == ("fixed" if fixed else "capped")


def test_a_probe_that_does_not_end() -> None:
    """It is no action: a desktop that cannot echo in time is broken."""
    said = as_json({"status": "error", "message": ENDLESS}, 500)
    with Guest(habits={"/execute": [lambda: said]}) as guest:
        with pytest.raises(DesktopFailure) as failure:
            client(guest).probe()
    assert failure.value.type == "guest_probe"


def test_nobody_there() -> None:
    """A port where nothing listens."""
    with Guest() as guest:
        gone = client(guest)
    with pytest.raises(DesktopFailure) as failure:
        gone.probe()
    assert failure.value.type == "guest_unreachable"


@pytest.mark.parametrize("said", [done(output="legato-0\n"), done(rc=1, output="legato-1\n"), done()])
def test_a_probe_is_no_mere_200(said: Answer) -> None:
    """The guest must have run what it was sent."""
    with Guest(commands={"^echo": said}) as guest:
        with pytest.raises(DesktopFailure) as failure:
            client(guest).probe()
    assert failure.value.type == "guest_probe"


def drawn(draw: Callable[[Any], None]) -> bytes:
    """A picture with something more on it."""
    image = Image.open(io.BytesIO(picture()))
    draw(ImageDraw.Draw(image))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("draw", "squares"),
    [
        (lambda on: None, 0),
        (lambda on: on.rectangle((200, 100, 202, 130), "white"), 0),
        (lambda on: on.rectangle((0, 0, 319, 239), (33, 33, 33)), 6),
        (lambda on: on.rectangle((200, 100, 299, 199), "white"), 6),
    ],
)
def test_a_caret_is_no_change(draw: Callable[[Any], None], squares: int) -> None:
    """Nor is a digit of a clock; a window is one, in the squares that it covers."""
    assert len(Frame(picture(), SIZE).changed_squares(Frame(drawn(draw), SIZE))) == squares


def test_a_screen_of_one_colour() -> None:
    """It is not drawn yet."""
    file = io.BytesIO()
    Image.new("RGB", SIZE, "black").save(file, "PNG")
    assert Frame(file.getvalue(), SIZE).blank()
    assert not Frame(picture(), SIZE).blank()


def shades(*values: int) -> list[Callable[[], Answer]]:
    """Screenshots of these shades, the last one for ever."""
    return [lambda shade=shade: Answer(picture(shade=shade)) for shade in values]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("seen", "ready", "seconds"),
    [
        ((0, 0), True, 0.5),
        ((0, 50, 100, 100), True, 1.5),
        (tuple(range(0, 250, 10)), True, 2.0),
    ],
    ids=["still", "drawing", "animated"],
)
def test_when_a_screen_has_settled(seen: tuple[int, ...], ready: bool, seconds: float) -> None:
    """Two equal pictures; a part that changes again and again is an animation and not waited for."""
    with Guest(habits={"/screenshot": shades(*seen)}) as guest:
        settled = settle_by_looking(client(guest), SIZE, DrivenClock(), 0.5, 5.0)
    assert (settled.ready, settled.seconds) == (ready, seconds)


def test_a_cap() -> None:
    """A screen that has not settled in time is passed on as it is, and says so."""
    with Guest(habits={"/screenshot": shades(0, 50, 100, 150)}) as guest:
        settled = settle_by_looking(client(guest), SIZE, DrivenClock(), 0.5, 1.0)
    assert settled.ready is False
    assert settled.frame is not None


def readiness(guest: Guest, fixed: float | None = None) -> tuple[Readiness, DrivenClock]:
    """The waits on a guest of OSWorld's kind."""
    clock = DrivenClock()
    asked = client(guest)
    return Readiness(asked, StockSense(asked, SIZE, clock), SIZE, clock, fixed), clock


def test_fixed_waits_look_at_nothing() -> None:
    """The baseline's way."""
    with Guest() as guest:
        waits, clock = readiness(guest, 3.0)
        states = [waits.after_reset({}).state, waits.pause().state, waits.before_eval({}).state]
        assert waits.act("x")[2].state == "fixed"
        assert [route for route, _ in guest.asked] == ["/execute"]
    assert states == ["fixed"] * 3
    assert clock.slept == [3.0] * 4


def test_a_dialog_in_the_way() -> None:
    """A task's start is not there while a recovery dialog is on it."""
    with Guest(windows=["soffice.Soffice host Document Recovery"]) as guest:
        waits, _ = readiness(guest)
        with pytest.raises(DesktopFailure, match="'Document Recovery' is in the way"):
            waits.after_reset({})


def test_files_that_are_being_written() -> None:
    """The evaluation waits for them, 20 s at most."""
    with Guest(commands={"newermt": done(output="/home/user/.config/x\n")}) as guest:
        ready = readiness(guest)[0].before_eval({})
    assert ready.state == "capped"
    assert 20.0 <= ready.seconds < 22.0


@pytest.mark.parametrize(
    ("evaluator", "late"),
    [
        ({"result": {"type": "bookmarks"}}, True),
        ({"result": [{"type": "rule"}, {"type": "history"}]}, True),
        ({"result": {"type": "bookmarks"}, "postconfig": [{"parameters": {"command": ["pkill", "chrome"]}}]}, False),
        ({"result": {"type": "vm_file"}}, False),
        ({"func": "infeasible"}, False),
    ],
)
def test_what_is_written_late(evaluator: dict[str, Any], late: bool) -> None:
    """Chrome's profile, unless Chrome is ended before it is read."""
    assert writes_late({"evaluator": evaluator}) is late
