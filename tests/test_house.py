"""Does the tree keep the rules that no linter knows? Short files, pure modules, one home for each outside thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("legato", "legato_rl", "workers", "broker")
TREE = (*PRODUCT, "tests", "bench", "docs", ".ci")
MAX_LINES = 300

PURE = [
    "broker/core.py",
    "broker/groups.py",
    "broker/roster.py",
    "legato_rl/canonical.py",
    "legato_rl/errors.py",
    "legato_rl/export/groups.py",
    "legato_rl/prompt_ids.py",
    "legato_rl/records.py",
    "legato_rl/scoring.py",
    "legato_rl/status.py",
    *("legato_rl/wire/control.py", "legato_rl/wire/orders.py", "legato_rl/wire/policy.py", "legato_rl/wire/rows.py"),
    "workers/agent/actions.py",
    "workers/agent/folding.py",
    "workers/agent/images.py",
    "workers/agent/messages.py",
    "workers/agent/parser.py",
    "workers/agent/png.py",
    "workers/agent/prompt.py",
    "workers/agent/qwen.py",
    "workers/agent/reasoning.py",
]
"""Modules whose answers follow from their arguments alone. A docstring with the word PURE puts a module here too."""

IMPURE = {
    *("asyncio", "concurrent", "docker", "logging", "multiprocessing", "os", "random", "requests", "secrets"),
    *("select", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid", "zmq"),
}
"""Roots of what a pure module may not import."""

HOMES = {
    "time": re.compile(r"(legato_rl|workers/desktop/guest_server)/clock\.py"),
    "zmq": re.compile(r"legato_rl/(sockets|curve)\.py"),
    "click": re.compile(r"legato_rl/cli/\w+\.py|(workers|broker)/(\w+/)?main\.py"),
}
"""Where alone in the product a module is imported."""

CLOCK_READS = re.compile(r"\b(?:datetime|date)\.(?:now|utcnow|today)\(")
"""The other way to ask what time it is."""

PLACES = re.compile(r"(?<![\w.\-/])/(?:work|root|home)\b(?!/(?:user|me)\b)")
"""Absolute paths of somebody's machine; /home/user is a guest's and /home/me a reader's."""

TEXT = {".py", ".sh", ".md", ".json", ".txt", ".toml", ".cfg", ".yml", ".html", ""}


def files(*folders: str, suffix: str = ".py") -> list[str]:
    """Paths of the files below `folders` that end in `suffix`, from the root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}") if path.is_file())
    return sorted(str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts)


def read(path: str) -> str:
    """The text of a file of the tree."""
    return (ROOT / path).read_text(encoding="utf-8")


def imported_roots(path: str) -> Iterator[str]:
    """First parts of all absolute imports in a file, also inside functions."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", files(*TREE) + files(*TREE, suffix=".sh"))
def test_file_is_short(path: str) -> None:
    """No source file is over 300 lines: a longer one answers more than one question."""
    lines = read(path).count("\n")
    assert lines <= MAX_LINES


def says_pure(path: str) -> bool:
    """Whether a module's docstring calls it PURE."""
    return "PURE" in (ast.get_docstring(ast.parse(read(path))) or "")


@pytest.mark.parametrize("path", sorted({*PURE, *filter(says_pure, files(*PRODUCT))}))
def test_pure_module_imports_nothing_impure(path: str) -> None:
    """A pure module has no socket, clock, file, process, thread, log or dice."""
    assert IMPURE.intersection(imported_roots(path)) == set()


@pytest.mark.parametrize("path", files(*PRODUCT))
def test_module_has_its_home(path: str) -> None:
    """`time`, `zmq` and `click` are imported in their homes alone."""
    roots = set(imported_roots(path))
    assert [name for name, home in HOMES.items() if name in roots and not home.fullmatch(path)] == []


def test_clock_is_read_in_its_home() -> None:
    """Nobody asks `datetime` for the time: it comes from a Clock."""
    assert [path for path in files(*PRODUCT) if CLOCK_READS.search(read(path)) and not HOMES["time"].fullmatch(path)] == []


@pytest.mark.parametrize("path", files("tests"))
def test_no_test_sleeps(path: str) -> None:
    """Tests wait for what they wait for, with a deadline; they never sleep."""
    tree = ast.parse(read(path))
    calls = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep"]
    names = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(n.name == "sleep" for n in node.names)
    ]
    assert calls + names == []


def test_no_path_of_a_machine() -> None:
    """No file names a folder of the machine that it was written on."""
    top = [path.name for path in ROOT.iterdir() if path.is_file()]
    texts = [path for path in top + files(*TREE, suffix="") if Path(path).suffix in TEXT]
    assert [path for path in texts if PLACES.search(read(path))] == []
