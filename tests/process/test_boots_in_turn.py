"""Do all desktops of a service come up that may boot only one by one? `legato-rl serve` and real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_runs import PATIENCE_S
from whole_services import serving

from legato_rl.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.process


def test_a_worker_waits_for_its_turn_longer_than_a_closing_may_take(tmp_path: Path) -> None:
    """The last of three waits for two boots of two seconds: no worker ends itself, and none of the desktops is out."""
    options = ("--desktops", 3, "--max-booting", 1, "--fake", "boot_s=2", "--deadline", "closing=1")
    with serving(tmp_path / "d", *options) as (_, client):
        give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        desktops: dict[str, int] = {}
        while desktops != {"idle": 3}:
            assert SYSTEM_CLOCK.monotonic() < give_up, f"the desktops did not come up: {desktops}"
            SYSTEM_CLOCK.sleep(0.1)
            status = client.status()
            desktops = status.desktops if status is not None else {}
        logs = "".join(log.read_text() for log in (tmp_path / "d" / "logs").glob("worker-*.log*"))
    assert "passed its deadline" not in logs
