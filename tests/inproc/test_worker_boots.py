"""Does a worker boot and revert only when its turn has come?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from scripted_desktop import ScriptedDesktop
from worker_scene import stage

from legato_rl.wire import Beat


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


def test_a_worker_that_ends_while_it_waits() -> None:
    """It boots nothing."""
    with waiting() as (_, desktop, _turns):
        pass
    assert desktop.calls == []
