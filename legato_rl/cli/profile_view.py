"""What does a summary look like to a person? The tables of `legato-rl profile`. Draws only; computes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 96
"""Columns that the view takes at most; on a narrower terminal it shrinks."""
BAR = 22
"""Columns of a bar that stands for everything."""

STATUS_STYLES = {
    "ok": "green",
    "truncated": "cyan",
    "surplus": "blue",
    "cancelled": "bright_black",
    "skipped": "bright_black",
    "retried": "yellow",
    "error": "red",
}
PHASE_STYLES = {"model": "magenta", "queue": "yellow", "other": "bright_black"}


def render(summary: dict[str, Any]) -> RenderableType:
    """The whole view of a summary (docs/rollouts.md, summary.json)."""
    parts: list[RenderableType] = [
        _title(summary),
        _headline(summary),
        _side_by_side(_statuses(summary), _phases(summary)),
        _side_by_side(_model_calls(summary), _lengths(summary)),
    ]
    errors = _errors(summary)
    if errors.row_count:
        parts.append(Padding(errors, (1, 0, 0, 0)))
    if summary["notices"]:
        parts.append(_notices(summary["notices"]))
    return Padding(Group(*parts), (1, 1))


def _title(summary: dict[str, Any]) -> Text:
    return Text.assemble(
        ("run ", "dim"),
        (summary["run_id"], "bold"),
        ("   policy ", "dim"),
        summary["model"],
        ("   version ", "dim"),
        summary["version"],
    )


def _headline(summary: dict[str, Any]) -> RenderableType:
    """The four numbers that a trainer looks for first."""
    groups, usable = summary["groups"], summary["usable"]
    rest = [f"{groups[state]} {state}" for state in ("short", "open") if groups[state]]
    rest += [f"{groups['flat']} without variance"] if groups["flat"] else []
    facts = [
        ("groups closed", f"{groups['closed']} of {groups['total']}", ", ".join(rest) or "none short, none open"),
        ("usable rollouts", f"{usable['delivered']} of {usable['asked']}", "of G per group"),
        ("success", _percent(summary["success_rate"]), f"mean reward {_number(summary['reward_mean'])}"),
        ("usable per hour", _number(summary["usable_per_hour"]), f"over {_seconds(summary['hours'] * 3600)}"),
    ]
    grid = Table.grid(expand=True)
    for _ in facts:
        grid.add_column(ratio=1)
    grid.add_row(
        *(Text.assemble((name, "dim"), "\n", (value, "bold"), "\n", (more, "dim")) for name, value, more in facts)
    )
    return _fit(Padding(grid, (1, 0, 0, 0)))


def _statuses(summary: dict[str, Any]) -> Table:
    table = _table("rollouts", f"{summary['rows']} rows")
    for status, count in summary["statuses"].items():
        share = count / summary["rows"] if summary["rows"] else 0.0
        table.add_row(status, str(count), _bar(share, STATUS_STYLES[status]))
    attempts = summary["attempts"]
    table.add_row("unfinished", str(attempts["unfinished"]), Text(f"of {attempts['asked']} attempts", "dim"))
    return table


def _phases(summary: dict[str, Any]) -> Table:
    time = summary["time"]
    table = _table("time by phase", _seconds(time["total_s"]))
    for phase, share in sorted(time["share"].items(), key=lambda item: -(item[1] or 0)):
        if share:
            table.add_row(phase.replace("_", " "), _percent(share), _bar(share, PHASE_STYLES.get(phase, "cyan")))
    return table


def _model_calls(summary: dict[str, Any]) -> Table:
    calls = summary["model_calls"]
    table = _table("model calls", f"{calls['steps']} steps", numbers=3)
    table.add_row("", *(Text(name, "dim") for name in ("p50", "p95", "p99")))
    for name in ("seconds", "queued"):
        table.add_row(name, *(_seconds(calls[f"{name}_p{p}"]) for p in (50, 95, 99)))
    facts = [
        ("tried again", str(calls["retried"])),
        ("prefix-cache hits", _percent(calls["cache_hit_rate"])),
        ("with logprobs", _percent(calls["logprobs_share"])),
        ("with token ids", _percent(calls["token_ids_share"])),
        ("with prompt ids", _percent(calls["prompt_ids_share"])),
        ("parse errors", str(calls["parse_errors"])),
    ]
    for name, value in facts:
        table.add_row(name, value)
    return table


def _lengths(summary: dict[str, Any]) -> Table:
    lengths, desktops = summary["lengths"], summary["desktops"]
    table = _table("kept and cancelled", "", numbers=2)
    table.add_row("", *(Text(name, "dim") for name in ("kept", "cancelled")))
    kinds = [lengths["kept"], lengths["cancelled"]]
    table.add_row("rollouts", *(str(kind["rollouts"]) for kind in kinds))
    table.add_row("steps each", *(_number(kind["steps_mean"]) for kind in kinds))
    table.add_row("time each", *(_seconds(kind["seconds_mean"]) for kind in kinds))
    table.add_row("time in all", *(_seconds(kind["seconds"]) for kind in kinds))
    table.add_section()
    table.add_row("desktops rebuilt", str(desktops["rebuilt"]))
    table.add_row("desktops out", str(len(desktops["out"])))
    return table


def _errors(summary: dict[str, Any]) -> Table:
    table = _table("errors", "by type", numbers=1)
    for kind, types in summary["errors"].items():
        for name, count in types.items():
            table.add_row(Text.assemble((f"{kind} ", "dim"), name), Text(str(count), "red"))
    return table


def _notices(notices: Iterable[str]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for notice in notices:
        table.add_row(Text("!", "bold yellow"), notice)
    return _fit(Padding(table, (1, 0, 0, 0)))


def _table(title: str, more: str, numbers: int = 1) -> Table:
    """A borderless table: a column of names, columns of numbers, and room for a bar."""
    heading = Text.assemble((title, "bold"), "  ", (more, "dim"))
    table = Table(box=box.SIMPLE_HEAD, show_header=True, pad_edge=False, padding=(0, 1), header_style="")
    table.add_column(heading, no_wrap=True)
    for _ in range(numbers):
        table.add_column(justify="right", no_wrap=True)
    if numbers == 1:
        table.add_column(no_wrap=True)
    return table


def _side_by_side(left: Table, right: Table) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(left, right)
    return _fit(Padding(grid, (1, 0, 0, 0)))


def _fit(part: RenderableType) -> RenderableType:
    grid = Table.grid()
    grid.add_column(width=WIDTH)
    grid.add_row(part)
    return grid


def _bar(share: float, style: str) -> Text:
    """`share` of BAR columns; a little that is there is never drawn as nothing."""
    return Text("━" * max(round(share * BAR), 1 if share else 0), style)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _seconds(value: float | None) -> str:
    """A duration in the unit that a person would choose."""
    if value is None:
        return "–"
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1000:.3g} ms" if value else "0 s"
