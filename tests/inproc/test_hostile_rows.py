"""Does the sink stay up whatever a row holds? Values that its fields let in and no file can hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from sink_client import PATIENCE_S
from sink_rows import draft
from sink_scene import House, lines, sink_of_a_run

from legato_rl.frames import WIRE_VERSION
from legato_rl.wire import Refused, RowStored


def nested(depth: int) -> list[Any]:
    """Lists in one another."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES = [nested(300), nested(900), b"\xff\xfe", msgpack.Timestamp(1, 2), [float("nan")], {"a": float("inf")}]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over an empty run."""
    with sink_of_a_run(tmp_path) as house:
        yield house


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("field", ["meta", "run_id", "rollout_id", "task_id", "steps", "error"])
def test_a_value_that_no_file_can_hold_is_refused(house: House, field: str, value: Any) -> None:
    """Or it is stored as what JSON makes of it; whichever, the sink answers, and the next row is stored."""
    asker = house.asker()
    body = msgpack.packb({"row": {**draft(), field: value}})
    asker.client.raw.send_multipart([WIRE_VERSION, b"PutRow", body])
    answer = asker.hear(PATIENCE_S, Refused, RowStored)
    assert answer is not None
    stored = asker.row(draft(attempt=1))
    assert isinstance(stored, RowStored)
    assert stored.row.n == len(lines(house.run)) == 1 + isinstance(answer, RowStored)
