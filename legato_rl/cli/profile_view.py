"""What does a summary look like to a person? The tables of `legato-rl profile`. Draws only; computes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

BAR = 14
"""Columns of a bar that stands for everything."""
GAP = 5
"""Columns between two things that stand side by side."""

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
PHASE_NAMES = {"other": "agent, other"}
"""Phases that are shown under another name: the rest of a rollout is mainly the agent's work on images."""


def render(summary: dict[str, Any]) -> RenderableType:
    """The whole view of a summary (docs/rollouts.md, summary.json).

    What does not fit side by side is stacked, so that no number is ever cut.
    """
    parts = [
        _title(summary),
        SideBySide(_facts(summary), 4),
        SideBySide([_statuses(summary), _phases(summary), _model_calls(summary), _lengths(summary)], 2),
    ]
    errors = {
        kind: types for kind, types in [*summary["errors"].items(), ("evaluator", summary["evaluator_failures"])] if types
    }
    if errors:
        parts.append(_errors(errors))
    if summary["notices"]:
        parts.append(_notices(summary["notices"]))
    return Padding(Group(*(Padding(part, (0, 0, 1, 0)) for part in parts)), (1, 1, 0, 1))


@dataclass(frozen=True)
class SideBySide:
    """Blocks in rows of `most`, or of half as many where the terminal is too narrow for the widest, down to one."""

    blocks: list[RenderableType]
    most: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self.most
        widths = [Measurement.get(console, options.update(width=10_000), block).maximum for block in self.blocks]
        while columns > 1 and sum(max(widths[n::columns]) for n in range(columns)) + GAP * (columns - 1) > options.max_width:
            columns //= 2
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        for _ in range(columns):
            grid.add_column()
        for n in range(0, len(self.blocks), columns):
            if n:
                grid.add_row("")
            grid.add_row(*self.blocks[n : n + columns])
        yield grid


def _title(summary: dict[str, Any]) -> RenderableType:
    return Text.assemble(
        ("run ", "dim"),
        (summary["run_id"], "bold"),
        ("   policy ", "dim"),
        summary["model"],
        ("   version ", "dim"),
        summary["version"],
    )


def _facts(summary: dict[str, Any]) -> list[RenderableType]:
    """The four numbers that a trainer looks for first."""
    groups, rewards = summary["groups"], summary["rewards"]
    mean = "–" if rewards["mean"] is None else f"{rewards['mean']:.3f}"
    rest = [f"{groups[state]} {state}" for state in ("short", "open") if groups[state]]
    facts = [
        ("groups closed", f"{groups['closed']} of {groups['asked']}", ", ".join(rest)),
        ("usable rollouts", f"{rewards['usable']} of {rewards['asked']}", ""),
        ("success", _percent(rewards["success_rate"]), f"mean reward {mean}"),
        ("usable per hour", _number(summary["usable_per_hour"]), f"over {_seconds(summary['hours'] * 3600)}"),
    ]
    return [Text.assemble((name, "dim"), "\n", (value, "bold"), "\n", (more, "dim")) for name, value, more in facts]


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
            grid.add_row(
                PHASE_NAMES.get(phase, phase.replace("_", " ")), _percent(share), _bar(share, PHASE_STYLES.get(phase, "cyan"))
            )
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
    if calls["resampled"]:
        facts.insert(1, ("asked anew", str(calls["resampled"])))
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
    for way, count in desktops["resets"].items():
        if count:
            grid.add_row(f"resets, {way}", str(count))
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
        grid.add_row(Text("!", "bold yellow"), Text(notice))
    return grid


def _block(title: str, more: str, body: RenderableType) -> RenderableType:
    return Group(Text.assemble((title, "bold"), "  ", (more, "dim")), body)


def _grid(numbers: int) -> Table:
    """A column of names, and columns of numbers, which are never wrapped: where it is too narrow the names give way."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold")
    for _ in range(numbers):
        grid.add_column(justify="right", no_wrap=True)
    return grid


def _bar(share: float, style: str) -> Text:
    """`share` of BAR columns; a little that is there is never drawn as nothing."""
    return Text("━" * max(round(share * BAR), 1 if share else 0), style)


def _number(value: float | None) -> str:
    """Two figures, or all before the point: what follows differs from run to run."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<0.1 %"
    # A few steps without logprobs are not to look like none.
    few = 0 < share < 0.0995 or 0.995 <= share < 1
    return f"{min(share * 100, 99.9):.1f} %" if few else f"{share * 100:.0f} %"


def _seconds(value: float | None) -> str:
    """A duration in the unit that a person would choose."""
    if not value:
        return "–" if value is None else "0 s"
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if value >= size:
            return f"{_number(value / size)} {unit}"
    return f"{value * 1000:.0f} ms" if value >= 0.001 else "<1 ms"
