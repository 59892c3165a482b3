"""Are the facts of rows those of the whole rows, though nobody reads their steps?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.errors import RecordError
from legato_rl.export.reader import RowFile
from legato_rl.records import Outcome, Status
from legato_rl.rundir import RunDir

ROW = {
    **{"run_id": "r", "rollout_id": "r:g:1:0", "group_id": "g", "attempt": 1, "try": 0, "outcome": "graded", "status": "ok"},
    **{"reward": 1.0, "policy": {"model": "m", "version": "v", "versions": ["v", "w"]}},
}
SCALARS = st.none() | st.integers() | st.text(max_size=5)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))


def facts_of(folder: Path, line: bytes) -> tuple[object, ...]:
    """What is read of a line that another one follows."""
    run = RunDir(folder)
    run.rollouts.write_bytes(line + b"\n" + json.dumps(ROW).encode() + b"\n")
    with RowFile(run) as file:
        first, _ = file.facts()
    return first.rollout_id, first.attempt, first.try_, first.outcome, first.status, first.reward, first.versions, first.offset


EXPECTED = ("r:g:1:0", 1, 0, Outcome.GRADED, Status.OK, 1.0, 2, 0)


@given(meta=JSON, steps=st.lists(JSON, max_size=2), separators=st.sampled_from([(",", ":"), (", ", ": ")]), first=st.booleans())
def test_facts_are_those_of_the_whole_row(
    tmp_path_factory: pytest.TempPathFactory, meta: Any, steps: list[Any], separators: tuple[str, str], first: bool
) -> None:
    """Whatever stands before the steps, wherever they stand, and however the row was written."""
    row = {"steps": steps, **ROW, "meta": meta} if first else {"meta": meta, **ROW, "steps": steps, "final_image": None}
    assert facts_of(tmp_path_factory.mktemp("run"), json.dumps(row, separators=separators).encode()) == EXPECTED


def test_steps_are_not_read(tmp_path: Path) -> None:
    """They are most of a file of many gigabytes."""
    line = json.dumps({**ROW, "steps": []}, separators=(",", ":")).encode()
    assert facts_of(tmp_path, line.replace(b"[]", b"[damaged")) == EXPECTED


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"3", b"{}", b'{"steps":[]}', b'{"status":"ok"', b'{"\xff":1}', b"{[1]:2}", b"[" * 5000]
)
def test_what_is_no_row_is_named_by_its_line(tmp_path: Path, line: bytes) -> None:
    """As ever."""
    with pytest.raises(RecordError, match="line 1: it is no rollout"):
        facts_of(tmp_path, line)
