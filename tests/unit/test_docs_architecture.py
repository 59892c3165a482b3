"""docs/architecture.md has the sockets as they are, and docs/modules.md every module once."""

from __future__ import annotations

import re
from pathlib import Path

from legato_rl.endpoints import ENDPOINTS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("legato", "legato_rl", "workers", "broker")


def test_the_sockets_are_those_of_the_table() -> None:
    """Name, binder and bounds of every endpoint, in the table's order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    endpoints = [(e.name, e.binder, e.hwm, e.linger_ms, e.max_bytes / 2**20) for e in ENDPOINTS.values()]
    assert [(name, binder, *map(int, bounds)) for name, binder, *bounds in rows] == endpoints


def test_every_module_has_its_line() -> None:
    """The map names every file that is not empty, once and in order, and no other."""
    page = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.stat().st_size]
    assert re.findall(r"^\| `([\w/]+\.py)` \| \S.* \|$", page, re.MULTILINE) == sorted(
        str(path.relative_to(ROOT)) for path in files
    )
