"""What does a summary look like to a person? The tables of `legato-rl profile`. Draws only; computes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 96
"""Columns that the view takes at most; on a narrower terminal it shrinks."""
BAR = 14
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
    parts = [
        _title(summary),
        _headline(summary),
        _side_by_side(_statuses(summary), _phases(summary)),
        _side_by_side(_model_calls(summary), _lengths(summary)),
    ]
    if any(summary["errors"].values()):
        parts.append(_errors(summary["errors"]))
    if summary["notices"]:
        parts.append(_notices(summary["notices"]))
    page = Table.grid()
    page.add_column(max_width=WIDTH)
    for part in parts:
        page.add_row(part)
        page.add_row("")
    return Padding(page, (1, 1, 0, 1))


def _title(summary: dict[str, Any]) -> RenderableType:
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
    groups, rewards = summary["groups"], summary["rewards"]
    rest = [f"{groups[state]} {state}" for state in ("short", "open") if groups[state]]
    facts = [
        ("groups closed", f"{groups['closed']} of {groups['asked']}", ", ".join(rest)),
        ("usable rollouts", f"{rewards['usable']} of {rewards['asked']}", ""),
        ("success", _percent(rewards["success_rate"]), f"mean reward {_number(rewards['mean'])}"),
        ("usable per hour", _number(summary["usable_per_hour"]), f"over {_seconds(summary['hours'] * 3600)}"),
    ]
    grid = Table.grid(expand=True)
    for _ in facts:
        grid.add_column(ratio=1)
    grid.add_row(*(Text.assemble((name, "dim"), "\n", (value, "bold"), "\n", (more, "dim")) for name, value, more in facts))
    return grid


def _statuses(summary: dict[str, Any]) -> RenderableType:
    grid = _grid(1)
    for status, count in summary["statuses"].items():
        if count:
            grid.add_row(status, str(count), _bar(count / summary["rows"], STATUS_STYLES[status]))
    attempts = summary["attempts"]
    if attempts["unfinished"]:
        grid.add_row("unfinished", str(attempts["unfinished"]), Text(f"of {attempts['asked']} attempts", "dim"))
    return _block("rollouts", f"{summary['rows']} rows", grid)


def _phases(summary: dict[str, Any]) -> RenderableType:
    grid, time = _grid(1), summary["time"]
    for phase, share in sorted(time["share"].items(), key=lambda item: -(item[1] or 0)):
        if share:
            grid.add_row(phase.replace("_", " "), _percent(share), _bar(share, PHASE_STYLES.get(phase, "cyan")))
    return _block("time by phase", f"{_seconds(time['total_s'])} of desktops", grid)


def _model_calls(summary: dict[str, Any]) -> RenderableType:
    grid, calls = _grid(3), summary["model_calls"]
    grid.add_row("", *(Text(name, "dim") for name in ("p50", "p95", "p99")))
    for name, title in (("seconds", "call"), ("queued", "queued")):
        grid.add_row(title, *(_seconds(calls[f"{name}_p{p}"]) for p in (50, 95, 99)))
    facts = [
        ("tried again", str(calls["retried"])),
        ("parse errors", str(calls["parse_errors"])),
        ("cache hits", _percent(calls["cache_hit_rate"])),
        ("logprobs", _percent(calls["logprobs_share"])),
        ("token ids", _percent(calls["token_ids_share"])),
        ("prompt ids", _percent(calls["prompt_ids_share"])),
    ]
    for name, value in facts:
        grid.add_row(name, value)
    return _block("model calls", f"{calls['steps']} steps", grid)


def _lengths(summary: dict[str, Any]) -> RenderableType:
    grid, lengths, desktops = _grid(2), summary["lengths"], summary["desktops"]
    kinds = [lengths["kept"], lengths["cancelled"]]
    grid.add_row("", *(Text(name, "dim") for name in ("kept", "cancelled")))
    grid.add_row("rollouts", *(str(kind["rollouts"]) for kind in kinds))
    grid.add_row("steps each", *(_number(kind["steps_mean"]) for kind in kinds))
    grid.add_row("time each", *(_seconds(kind["seconds_mean"]) for kind in kinds))
    grid.add_row("time in all", *(_seconds(kind["seconds"]) for kind in kinds))
    grid.add_row("")
    grid.add_row("desktops rebuilt", str(desktops["rebuilt"]))
    grid.add_row("desktops out", str(len(desktops["out"])))
    return _block("lengths", "", grid)


def _errors(errors: dict[str, dict[str, int]]) -> RenderableType:
    grid = _grid(1)
    for kind, types in errors.items():
        for name, count in types.items():
            grid.add_row(Text.assemble((f"{kind} ", "dim"), name), Text(str(count), "red"))
    return _block("errors", "by type", grid)


def _notices(notices: Iterable[str]) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for notice in notices:
        grid.add_row(Text("!", "bold yellow"), notice)
    return grid


def _block(title: str, more: str, body: RenderableType) -> RenderableType:
    return Group(Text.assemble((title, "bold"), "  ", (more, "dim")), body)


def _grid(numbers: int) -> Table:
    """A column of names, and columns of numbers; where there is one of these, something may stand beside it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for _ in range(numbers):
        grid.add_column(justify="right", no_wrap=True)
    return grid


def _side_by_side(left: RenderableType, right: RenderableType) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(left, right)
    return grid


def _bar(share: float, style: str) -> Text:
    """`share` of BAR columns; a little that is there is never drawn as nothing."""
    return Text("━" * max(round(share * BAR), 1 if share else 0), style)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.3g} %"


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
