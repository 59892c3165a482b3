"""Does docs/examples/ask_status.py, which knows zmq and msgpack alone, speak the protocol?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.sockets import Context, wait
from legato_rl.wire import GroupCounts, RunStatus, StatusAsk

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "ask_status.py"
PATIENCE_S = 30.0


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder of a name that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="legato-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("service", [True, False])
def test_the_example_is_answered(sockets: Path, service: bool) -> None:
    """It asks the broker of a run, or of a service, and prints the answer as JSON."""
    known = {"sockets": str(sockets), **({"control": address(sockets, "control")} if service else {})}
    (sockets / ("service.json" if service else "run.json")).write_text(json.dumps(known))
    counts = GroupCounts(total=2, closed=1, short=0, open=1)
    with Context() as context, context.server("control", address(sockets, "control")) as control:
        command = [sys.executable, EXAMPLE, sockets]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as example:
            deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
            while example.poll() is None and SYSTEM_CLOCK.monotonic() < deadline:
                wait([control], 0.1)
                for received in control.receive():
                    assert isinstance(received.message, StatusAsk)
                    control.send(
                        received.peer,
                        RunStatus(
                            id=received.message.id, run="r1", state="running", reason="", groups=counts, rows={"ok": 4},
                            attempts_total=8, attempts_ended=4, desktops={"act": 2}, policy="up", sink_message="",
                            policy_message="", queued=0, running=1,
                        ),
                    )  # fmt: skip
            assert example.stdout is not None
            said = example.stdout.read()
    assert example.returncode == 0, said
    told = json.loads(said)
    assert (told["state"], told["groups"]["closed"], told["rows"]) == ("running", 1, {"ok": 4})
