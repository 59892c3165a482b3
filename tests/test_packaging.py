"""Does what is installed equal what is in the tree, and do its parts keep apart?"""

from __future__ import annotations

import ast
import configparser
import importlib
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

from legato_rl.workers.desktop.image.context import HERE, inputs

ROOT = Path(__file__).resolve().parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
LISTED = SETUP["options"]["packages"].split()

FOLDERS = {"legato": "legato", "legato_rl": "legato_rl", "workers": "legato_rl.workers", "broker": "legato_rl.broker"}
"""Top-level folder, and the package that it installs as."""

PROCESSES = ("legato_rl.workers", "legato_rl.broker", "legato_rl.broker.proxy", "legato_rl.broker.sink")
"""Parts that meet on the wire only. A part's modules are those below it that are in no deeper part."""


def module_name(source: Path) -> str:
    """The name that a file of the tree is imported under."""
    folder, *rest = source.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS[folder], *rest]).removesuffix(".__init__")


SOURCES = {module_name(source): source for folder in FOLDERS for source in sorted((ROOT / folder).rglob("*.py"))}


def part_of(module: str) -> str:
    """The deepest process that `module` belongs to; `legato_rl` (or `legato`) for the modules of all."""
    inside = [process for process in PROCESSES if module == process or module.startswith(process + ".")]
    return max(inside, key=len, default=module.partition(".")[0])


def imports_of(module: str) -> Iterator[str]:
    """Names of all modules that `module` imports, also inside functions; a name from a package counts as one too."""
    source = SOURCES[module]
    package = module if source.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: None if node.level < 2 else 1 - node.level]
            base = ".".join([*(above if node.level else []), *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def may_import(importer: str, imported: str) -> bool:
    """Whether a module of part `importer` may import one of part `imported`: its own, or one that belongs to all."""
    return imported not in PROCESSES or imported == importer


def test_packages_are_the_folders() -> None:
    """setup.cfg lists each folder with an `__init__.py` and nothing else: one that it lacks is missing in a wheel."""
    folders = [name for name, source in SOURCES.items() if source.name == "__init__.py"]
    assert sorted(LISTED) == sorted(folders)


def test_no_source_file_is_outside_a_package() -> None:
    """Every source file sits in a folder with an `__init__.py`, so it is installed."""
    assert [str(source) for source in SOURCES.values() if not (source.parent / "__init__.py").is_file()] == []


@pytest.mark.parametrize("package", LISTED)
def test_package_imports(package: str) -> None:
    """Each listed package imports under its installed name."""
    assert importlib.import_module(package).__name__ == package


@pytest.mark.parametrize("folder", ["workers", "broker"])
def test_folder_is_no_package_of_its_own(folder: str) -> None:
    """From the root of a checkout `import workers` is refused: it would be a second copy of every module."""
    asked = subprocess.run([sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert asked.returncode == 1
    assert f"ImportError: import legato_rl.{folder}, not {folder}" in asked.stderr


@pytest.mark.parametrize("module", SOURCES)
def test_import_direction(module: str) -> None:
    """The kernel imports no process, and no process another one: they meet on the wire only."""
    part = part_of(module)
    assert [name for name in imports_of(module) if not may_import(part, part_of(name))] == []


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("legato_rl.cli.main", "legato_rl.workers.main", False),
        ("legato_rl.workers.main", "legato_rl.broker.groups", False),
        ("legato_rl.broker.server", "legato_rl.workers.main", False),
        ("legato_rl.broker.server", "legato_rl.broker.sink.store", False),
        ("legato_rl.broker.sink.store", "legato_rl.broker.groups", False),
        ("legato_rl.broker.sink.store", "legato_rl.broker.proxy.calls", False),
        ("legato_rl.broker.sink.store", "legato_rl.broker.sink.main", True),
        ("legato_rl.broker.sink.store", "legato_rl.wire", True),
        ("legato_rl.workers.main", "zmq", True),
    ],
)
def test_direction_rule(importer: str, imported: str, allowed: bool) -> None:
    """The rule itself, spelled out."""
    assert may_import(part_of(importer), part_of(imported)) is allowed


def test_the_desktop_image_is_made_of_the_trees_files() -> None:
    """A wheel holds every file that the image's build reads, to the byte, and the build finds them."""
    tree = ROOT / "workers" / "desktop"
    context = {path.relative_to(tree / "image").as_posix(): path for path in (tree / "image").rglob("*") if path.is_file()}
    context = {name: path for name, path in context.items() if path.suffix not in (".py", ".pyc")}
    script = context.pop("build_base.sh")
    context |= {f"guest_server/{path.name}": path for path in (tree / "guest_server").glob("*.py")}
    found = {name: path.read_bytes() for name, path in inputs().items()}
    assert found == {name: path.read_bytes() for name, path in context.items()}
    assert (HERE / script.name).read_bytes() == script.read_bytes()


def entry_points() -> list[EntryPoint]:
    """The console scripts of the installed distribution."""
    return [entry for entry in distribution("legatolabs").entry_points if entry.group == "console_scripts"]


def test_console_scripts_are_the_listed_ones() -> None:
    """The installed scripts are those of setup.cfg, each there as a file."""
    listed = [line.partition("=")[0].strip() for line in SETUP["options.entry_points"]["console_scripts"].split("\n")]
    assert sorted(entry.name for entry in entry_points()) == sorted(name for name in listed if name)
    scripts = Path(sysconfig.get_path("scripts"))
    assert [entry.name for entry in entry_points() if not (scripts / entry.name).is_file()] == []


@pytest.mark.parametrize("entry", entry_points(), ids=lambda entry: entry.name)
def test_console_script_loads(entry: EntryPoint) -> None:
    """What a script calls is there."""
    assert callable(entry.load())
