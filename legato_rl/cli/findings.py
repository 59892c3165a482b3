"""How is shown what was found, and what to do about it? The rows of `legato-rl doctor` and `legato-rl probe`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

COLOURS = {"ok": "green", "missing": "red", "warn": "yellow", "off": "yellow", "unknown": "yellow"}
"""By state of a row."""


def show(title: str, rows: Iterable[tuple[str, str, str, str]], verdict: str) -> None:
    """Print rows of a name, a state, what was found and what to do, which may be empty; then the verdict.

    What to do stands below what was found: beside it, neither would have room in 80 columns for a path to copy.
    """
    table = Table.grid(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for name, state, value, remedy in rows:
        table.add_row(Text(name), Text(state, COLOURS[state]), Text(value))
        if remedy:
            table.add_row("", "", Text(f"-> {remedy}"))
    Console().print(Text(title), "", table, "", Text(verdict), sep="\n")
