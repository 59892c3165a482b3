"""Does each rollout have its own files, and does no download come twice?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from legato_rl.workers.desktop.cache import OWNED, Cache, downloads
from legato_rl.workers.desktop.owners import owner

URL = "https://example.org/a.xlsx"
TASK: dict[str, Any] = {
    "id": "t",
    "config": [{"type": "download", "parameters": {"files": [{"url": URL, "path": "/home/user/a.xlsx"}]}}],
    "evaluator": {"expected": {"type": "cloud_file", "path": "https://example.org/gold.xlsx", "dest": "gold.xlsx"}},
}


def name_of(task: dict[str, Any], url: str) -> str:
    """The name that OSWorld gives a download."""
    return dict(downloads(task))[url]


def test_names_are_osworlds() -> None:
    """A setup's download by the URL's uuid, a gold file by its own name, several of them in order."""
    assert name_of(TASK, URL) == "27f7583a-3ca3-5277-8a7b-65906c588507_a.xlsx"
    assert name_of(TASK, "https://example.org/gold.xlsx") == "gold.xlsx"
    several = {"type": "cloud_file", "multi": True, "path": ["u1", "u2"], "dest": ["a", "b"]}
    assert list(downloads({"evaluator": {"expected": [None, several]}})) == [("u1", "a"), ("u2", "b")]


def test_two_rollouts_of_a_task(tmp_path: Path) -> None:
    """Their files are apart; what one has downloaded, the other finds."""
    one, two = Cache(tmp_path, "d1"), Cache(tmp_path, "d2")
    first, second = one.begin("r:g:0:0", TASK), two.begin("r:g:1:0", TASK)
    assert first != second
    (first / "t" / "gold.xlsx").write_bytes(b"gold")
    (first / "t" / "result.xlsx").write_bytes(b"mine")
    one.keep()
    assert list((second / "t").iterdir()) == []
    third = two.begin("r:g:1:1", TASK)
    assert not second.exists()
    assert [path.name for path in (third / "t").iterdir()] == ["gold.xlsx"]
    assert (third / "t" / "gold.xlsx").read_bytes() == b"gold"


def test_what_is_not_kept(tmp_path: Path) -> None:
    """A rollout that failed may have half a file: nobody else gets it."""
    cache = Cache(tmp_path, "d")
    (cache.begin("r:g:0:0", TASK) / "t" / "gold.xlsx").write_bytes(b"ha")
    assert list((cache.begin("r:g:0:1", TASK) / "t").iterdir()) == []


@pytest.mark.parametrize("harm", ["written", "deleted"])
def test_a_shared_file_that_was_changed(tmp_path: Path, harm: str) -> None:
    """Written through its link, or gone: it is downloaded again."""
    cache = Cache(tmp_path, "d")
    gold = cache.begin("r:g:0:0", TASK) / "t" / "gold.xlsx"
    gold.write_bytes(b"gold")
    cache.keep()
    gold = cache.begin("r:g:0:1", TASK) / "t" / "gold.xlsx"
    if harm == "written":
        gold.write_bytes(b"changed")
    else:
        gold.unlink()
    assert list((cache.begin("r:g:0:2", TASK) / "t").iterdir()) == []


def test_what_a_dead_one_left(tmp_path: Path) -> None:
    """The next of its name wipes it."""
    left = Cache(tmp_path, "d").begin("r:g:0:0", TASK)
    other = Cache(tmp_path, "e").begin("r:g:0:0", TASK)
    Cache(tmp_path, "d")
    assert not left.exists()
    assert other.exists()


def test_a_name_that_leads_out(tmp_path: Path) -> None:
    """It is not seeded and not shared."""
    task = {"id": "t", "evaluator": {"expected": {"type": "cloud_file", "path": "u", "dest": "../../x"}}}
    cache = Cache(tmp_path, "d")
    cache.begin("r", task)
    (tmp_path / "x").write_bytes(b"")
    cache.keep()
    assert os.listdir(tmp_path / "downloads") == []


def test_what_dead_processes_left(tmp_path: Path) -> None:
    """Their folders are deleted with the next desktop that starts; those of the living, and what says nothing, stay."""
    host, _, pid, began = owner().split(" ")
    for name, named in {"dead": f"{host} an-older-boot {pid} {began}", "living": owner(), "elsewhere": "h b 1 1"}.items():
        Cache(tmp_path, name)
        (tmp_path / "desktops" / name / OWNED).write_text(named)
    (tmp_path / "desktops" / "unknown").mkdir()
    Cache(tmp_path, "new")
    assert {path.name for path in (tmp_path / "desktops").iterdir()} == {"living", "elsewhere", "unknown", "new"}
