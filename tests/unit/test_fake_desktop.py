"""Does the fake desktop do, show, grade, wait and fail as it says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from driven_clock import DrivenClock
from hypothesis import given, settings
from hypothesis import strategies as st

from legato_rl.config import DesktopConfig, FakeConfig
from legato_rl.desktop import Desktop, DesktopFailure, Ready
from legato_rl.errors import ConfigError
from legato_rl.fake.desktop import FakeDesktop
from legato_rl.fake.form import request_of
from legato_rl.fake.layout import OPTIONS, RECTS, Control, place_window
from legato_rl.fake.strip import WORDS
from legato_rl.fake.waits import WaitKind, Waits

SIZE = (320, 240)
TASK: dict[str, Any] = {"id": "t", "instruction": "Fill in the form.", "config": [], "evaluator": {"func": "exact_match"}}
IMPOSSIBLE = TASK | {"evaluator": {"func": "infeasible"}}
ROLLOUT = {"rollout_id": "r", "group_id": "g", "attempt": 3, "try": 1}
REQUEST = request_of(TASK, None)
WORD = WORDS[REQUEST.word]


def desktop(clock: DrivenClock | None = None, seed: int | None = None, **fake: Any) -> FakeDesktop:
    """A booted desktop of the smallest size."""
    config = DesktopConfig(backend="fake", screen_size=SIZE, seed=seed, fake=FakeConfig(**fake))
    return FakeDesktop(config, "d0", clock=clock or DrivenClock())


def click(control: Control) -> str:
    """The action that clicks a control of TASK's window."""
    place = place_window(SIZE, REQUEST.across, REQUEST.down)
    x, y = RECTS[control].centre
    return f"pyautogui.click({place.x + x * place.scale}, {place.y + y * place.scale})"


GOOD = (click(OPTIONS[REQUEST.asked]), click("field"), f'pyautogui.typewrite("{WORD}")', click("confirm"), "DONE")
WRONG_OPTION = click(OPTIONS[(REQUEST.asked + 1) % 3])


@pytest.mark.parametrize(
    ("task", "actions", "reward"),
    [
        (TASK, GOOD, 1.0),
        (TASK, ("\n".join(GOOD[:4]),), 1.0),
        (TASK, ("; ".join(("import pyautogui", *GOOD[:4])), "WAIT"), 1.0),
        (TASK, GOOD[:3], 0.0),
        (TASK, (), 0.0),
        (TASK, ("DONE",), 0.0),
        (TASK, (GOOD[0], click("confirm")), 0.5),
        (TASK, (*GOOD[:2], 'pyautogui.typewrite("nonsense")', click("confirm")), 0.5),
        (TASK, (WRONG_OPTION, *GOOD[1:]), 0.0),
        (TASK, (WRONG_OPTION, *GOOD[1:], *GOOD[:1], click("confirm")), 1.0),
        (TASK, (*GOOD, WRONG_OPTION), 1.0),
        (TASK, (*GOOD, click("cancel")), 0.0),
        (TASK, (*GOOD[:4], "FAIL"), 0.0),
        (TASK, (*GOOD[:4], "FAIL", "WAIT"), 1.0),
        (IMPOSSIBLE, ("FAIL",), 1.0),
        (IMPOSSIBLE, ("WAIT", "FAIL"), 1.0),
        (IMPOSSIBLE, ("FAIL", "DONE"), 0.0),
        (IMPOSSIBLE, GOOD, 0.0),
        (IMPOSSIBLE, (), 0.0),
    ],
)
def test_the_verdict_is_the_states(task: dict[str, Any], actions: tuple[str, ...], reward: float) -> None:
    """What was confirmed and not cancelled counts; giving up is worth what the task makes it."""
    guest = desktop()
    guest.reset(task)
    for action in actions:
        assert guest.act(action).rc == 0
    assert guest.evaluate() == reward


def test_a_reset_is_a_fresh_start() -> None:
    """Nothing of the rollout before is left, on the screen or in the verdict."""
    guest = desktop()
    guest.reset(TASK)
    first = guest.observe()
    for action in GOOD:
        guest.act(action)
    assert guest.observe() != first
    guest.reset(TASK)
    assert guest.observe() == first
    assert (guest.evaluate(), guest.actions) == (0.0, [])


def test_a_failing_program_is_a_result() -> None:
    """A non-zero exit keeps the statements before the fault, and says what a guest would."""
    guest = desktop()
    guest.reset(TASK)
    result = guest.act(f"{GOOD[0]}; {click('confirm')}; pyautogui.clack(); {click('cancel')}")
    assert result.rc == 1
    assert "AttributeError: module 'pyautogui' has no attribute 'clack'" in result.stderr
    assert guest.evaluate() == 0.5
    assert guest.act("pyautogui.click(").stderr.splitlines()[-1].startswith("SyntaxError")


def test_a_program_takes_its_time_up_to_the_guests_patience() -> None:
    """Sleeps and durations pass on the clock; a program that outlasts the guest is killed there."""
    clock = DrivenClock()
    guest = desktop(clock, act_s=0.25, settle_s=0.5)
    guest.reset(TASK)
    result = guest.act("import time; time.sleep(2); pyautogui.moveTo(1, 1, duration=1)")
    assert (result.act_s, result.ready) == (3.25, Ready("ready", 0.5))
    result = guest.act("time.sleep(10000); pyautogui.press('tab')")
    assert (result.rc, result.act_s) == (1, 120.25)
    assert result.stderr.endswith("TimeoutExpired: the command timed out after 120 seconds")


def test_waits_are_those_of_the_pure_function() -> None:
    """On any desktop, a seeded rollout sleeps exactly what `Waits` says for its group, attempt and try."""
    fake: dict[str, Any] = {"reset_s": 3, "act_s": 1, "settle_s": 2, "eval_s": 4, "tail": 1}
    waits = Waits(FakeConfig(**fake), 7, "g", 3, 1)
    kinds: tuple[WaitKind, ...] = ("reset", "settle", "act", "settle", "act", "settle", "settle", "eval")
    expected = [waits.next(kind) for kind in kinds]
    for before in (0, 2):
        clock = DrivenClock()
        guest = desktop(clock, seed=7, **fake)
        for _ in range(before):
            guest.reset(TASK)
            guest.act("WAIT")
        clock.slept.clear()
        guest.reset(TASK | {"legato": ROLLOUT})
        ready = guest.wait_after_reset()
        guest.observe()
        guest.act("WAIT")
        guest.act(GOOD[0])
        guest.act("DONE")
        guest.wait_before_eval()
        guest.evaluate()
        assert [seconds for seconds in clock.slept if seconds] == expected
        assert ready == Ready("ready", expected[1])


def test_fixed_waits_take_the_ready_signals_place() -> None:
    """Without the signal every wait for the screen is the fixed one, and says so."""
    clock = DrivenClock()
    config = DesktopConfig(backend="fake", screen_size=SIZE, ready_signal=False, fixed_wait=5)
    guest = FakeDesktop(config, "d0", clock=clock)
    guest.reset(TASK)
    assert guest.wait_after_reset() == guest.act("WAIT").ready == guest.wait_before_eval() == Ready("fixed", 5)


def test_faults_raise_where_they_were_set() -> None:
    """Each fault at rate 1 is a desktop failure of its own type; the evaluator's own fault is none."""
    with pytest.raises(DesktopFailure) as boot:
        desktop(fail_boot=1)
    assert boot.value.type == "boot"
    calls: dict[str, tuple[str, Callable[[FakeDesktop], object]]] = {
        "fail_reset": ("reset", lambda guest: guest.reset(TASK)),
        "fail_observe": ("screenshot", lambda guest: guest.observe()),
        "fail_act": ("action_lost", lambda guest: guest.act("WAIT")),
        "fail_evaluate": ("guest_unreachable", lambda guest: guest.evaluate()),
    }
    for fault, (type_, call) in calls.items():
        rate: dict[str, Any] = {fault: 1}
        guest = desktop(**rate)
        with pytest.raises(DesktopFailure) as failure:
            call(guest)
        assert failure.value.type == type_
    guest = desktop(bug_evaluate=1)
    guest.reset(TASK)
    with pytest.raises(RuntimeError, match="bug_evaluate"):
        guest.evaluate()


def test_a_lost_answer_may_mean_a_delivered_action() -> None:
    """An action whose answer is lost was done nevertheless."""
    guest = desktop(fail_act=1)
    guest.reset(TASK)
    for action in GOOD[:4]:
        with pytest.raises(DesktopFailure):
            guest.act(action)
    assert guest.evaluate() == 1.0


def test_a_hang_never_returns() -> None:
    """The action sleeps for ever: the clock is asked again and again."""

    class Enough(Exception):
        pass

    class ShortClock(DrivenClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now > 86_400:
                raise Enough

    guest = desktop(ShortClock(), hang=1)
    guest.reset(TASK)
    with pytest.raises(Enough):
        guest.act("WAIT")


def test_before_a_task_there_is_an_empty_desktop() -> None:
    """It can be looked at and clicked on, which is its self-check; a verdict it has none."""
    guest = desktop()
    assert isinstance(guest, Desktop)
    before = guest.observe()
    assert guest.act("pyautogui.click(5, 5); pyautogui.typewrite('x')").rc == 0
    assert guest.observe() != before
    with pytest.raises(DesktopFailure, match="before a task"):
        guest.evaluate()
    guest.close()


def test_a_screen_too_small_is_refused() -> None:
    """The message names the size and what to do."""
    with pytest.raises(ConfigError, match=r"screen is '300x240': .* at least 320x240"):
        FakeDesktop(DesktopConfig(backend="fake", screen_size=(300, 240)), "d0")


values = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(["id", "instruction", "config", "evaluator", "snapshot"]), values))
def test_every_task_runs(task: dict[str, Any]) -> None:
    """Whatever a task file holds, it is set up, shown and graded."""
    guest = desktop()
    guest.reset(task)
    assert guest.observe().startswith(b"\x89PNG")
    assert guest.evaluate() == 0.0


def test_a_seed_changes_what_is_asked() -> None:
    """The request is a function of task and seed; the two kinds of task ask differently."""
    asked = [request_of({"id": "t"}, seed) for seed in (None, 1, 2, 3)]
    assert len(set(asked)) == 4
    assert request_of({"id": "t"}, 1) == asked[1]
    assert request_of(IMPOSSIBLE, 1).asked == 3
