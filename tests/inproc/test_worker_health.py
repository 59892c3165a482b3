"""Does a worker take work only with a desktop that shows its screen, and only when its last one is done with?"""

from __future__ import annotations

from scripted_desktop import READY, Gate, ScriptedDesktop, screen
from worker_scene import KEY, stage

from legato_rl.desktop import ActResult, DesktopFailure
from legato_rl.records import RolloutKey, Status

OTHER = RolloutKey(run="r1", group="g1", attempt=1, try_=0)


class Yard:
    """Builds desktops: `scripts` holds what the first, the second, … does in place of its usual answers."""

    def __init__(self, *scripts: dict[str, object]) -> None:
        self.scripts = list(scripts)
        self.built: list[ScriptedDesktop] = []

    def build(self) -> ScriptedDesktop:
        does = self.scripts.pop(0) if self.scripts else {}
        self.built.append(ScriptedDesktop(does=dict(does)))  # type: ignore[arg-type]
        return self.built[-1]


def broken(*_: object) -> None:
    """A guest that is gone."""
    raise DesktopFailure("gone", "it broke")


def test_a_worker_is_not_ready_while_it_builds() -> None:
    """Nor does it take a try that was handed out a moment before: the broker hands that out again."""
    gate = Gate()
    yard = Yard({}, {"observe": gate.passing(screen(1))})
    with stage(yard.build) as scene:
        scene.until(lambda: scene.beats and scene.beats[-1].ready, "the ready beat")
        heard = len(scene.beats)
        scene.push(rebuild=2)
        scene.until(gate.reached.is_set, "the self-check of the second desktop")
        scene.push(assign=scene.assignment(KEY), rebuild=2)
        told = len(scene.beats)
        scene.until(lambda: len(scene.beats) > told + 1, "two more beats: the order is heard between them")
        assert scene.beats[-1].phase == "booting"
        assert (scene.beats[-1].ready, scene.beats[-1].built, scene.beats[-1].holds) == (False, 1, None)
        gate.open.set()
        scene.until(lambda: scene.beats[-1].ready, "the ready beat of the second desktop")
        assert {(beat.built, beat.ready) for beat in scene.beats[heard:]} <= {(1, False), (2, False), (2, True)}
        assert all(beat.holds is None for beat in scene.beats)


def test_a_rebuild_is_done_before_another_try() -> None:
    """Both came in one order: the try runs on the new desktop."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.until(lambda: scene.beats and scene.beats[-1].ready, "the ready beat")
        scene.push(assign=scene.assignment(KEY), rebuild=2)
        scene.answer("DONE")
        scene.store()
    assert [len(desktop.did("reset")) for desktop in yard.built] == [0, 1]


def test_a_rebuild_that_is_ordered_during_a_try_is_done_after_it() -> None:
    """The try ends as it would have; nothing is taken on before the new desktop is there."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.give()
        scene.push(held=KEY, rebuild=2)
        scene.answer("DONE")
        heard = len(scene.beats)
        assert scene.store()["outcome"] == "graded"
        scene.until(lambda: scene.beats[-1].ready, "the ready beat of the second desktop")
        assert not any(beat.ready for beat in scene.beats[heard:] if beat.built < 2)
        scene.give(OTHER)
        scene.answer("DONE")
        scene.store()
    assert [len(desktop.did("reset")) for desktop in yard.built] == [1, 1]


def test_a_desktop_that_failed_shows_its_screen_before_it_is_ready_again() -> None:
    """The self-check passes, and the same desktop goes on."""
    gate, yard = Gate(), Yard({"act": broken})
    with stage(yard.build) as scene:
        scene.give()
        scene.answer("click")
        row, received = scene.row()
        desktop = yard.built[0]
        desktop.does = {"observe": gate.passing(screen(9))}
        scene.drafts.append(received)
        assert scene.store(Status.RETRIED) == row
        scene.until(gate.reached.is_set, "the self-check")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard + 1, "two more beats")
        assert not any(beat.ready for beat in scene.beats[heard:])
        gate.open.set()
        scene.give(KEY.next_try())
        scene.answer("DONE")
        scene.store()
    assert len(yard.built) == 1


def test_a_desktop_that_failed_and_shows_no_screen_is_built_again() -> None:
    """Without waiting for an order; the old one is closed and takes no try in between."""
    yard = Yard({"act": broken})
    with stage(yard.build) as scene:
        scene.give()
        yard.built[0].does["observe"] = lambda: broken() if yard.built[0].did("act") else screen(1)
        scene.answer("click")
        heard = len(scene.beats)
        assert scene.store(Status.RETRIED)["error"]["phase"] == "act"
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        assert not any(beat.ready for beat in scene.beats[heard:] if beat.built < 2)
        assert (scene.beats[-1].built, scene.beats[-1].build_failures) == (2, 0)
    assert [desktop.calls[-1] for desktop in yard.built] == [("close",), ("close",)]


def test_a_try_that_the_desktop_did_not_break_is_followed_by_the_next_at_once() -> None:
    """No look at the screen is spent where the desktop is not in doubt."""
    desktop = ScriptedDesktop(does={"act": lambda _: ActResult(1, "no", 0.0, READY)})
    with stage(desktop) as scene:
        scene.give()
        scene.answer("click,DONE")
        scene.store()
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        assert len(desktop.did("observe")) == 3, "the self-check, the start, and the step's"
