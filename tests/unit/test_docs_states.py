"""Has docs/states.md every table of transitions that the code has?"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_table_is_in_the_docs() -> None:
    """A module that has one is named there."""
    page = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    folders = ("broker", "workers", "legato_rl")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if "\nTRANSITIONS" in path.read_text()]
    assert len(modules) >= 2
    assert [path for path in modules if f"`{path.relative_to(ROOT)}`" not in page] == []
