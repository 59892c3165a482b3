"""Is every kind of damage to a true folder found, under its own code, in its place, and nothing else reported?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from true_folder import G0, make_eventful, make_spotless
from verify_damages import CASES, KEY, SPOTLESS, Damage, row

from legato_rl.rundir import RunDir
from legato_rl.verify import CODES, verify


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The true folders that copies are damaged of."""
    root = tmp_path_factory.mktemp("true")
    make_eventful(root / "eventful")
    make_spotless(root / "spotless")
    return {name: root / name for name in ("eventful", "spotless")}


def check(folder: Path, copy: Path, damage: Damage, found: dict[str, str]) -> None:
    """Damage a copy of a true folder: exactly these codes are found, each in its place."""
    run = RunDir(Path(shutil.copytree(folder, copy)))
    damage(run)
    faults = verify(copy, KEY)
    assert {fault.code for fault in faults} == found.keys(), faults
    for fault in faults:
        place = found[fault.code]
        assert fault.where == place or (place.endswith("*") and fault.where.startswith(place[:-1])), fault
        assert fault.message
        assert KEY not in fault.where + fault.message


@pytest.mark.parametrize(("damage", "found"), [(d, f) for _, d, f in CASES], ids=[name for name, _, _ in CASES])
def test_damage_is_found(folders: dict[str, Path], tmp_path: Path, damage: Damage, found: dict[str, str]) -> None:
    """One damage to a run with every outcome."""
    check(folders["eventful"], tmp_path / "run", damage, found)


@pytest.mark.parametrize(("damage", "found"), [(d, f) for _, d, f in SPOTLESS], ids=[name for name, _, _ in SPOTLESS])
def test_what_nothing_can_have_left_is_found(
    folders: dict[str, Path], tmp_path: Path, damage: Damage, found: dict[str, str]
) -> None:
    """One damage to a run in which every try was graded and stored."""
    check(folders["spotless"], tmp_path / "run", damage, found)


def test_a_status_that_has_no_reward_hides_no_other_fault(folders: dict[str, Path], tmp_path: Path) -> None:
    """Groups cannot be made of such a row; what can be said of it, and of the others, is said all the same."""
    error = {"kind": "env", "phase": "act", "type": "t", "message": "m"}
    damage = row(G0, lambda value: value.update(outcome="desktop_failed", reward=None, error=error))
    check(folders["eventful"], tmp_path / "run", damage, {"row-status": "rollouts.jsonl:*"})


def test_every_code_is_found_by_some_damage() -> None:
    """No code is only words."""
    assert {code for _, _, found in CASES + SPOTLESS for code in found} == CODES.keys()
