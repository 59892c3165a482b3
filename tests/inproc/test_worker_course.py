"""In which order does a try look, act, wait and grade, and which clock runs meanwhile? A real worker, its peers scripted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from scripted_desktop import READY, Gate, ScriptedDesktop, screen
from worker_scene import KEY, Stage, stage

from legato_rl.canonical import sha256_hex
from legato_rl.desktop import ActResult, Ready
from legato_rl.records import Status


def acting(seconds: float, stderr: str = "") -> Callable[[str], ActResult]:
    """An action that takes its time."""

    def act(_: str) -> ActResult:
        threading.Event().wait(seconds)
        return ActResult(0, stderr, seconds, READY)

    return act


def past_actions(scene: Stage) -> bool:
    """Whether the last beat says that only looking and grading are left."""
    holds = scene.beats[-1].holds
    return holds is not None and holds.past_actions


def test_the_time_that_a_call_waits_is_not_the_rollouts() -> None:
    """A minute's pause under a call leaves a rollout of five seconds the time that it acts in."""
    with stage(ScriptedDesktop(does={"act": acting(0.4)}), rollout_timeout=5.0) as scene:
        scene.give()
        scene.answer("one,two", stood_s=60.0)
        ask = scene.answer("DONE")
        row = scene.store()
    assert row["outcome"] == "graded"
    assert [action["action"] for action in row["steps"][0]["actions"]] == ["one", "two"]
    assert ask.deadline_s is not None
    assert ask.deadline_s > 50.0


def test_the_screen_is_looked_at_before_a_timed_out_try_is_graded() -> None:
    """Time is up between two actions: the last screen is the one after the first, and is looked at before the wait."""
    desktop = ScriptedDesktop(does={"act": acting(2.2)})
    with stage(desktop, rollout_timeout=2.0) as scene:
        scene.give()
        scene.answer("one,two")
        row = scene.store(Status.TRUNCATED)
    assert row["outcome"] == "timed_out_graded"
    calls = [call[0] for call in desktop.calls]
    act = calls.index("act")
    assert calls[act : act + 4] == ["act", "observe", "wait_before_eval", "evaluate"]
    assert row["final_image"] == sha256_hex(screen(act + 2))
    assert row["steps"][0]["actions"][0]["obs_s"] > 0.0


@pytest.mark.parametrize("order", [{"stop": "group_closed"}, {"drop": True}])
def test_an_order_before_the_evaluation_is_obeyed(order: dict[str, object]) -> None:
    """What came while the desktop settled is looked at once more: an evaluation may take minutes."""
    gate = Gate()
    desktop = ScriptedDesktop(does={"wait_before_eval": gate.passing(Ready("ready", 0.0))})
    with stage(desktop) as scene:
        scene.give()
        scene.answer("DONE")
        scene.until(gate.reached.is_set, "the wait")
        scene.stop(**order)
        gate.open.set()
        if "stop" in order:
            row = scene.store(Status.CANCELLED)
            assert (row["outcome"], row["reward"], row["n_steps"]) == ("stopped", None, 1)
        scene.until(lambda: scene.beats[-1].ready and scene.beats[-1].holds is None, "the ready beat")
        assert scene.drafts == []
    assert desktop.did("evaluate") == []


def test_an_order_before_the_wait_is_obeyed() -> None:
    """The last look at the screen is under way: nothing is waited for any more."""
    gate = Gate()
    desktop = ScriptedDesktop()
    desktop.does["observe"] = lambda: gate.passing(screen(7))() if desktop.did("act") else screen(1)
    with stage(desktop) as scene:
        scene.give()
        scene.answer("DONE")
        scene.until(gate.reached.is_set, "the last look")
        scene.stop(stop="group_closed")
        gate.open.set()
        scene.store(Status.CANCELLED)
    assert desktop.did("wait_before_eval") == []


def test_a_stop_is_forgotten_with_its_try() -> None:
    """The same try, dropped and held again, runs to its end."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        scene.call()
        scene.push(held=KEY, drop=True, stop="group_closed")
        scene.until(lambda: scene.beats[-1].ready and scene.beats[-1].holds is None, "the ready beat")
        scene.calls.clear()  # the dropped try's, asked again before it heard of the stop
        scene.give()
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


def test_what_a_dropped_try_left_on_the_way_is_forgotten() -> None:
    """Its blobs were never acknowledged: they are not sent again, and hold up no other try's row."""
    with stage(ScriptedDesktop()) as scene:
        scene.stores_blobs = False
        scene.give()
        scene.call()
        scene.until(lambda: len(scene.blobs) == 2, "the blobs of the first step")
        scene.push(held=KEY, drop=True)
        scene.until(lambda: scene.beats[-1].ready and scene.beats[-1].holds is None, "the ready beat")
        left, scene.blobs, scene.stores_blobs = set(scene.blobs), {}, True
        scene.give(KEY.next_try())
        scene.answer("DONE")
        scene.store()
        assert left.isdisjoint(scene.blobs)


@pytest.mark.parametrize("end", ["DONE", "FAIL"])
def test_only_grading_is_left_from_the_last_action_on(end: str) -> None:
    """A resumable stop lets a try finish that says so: from DONE or FAIL on, and not one action earlier."""
    click, last = Gate(), Gate()
    answer = ActResult(0, "", 0.0, READY)
    gates = {"click": click, end: last}
    with stage(ScriptedDesktop(does={"act": lambda action: gates[action].passing(answer)()})) as scene:
        scene.give()
        scene.answer(f"click,{end}")
        scene.until(click.reached.is_set, "the first action")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard, "a beat of the first action")
        assert (scene.beats[-1].phase, past_actions(scene)) == ("act", False)
        click.open.set()
        scene.until(lambda: past_actions(scene), "the beat of the last action")
        scene.until(last.reached.is_set, "the last action")
        assert scene.beats[-1].phase == "act"
        last.open.set()
        scene.store()


@pytest.mark.parametrize(("max_steps", "past"), [(1, True), (2, False)])
def test_only_grading_is_left_from_the_last_steps_look_on(max_steps: int, past: bool) -> None:
    """After the actions of the last step that a rollout may take, nothing is asked any more."""
    gate, desktop = Gate(), ScriptedDesktop()
    desktop.does["observe"] = lambda: gate.passing(screen(7))() if desktop.did("act") else screen(1)
    with stage(desktop) as scene:
        scene.give(max_steps=max_steps)
        scene.answer("click")
        scene.until(gate.reached.is_set, "the step's look at the screen")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard or past_actions(scene), "a beat of the look")
        assert (scene.beats[-1].phase, past_actions(scene)) == ("observe", past)
        assert scene.beats[-1].holds is not None
        assert scene.beats[-1].holds.key == KEY
        gate.open.set()
        if not past:
            scene.answer("DONE")
        scene.store()


def test_storing_is_a_phase_of_its_own() -> None:
    """A sink that is slow with the blobs is waited for without the evaluation's deadline."""
    with stage(ScriptedDesktop()) as scene:
        scene.stores_blobs = False
        scene.give()
        scene.answer("DONE")
        scene.until(lambda: scene.beats[-1].phase == "store", "a beat of the storing")
        assert scene.link.config.deadline("store") is None
        assert past_actions(scene)
        assert scene.drafts == []
        scene.stores_blobs = True
        scene.store()


def test_blobs_that_are_refused_for_good_cost_the_verdict_and_not_the_worker() -> None:
    """The row could never be whole: a bare one accounts for the attempt, and the worker goes on."""
    with stage(ScriptedDesktop()) as scene:
        scene.refuses_blobs = "the bytes are no PNG"
        scene.give()
        scene.answer("DONE")
        row = scene.store(Status.ERROR)
        assert (row["outcome"], row["reward"], row["steps"], row["final_image"]) == ("evaluator_failed", None, [], None)
        assert (row["error"]["type"], row["error"]["message"]) == ("row_refused", "the bytes are no PNG")
        scene.refuses_blobs = ""
        scene.give(KEY.next_try())
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


@pytest.mark.parametrize(("stderr", "kept"), [("\udcff" * 5000, r"\udcff"), ("é" * 5000, "é"), ("x" * 5000, "x")])
def test_what_the_guest_says_is_kept_whatever_it_is(stderr: str, kept: str) -> None:
    """2 kB of it, as text that any file takes."""
    with stage(ScriptedDesktop(does={"act": acting(0.0, stderr)})) as scene:
        scene.give()
        scene.answer("click,DONE")
        row = scene.store()
    said = row["steps"][0]["actions"][0]["stderr"]
    assert said.startswith(kept)
    assert 1990 < len(said.encode()) <= 2000


@pytest.mark.parametrize(
    "result",
    [
        ActResult(None, "", 0.0, READY),  # type: ignore[arg-type]
        ActResult(0, "", float("nan"), READY),
        ActResult(0, b"", 0.0, READY),  # type: ignore[arg-type]
        ActResult(0, "", 0.0, Ready("ready", float("inf"))),
    ],
)
def test_an_action_whose_answer_is_no_answer_is_a_failure_of_the_desktop(result: ActResult) -> None:
    """It would spoil the row: the try has no reward, and the attempt another try."""
    with stage(ScriptedDesktop(does={"act": lambda _: result})) as scene:
        scene.give()
        scene.answer("click")
        row = scene.store(Status.RETRIED)
    assert (row["outcome"], row["error"]["type"], row["error"]["phase"]) == ("desktop_failed", "bad_answer", "act")
    assert row["steps"][0]["actions"] == []
