"""Does a worker go from run to run, and rest when it is not wanted? A real worker on real sockets, its peers scripted."""

from __future__ import annotations

from scripted_desktop import READY, Gate, ScriptedDesktop
from worker_scene import KEY, Stage, stage

from legato_rl.config import PolicyConfig, Settings
from legato_rl.desktop import ActResult
from legato_rl.records import RolloutKey

OTHER = RolloutKey(run="r2", group="g9", attempt=3, try_=0)


class Yard:
    """Builds desktops and keeps them."""

    def __init__(self) -> None:
        self.built: list[ScriptedDesktop] = []

    def build(self) -> ScriptedDesktop:
        self.built.append(ScriptedDesktop())
        return self.built[-1]


def ready(scene: Stage) -> bool:
    return bool(scene.beats) and scene.beats[-1].ready


def parked(scene: Stage) -> bool:
    return bool(scene.beats) and scene.beats[-1].phase == "parked"


def test_each_run_has_its_own_settings_and_all_the_same_desktop() -> None:
    """A try's agent, sampling, seed, policy number, blobs and row are its run's; the desktop stays warm in between."""
    yard = Yard()
    other = Settings(policy=PolicyConfig("fake", "big", version="w1", temperature=0.25), image_max=3)
    with stage(yard.build) as scene:
        scene.give()
        first = scene.answer("DONE")
        row = scene.store()
        before = set(scene.blobs)
        scene.give(OTHER, settings=other.model_dump(mode="json"), today="Sunday, January 06, 2030", policy=2)
        second = scene.answer("DONE", model="big", version="w1")
        theirs = scene.store()
        assert scene.agents == [(scene.settings, "Tuesday, January 01, 2030"), (other, "Sunday, January 06, 2030")]
        assert {scene.blob_runs[sha256] for sha256 in before} == {"r1"}
        assert {scene.blob_runs[sha256] for sha256 in theirs["steps"][0]["request"]["messages"]} == {"r2"}
    assert (first.policy, second.policy) == (0, 2)
    assert (first.params["temperature"], second.params["temperature"]) == (1.0, 0.25)
    assert ("seed" in first.params, "seed" in second.params) == (True, False)
    assert (row["run_id"], theirs["run_id"]) == ("r1", "r2")
    assert theirs["policy"] == {"model": "big", "version": "w1", "versions": ["w1"]}
    assert len(yard.built) == 1


def test_the_row_names_the_policy_that_answered_first() -> None:
    """Trainers may change the model as well as the version while a rollout runs."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("click", model="lora-4", version="4")
        scene.answer("click", model="lora-5", version="5")
        scene.answer("DONE", model="lora-5", version="5")
        row = scene.store()
    assert row["policy"] == {"model": "lora-4", "version": "4", "versions": ["4", "5"]}


def test_nothing_is_booted_before_the_broker_was_heard() -> None:
    """It may not be wanted: a service has processes for more desktops than it has at first."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.answers_beats = False
        scene.until(lambda: len(scene.beats) > 2, "three beats")
        assert yard.built == []
        scene.answers_beats = True
        scene.until(lambda: ready(scene), "the ready beat")
    assert len(yard.built) == 1


def test_a_parked_worker_has_no_desktop_until_it_is_wanted() -> None:
    """It boots none, asks for no work, says so, and builds one when it is told to."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.order = lambda beat: {"park": True}
        scene.until(lambda: parked(scene), "the parked beat")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard + 1, "two more beats")
        assert not any(beat.ready for beat in scene.beats)
        assert yard.built == []
        scene.order = lambda beat: {}
        scene.until(lambda: ready(scene), "the ready beat")
        scene.give()
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"
    assert len(yard.built) == 1


def test_a_worker_is_parked_after_what_it_holds() -> None:
    """The try goes on to its row, then the desktop is closed; it is built anew when the worker is wanted again."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.give()
        scene.order = lambda beat: {"park": True, "held": KEY}
        scene.answer("click")
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"
        scene.until(lambda: parked(scene), "the parked beat")
        assert yard.built[0].calls[-1] == ("close",)
        assert (scene.beats[-1].ready, scene.beats[-1].holds, scene.beats[-1].stored) == (False, None, KEY)
        scene.order = lambda beat: {}
        scene.until(lambda: ready(scene), "the ready beat")
        assert scene.beats[-1].built == 2


def test_what_was_handed_out_before_the_park_is_not_begun_after_it() -> None:
    """Somebody else has it by then."""
    gate, yard = Gate(), Yard()
    with stage(yard.build) as scene:
        scene.until(lambda: ready(scene), "the ready beat")
        scene.push(assign=scene.assignment(KEY), park=True)
        scene.order = lambda beat: {"park": True}
        scene.until(lambda: parked(scene), "the parked beat")
        scene.order = lambda beat: {}
        scene.until(lambda: ready(scene), "the ready beat")
        assert not any(beat.holds for beat in scene.beats)
        yard.built[-1].does["act"] = gate.passing(ActResult(0, "", 0.0, READY))
        scene.give(OTHER)
        scene.answer("DONE")
        gate.open.set()
        scene.store()
    assert [desktop.did("reset") != [] for desktop in yard.built] == [False, True]


def test_a_parked_worker_leaves_when_it_is_told() -> None:
    """It has nothing to close."""
    yard = Yard()
    with stage(yard.build) as scene:
        scene.order = lambda beat: {"park": True}
        scene.until(lambda: parked(scene), "the parked beat")
        scene.order = lambda beat: {"park": True, "leave": True}
        scene.until(lambda: scene.beats[-1].phase == "closing", "the beat of the leaving")
    assert yard.built == []
