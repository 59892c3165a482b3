"""Does a worker boot and revert only when its turn has come?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from driven_clock import DrivenClock
from scripted_desktop import ScriptedDesktop
from worker_scene import KEY, PATIENCE_S, stage

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig, Phase
from legato_rl.endpoints import address
from legato_rl.records import Status
from legato_rl.role import Quit
from legato_rl.sockets import Client, Context, Received, Server, wait
from legato_rl.wire import Beat, Order
from legato_rl.workers.link import Link


class Booting(ScriptedDesktop):
    """A desktop whose every reset is a revert."""

    boot_token: Callable[[], AbstractContextManager[None]] = nullcontext

    def reset(self, task: dict[str, Any]) -> None:
        with self.boot_token():
            super().reset(task)


class Turns:
    """A broker that says whose turn it is."""

    def __init__(self) -> None:
        self.open = False

    def __call__(self, beat: Beat) -> dict[str, Any]:
        return {"may_boot": beat.boot_ask if self.open else 0}


@contextmanager
def waiting() -> Iterator[tuple[Any, Booting, Turns]]:
    """A worker that waits for its first boot."""
    desktop, turns = Booting(), Turns()
    with stage(lambda: desktop, max_booting=1) as scene:
        scene.order = turns
        scene.until(lambda: scene.beats and scene.beats[-1].boot_ask == 1, "the first boot")
        yield scene, desktop, turns


def test_a_boot_and_a_revert_wait_their_turn() -> None:
    """Nothing is booted before; each boot has its number, and none is asked for when it is done."""
    with waiting() as (scene, desktop, turns):
        beats = len(scene.beats)
        scene.until(lambda: len(scene.beats) > beats, "another beat")
        assert desktop.calls == []
        turns.open = True
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        assert scene.beats[-1].boot_ask == 0
        turns.open = False
        scene.give()
        scene.until(lambda: scene.beats[-1].boot_ask == 2, "the revert")
        # a late grant of the first boot is not one of the second
        scene.push(may_boot=1, held=scene.beats[-1].holds.key)
        beats = len(scene.beats)
        scene.until(lambda: len(scene.beats) > beats, "another beat")
        assert desktop.did("reset") == []
        turns.open = True
        scene.answer("DONE")
        assert len(desktop.did("reset")) == 1
        scene.store()


def test_a_worker_that_waits_for_its_turn_is_booting() -> None:
    """It closes nothing: it has no desktop yet."""
    with waiting() as (scene, _desktop, _turns):
        assert {beat.phase for beat in scene.beats} == {"booting"}


def test_a_worker_that_ends_while_it_waits() -> None:
    """It boots nothing."""
    with waiting() as (_, desktop, _turns):
        pass
    assert desktop.calls == []


def test_a_worker_that_is_to_have_no_desktop_while_it_waits() -> None:
    """It asks for no boot any more, and asks anew once it is wanted again."""
    with waiting() as (scene, desktop, turns):
        scene.order = lambda beat: {"park": True}
        scene.until(lambda: scene.beats[-1].phase == "parked", "a beat of the rest")
        assert (scene.beats[-1].boot_ask, desktop.calls) == (0, [])
        scene.order, turns.open = turns, True
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")


def test_a_worker_that_is_told_to_leave_while_it_waits() -> None:
    """It boots nothing and goes, though its turn never comes."""
    with waiting() as (scene, desktop, _turns):
        scene.order = lambda beat: {"leave": True}
        scene.until(lambda: scene.beats[-1].phase == "closing", "a beat of the end")
        assert (scene.beats[-1].boot_ask, desktop.calls) == (0, [])


@contextmanager
def reverting() -> Iterator[tuple[Any, Booting, Turns]]:
    """A worker whose try waits for its revert."""
    with waiting() as (scene, desktop, turns):
        turns.open = True
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        turns.open = False
        scene.give()
        scene.until(lambda: scene.beats[-1].boot_ask == 2, "the revert")
        yield scene, desktop, turns


def test_a_try_that_is_stopped_while_it_waits_for_its_revert() -> None:
    """Its row says so; nothing is reverted."""
    with reverting() as (scene, desktop, _turns):
        scene.push(held=KEY, stop="group_closed")
        row = scene.store(Status.CANCELLED)
        assert (row["outcome"], row["n_steps"], desktop.did("reset")) == ("stopped", 0, [])
        scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        assert scene.beats[-1].boot_ask == 0


@pytest.mark.parametrize("how", ["dropped", "the process ends"])
def test_a_try_that_is_dropped_while_it_waits_for_its_revert(how: str) -> None:
    """There is no row, and nothing is reverted."""
    with reverting() as (scene, desktop, _turns):
        if how == "dropped":
            scene.push(held=KEY, drop=True)
            scene.until(lambda: scene.beats[-1].ready, "the ready beat")
        else:
            scene.link.quit_.ask()
            scene.until(lambda: scene.beats[-1].dropped == KEY, "the beat that gives the try back")
        assert (scene.beats[-1].holds, scene.beats[-1].boot_ask) == (None, 0)
        assert (scene.drafts, desktop.did("reset")) == ([], [])


@pytest.mark.parametrize("order", [{"leave": True}, {"park": True}])
def test_a_try_is_reverted_though_its_worker_is_to_go_afterwards(order: dict[str, Any]) -> None:
    """Both orders are for a worker that holds nothing."""
    with reverting() as (scene, desktop, turns):
        scene.order = lambda beat: {**order, **turns(beat)}
        heard = len(scene.beats)
        scene.until(lambda: len(scene.beats) > heard + 2, "three more beats: the order is heard between them")
        assert scene.beats[-1].boot_ask == 2
        turns.open = True
        scene.answer("DONE")
        assert len(desktop.did("reset")) == 1
        scene.store()


class Mortal(Link):
    """A link whose end is noted: what it ends in earnest is the process, which here is the test's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ended: list[str] = []

    def _end(self, phase: Phase, orders: Client) -> None:
        self.ended.append(phase)
        self.quit()


@pytest.mark.parametrize("phase", ["booting", "reset"])
def test_the_time_of_a_boot_begins_with_its_turn(phase: Phase, tmp_path: Path) -> None:
    """The wait may last for days; the boot then has all of its phase's time, and not more."""
    clock, turn, over = DrivenClock(), Event(), Event()
    link = Mortal("w", "b", DesktopConfig(backend="fake", deadlines={phase: 100.0}), clock, Quit())

    def boot() -> None:
        with link.boot_token():
            turn.set()
            over.wait(PATIENCE_S)

    with Context() as context, context.server("orders", address(tmp_path, "orders")) as broker:
        with context.client("orders", address(tmp_path, "orders")) as orders:
            link.phase(phase)
            threads = [Thread(target=link.serve, args=(orders,)), Thread(target=boot)]
            for thread in threads:
                thread.start()
            try:
                peer = hear(broker, lambda beat: beat.boot_ask == 1).peer
                for days in (10, 20, 30):
                    # A beat is due each time (one more may be here from before); between two the deadline is looked at.
                    clock.now = days * 86400.0
                    hear(broker)
                broker.send(peer, Order(boot="b", may_boot=1))
                assert turn.wait(PATIENCE_S)
                for seconds in (90.0, 8.0, 1.0):
                    clock.now += seconds
                    hear(broker)
                assert link.ended == []
                clock.now += 1.0
                threads[0].join(PATIENCE_S)
                assert link.ended == [phase]
            finally:
                over.set()
                link.quit()
                for thread in threads:
                    thread.join(PATIENCE_S)


def hear(broker: Server, accept: Callable[[Beat], bool] = lambda beat: True) -> Received:
    """The next beat that `accept` takes."""
    give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < give_up:
        wait([broker], 1.0)
        for received in broker.receive():
            if isinstance(received.message, Beat) and accept(received.message):
                return received
    raise AssertionError("no such beat came")
