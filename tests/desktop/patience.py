"""How long do these tests wait for a guest's answers? Longer than a run does: what is late here is no loss."""

from __future__ import annotations

import pytest

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
