"""Does a sentence about a damaged folder name the file, the line, and what is wrong there in words? A real folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folder import RunFolder

from legato_rl.errors import RecordError
from legato_rl.export.profile import profile_run
from legato_rl.records import dump


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("tasks.jsonl", "", "/tasks.jsonl is empty: a run has a task at least"),
        ("tasks.jsonl", "{}\n", "/tasks.jsonl, line 1: task_id is missing"),
        ("tasks.jsonl", "3\n", "/tasks.jsonl, line 1: it is a number, and must be an object"),
        ("rollouts.jsonl", "[1,2]\n", "/rollouts.jsonl, line 1: it is a list, and must be an object"),
        ("rollouts.jsonl", "{}\n", "/rollouts.jsonl, line 1: run_id is missing"),
        ("rollouts.jsonl", "{\n{}\n", "/rollouts.jsonl, line 1: it is no JSON ("),
        ("rollouts.jsonl", f"{'[' * 5000}\n{{}}\n", "/rollouts.jsonl, line 1: it is no JSON (it is nested too deeply)"),
        ("run.json", "{}", "/run.json: run_id is missing"),
        ("run.json", "[]", "/run.json: it is a list, and must be an object"),
        ("run.json", "{", "/run.json: it is no JSON ("),
        ("run.json", "[" * 5000, "/run.json: it is no JSON ("),
    ],
)
def test_damage_is_told_in_words(tmp_path: Path, file: str, content: str, said: str) -> None:
    """Nobody is asked to give a value, and no word of Python's is quoted."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    (folder.run.root / file).write_text(content)
    with pytest.raises(RecordError) as error:
        profile_run(folder.run.root)
    assert str(error.value).startswith(f"{folder.run.root}{said}")


def test_a_row_of_no_group(tmp_path: Path) -> None:
    """Which of the two files is wrong nobody knows: both are named."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    folder.run.rollouts.write_text(json.dumps(dump(folder.row("g", 0, 1.0))) + "\n")
    folder.run.tasks.write_text(folder.run.tasks.read_text().replace('"group_id":"g"', '"group_id":"h"'))
    with pytest.raises(RecordError, match=r"^rollouts.jsonl, line 1: .*'g', which is no group of this run \(tasks.jsonl\)$"):
        profile_run(folder.run.root)
