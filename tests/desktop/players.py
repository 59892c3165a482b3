"""Who plays rollouts at the same time? Processes with a desktop each, as workers are: OSWorld's code is made for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import pytest
from patience import be_patient

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.osworld import OSWorldDesktop

GIVE_BACK_S = 120.0


@dataclass(frozen=True)
class Played:
    """What came of a rollout. `ways`: how many of the desktop's resets so far went which way."""

    verdict: float
    seconds: float
    ways: dict[str, int]


_desktop: OSWorldDesktop | None = None
"""This process' desktop."""


def _boot(config: DesktopConfig, name: str) -> None:
    global _desktop
    be_patient(pytest.MonkeyPatch())
    _desktop = OSWorldDesktop(config, name)


def _give_back() -> None:
    if _desktop is not None:
        _desktop.close()


def _play(task: dict[str, Any], actions: Sequence[str]) -> Played:
    assert _desktop is not None, "the desktop did not boot"
    start = SYSTEM_CLOCK.monotonic()
    _desktop.reset(task)
    _desktop.wait_after_reset()
    _desktop.observe()
    for action in actions:
        done = _desktop.act(action)
        assert done.rc == 0, (action, done.stderr)
    _desktop.wait_before_eval()
    verdict = _desktop.evaluate()
    return Played(verdict, SYSTEM_CLOCK.monotonic() - start, dict(_desktop.resets.counts))


class Player:
    """One process with its desktop. It plays what it is given one after the other."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._booted = self._process.submit(_boot, config, name)

    def play(self, entry: dict[str, Any], actions: Sequence[str], rollout: str) -> Future[Played]:
        """A whole rollout of a task of the set."""
        task = deepcopy(entry["config"])
        task["legato"] = {"rollout_id": rollout, "group_id": "g", "attempt": 0, "try": 0, "domain": entry["domain"]}
        return self._process.submit(_play, task, list(actions))

    def close(self) -> None:
        """Give the desktop back."""
        self._process.submit(_give_back).result(GIVE_BACK_S)
        self._process.shutdown()
        self._booted.result(0)


@contextmanager
def players(config: DesktopConfig, *names: str) -> Iterator[list[Player]]:
    """Desktops of these names; they boot at once and are given back."""
    all_of_them = [Player(config, name) for name in names]
    try:
        yield all_of_them
    finally:
        for player in all_of_them:
            player.close()
