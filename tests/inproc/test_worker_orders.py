"""Does a worker hold what it should, and hand over what it has, however its peers repeat, refuse or fall silent?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from scripted_desktop import READY, Gate, ScriptedDesktop
from worker_scene import KEY, PATIENCE_S, reply, stage

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.desktop import ActResult
from legato_rl.endpoints import address
from legato_rl.records import RolloutKey, Status
from legato_rl.role import Quit
from legato_rl.sockets import Context, Received, Server, wait
from legato_rl.wire import Assignment, Beat, Order, Refused, StatusAsk
from legato_rl.workers.link import Link

OTHER = RolloutKey(run="r1", group="g1", attempt=1, try_=0)


def test_the_beats_tell_what_is_held() -> None:
    """Ready without a try; then the try, its lease, phase and step; past the actions while it is graded; then stored."""
    gate = Gate()
    with stage(ScriptedDesktop(does={"evaluate": gate.passing(1.0)})) as scene:
        scene.until(lambda: scene.beats and scene.beats[-1].ready, "the ready beat")
        ready = scene.beats[-1]
        assert (ready.worker, ready.boot, ready.holds, ready.stored, ready.built) == ("worker-000", "boot-1", None, None, 1)
        assert scene.beats[0].phase == "booting"
        scene.give()
        ask = scene.answer("DONE")
        scene.until(lambda: scene.beats[-1].holds and scene.beats[-1].holds.past_actions, "a beat of the evaluation")
        holds = scene.beats[-1].holds
        assert holds is not None
        assert (holds.key, holds.lease, holds.step) == (KEY, ask.call.lease, 0)
        assert not scene.beats[-1].ready
        gate.open.set()
        scene.store()
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        assert (scene.beats[-1].holds, scene.beats[-1].stored) == (None, KEY)


def test_each_try_has_its_own_lease() -> None:
    """A random number, drawn when the try starts."""
    with stage(ScriptedDesktop()) as scene:
        leases = set()
        for key in (KEY, KEY.next_try(), OTHER):
            scene.give(key)
            leases.add(scene.answer("DONE").call.lease)
            scene.store()
    assert len(leases) == 3


def test_late_and_repeated_orders_change_nothing() -> None:
    """An assignment of what is stored, of another try while one is held, for another process; a stop for another try."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        ask, received = scene.call()
        scene.push(held=OTHER, stop="group_closed")
        scene.push(held=OTHER, drop=True)
        scene.push(held=KEY, drop=True, boot="boot-0")
        scene.tell(received, reply(ask, "DONE"))
        row = scene.store()
        assert row["outcome"] == "graded"
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        before = len(scene.beats)
        scene.order = lambda beat: {"held": KEY, "drop": True, "stop": "asked"}
        scene.until(lambda: len(scene.beats) > before, "another beat")
        scene.order = lambda beat: {}
        scene.give(OTHER)
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


def test_a_stored_try_is_not_taken_again() -> None:
    """The broker repeats an assignment that it had sent before it heard of the row."""
    with stage(desktop := ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("DONE")
        first = scene.store()
        scene.push(assign=scene.assignment(KEY))
        scene.give(OTHER)
        scene.answer("DONE")
        second = scene.store()
    assert (first["attempt"], second["attempt"]) == (0, 1)
    assert len(desktop.did("reset")) == 2


@pytest.mark.parametrize("reason", ["group_closed", "asked"])
def test_a_stop_while_waiting_for_the_policy(reason: str) -> None:
    """The call is cancelled until the proxy says gone; the row keeps the steps before, and the reason."""
    with stage(desktop := ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("click")
        ask, _ = scene.call()
        scene.push(held=KEY, stop=reason)
        row = scene.store(Status.CANCELLED)
        assert ask.call in [cancel.call for cancel in scene.cancels]
    assert (row["outcome"], row["cancel_reason"], row["reward"], row["error"]) == ("stopped", reason, None, None)
    assert row["n_steps"] == 1
    assert desktop.did("evaluate") == []


def test_a_stop_in_the_middle_of_the_actions() -> None:
    """The action under way is done, the next is not; both the step and what ran are in the row."""
    gate = Gate()
    with stage(desktop := ScriptedDesktop(does={"act": gate.passing(ActResult(0, "", 0.1, READY))})) as scene:
        scene.give()
        scene.answer("one,two")
        scene.until(gate.reached.is_set, "the first action")
        scene.stop(stop="group_closed")
        gate.open.set()
        row = scene.store(Status.CANCELLED)
    assert (row["outcome"], row["n_steps"]) == ("stopped", 1)
    assert [action["action"] for action in row["steps"][0]["actions"]] == ["one"]
    assert desktop.did("act") == [("one",)]


def test_a_stop_of_a_try_that_is_being_graded() -> None:
    """It finishes: the evaluation under way is worth its row."""
    gate = Gate()
    with stage(ScriptedDesktop(does={"evaluate": gate.passing(0.5)})) as scene:
        scene.give()
        scene.answer("DONE")
        scene.until(gate.reached.is_set, "the evaluation")
        scene.stop(stop="group_closed")
        gate.open.set()
        row = scene.store(Status.SURPLUS)
    assert (row["outcome"], row["reward"]) == ("graded", 0.5)


@pytest.mark.parametrize("where", ["policy", "act"])
def test_a_dropped_try_leaves_no_row(where: str) -> None:
    """Its call is cancelled, nothing is sent to the sink, and the worker is ready for another."""
    gate = Gate()
    if where == "policy":
        gate.open.set()
    desktop = ScriptedDesktop(does={"act": gate.passing(ActResult(0, "", 0.1, READY))})
    with stage(desktop) as scene:
        scene.give()
        if where == "policy":
            scene.call()
        else:
            scene.answer("one,two")
            scene.until(gate.reached.is_set, "the first action")
        if where == "act":
            scene.stop(drop=True)
        else:
            scene.push(held=KEY, drop=True)
        gate.open.set()
        scene.until(lambda: scene.beats[-1].ready and scene.beats[-1].holds is None, "the ready beat")
        assert (scene.beats[-1].stored, scene.beats[-1].dropped) == (None, None), "the broker knows that it asked for it"
        assert scene.drafts == []
        assert scene.cancels
        scene.give()  # the very same try may be held again
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


def test_a_rebuild_is_done_once() -> None:
    """The order repeats in every answer; the desktop with that number is built once, and then work goes on."""
    desktops: list[ScriptedDesktop] = []

    def build() -> ScriptedDesktop:
        desktops.append(ScriptedDesktop())
        return desktops[-1]

    with stage(build) as scene:
        scene.order = lambda beat: {"rebuild": 2}
        scene.until(lambda: scene.beats and scene.beats[-1].built == 2 and scene.beats[-1].ready, "the rebuilt desktop")
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard + 1, "two more beats")
        assert scene.beats[-1].built == 2
        scene.give()
        scene.answer("DONE")
        scene.store()
    assert [desktop.calls[-1] for desktop in desktops] == [("close",), ("close",)]


def test_a_worker_survives_a_broker_that_talks_nonsense() -> None:
    """A message that is no order is logged and changes nothing."""
    with stage(ScriptedDesktop()) as scene:
        scene.until(lambda: scene.beats, "a beat")
        scene.orders.send(scene._peer, StatusAsk(id="x"))
        scene.orders.send(scene._peer, Refused(about="Beat", reason="no"))
        scene.give()
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


@pytest.mark.parametrize("begun", [True, False])
def test_the_last_beat_gives_back_what_is_held(begun: bool, tmp_path: Path) -> None:
    """The process ends at once: its last beat leaves all the same, also for a try that was not begun yet."""
    quit_ = Quit()
    link = Link("w", "b", DesktopConfig(backend="fake"), SYSTEM_CLOCK, quit_)
    with Context() as context, context.server("orders", address(tmp_path, "orders")) as broker:
        with context.client("orders", address(tmp_path, "orders")) as orders:
            link.ready()
            thread = Thread(target=link.serve, args=(orders,))
            thread.start()
            peer = hear(broker, lambda beat: beat.ready and 0.0 < beat.started <= SYSTEM_CLOCK.monotonic()).peer
            given = Assignment(key=KEY, task_id="g1", domain=None, task={}, max_steps=1)
            broker.send(peer, Order(boot="b", assign=given))
            wait([link.news], PATIENCE_S)
            link.quit()
            thread.join()
            if begun:
                assert link.take(1) is not None
            quit_.ask()
            if begun:
                link.release(stored=False)
            link.end()
            link.serve(orders)
        hear(broker, lambda beat: beat.dropped == KEY and beat.holds is None and not beat.ready)


def hear(broker: Server, accept: Callable[[Beat], bool]) -> Received:
    """The next beat that `accept` takes."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        wait([broker], 1.0)
        for received in broker.receive():
            if isinstance(received.message, Beat) and accept(received.message):
                return received
    raise AssertionError("no such beat came")
