"""How long do these tests wait for a guest's answers? Longer than a run does: what is late here is no loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import browser, env, evaluate, guest, lease, ready

ANSWER_S = 60.0
"""Seconds of an answer that takes a fraction of one: a busy machine may stand still for a quarter of a minute."""
SHORT = (
    *((module, "PROBE_S") for module in (browser, env, evaluate, guest, lease, ready)),
    (guest, "SCREENSHOT_S"),
)
"""The limits that are shorter."""


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """Lengthen them."""
    for module, name in SHORT:
        patch.setattr(module, name, ANSWER_S)


@contextmanager
def failing(fault: str, limit: Callable[[pytest.MonkeyPatch, float], None]) -> Iterator[pytest.ExceptionInfo[DesktopFailure]]:
    """What is done within it fails. An answer that hangs is given up in a second there, by `limit`, and nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        if fault == "hang":
            limit(patch, 1.0)
        with pytest.raises(DesktopFailure) as failure:
            yield failure
