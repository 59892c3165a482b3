"""What does a service's status look like to a person? Lines of words in columns. PURE: decides nothing, reads nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from legato_rl.cli.progress import counts, policy_words
from legato_rl.run.stored_runs import StoredRun
from legato_rl.wire import GroupCounts, RunBrief, RunStatus

MOST_NAMED = 10
"""Runs that may be resumed, and desktops that are out, that are named; of more, their number is told."""


def command(name: str, where: str, keys: Path | None = None) -> str:
    """A command of `legato-rl control` as it is typed."""
    return shlex.join(["legato-rl", "control", name, where, *(["--keys", str(keys)] if keys else [])])


def lines(
    status: RunStatus,
    resumable: Sequence[StoredRun],
    where: str,
    keys: Path | None,
    of_one: bool,
    out: Mapping[str, str] | None = None,
) -> list[str]:
    """The view; `of_one`: with all that is told of the status's run, which was asked for; `out`: why desktops are out."""
    told = [*(_of_run(status) if of_one else ()), *_of_all(status, resumable, where, keys, out or {})]
    width = max(len(name) for name, _ in told)
    return [f"{name:{width}}  {text}".rstrip() for name, text in told]


def _of_run(status: RunStatus) -> Iterator[tuple[str, str]]:
    yield "run", status.run
    yield "state", f"{status.state} ({status.reason})" if status.reason else status.state
    if status.attempts_total:
        yield "groups", _groups(status.groups)
        yield "attempts", f"{status.attempts_ended} of {status.attempts_total} ended"
        yield "rollouts", counts(status.rows)
        yield "version", status.version
        yield "events", str(status.events)
    if status.sink_message:
        yield "storage", f"waiting: {status.sink_message}"
    yield "", ""


def _of_all(
    status: RunStatus, resumable: Sequence[StoredRun], where: str, keys: Path | None, out: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for place, text in enumerate(_table([_brief(brief) for brief in status.runs]) or ["none"]):
        yield "" if place else "runs", text
    for place, run in enumerate(resumable[:MOST_NAMED]):
        yield "" if place else "resumable", f"{run.run} ({run.reason or 'stopped'})"
    if resumable:
        more = len(resumable) - MOST_NAMED
        yield "", (f"and {more} more; " if more > 0 else "") + f"go on with: {command('resume-run', where, keys)} RUN"
    yield "desktops", counts(status.desktops)
    if status.desktops.get("out"):
        yield from (("", text) for text in _out(out))
    yield "policy", policy_words(status)
    yield "server", f"{status.url}, model {status.model}"
    if status.policy != "up":
        yield "calls", f"{status.running} running, {status.queued} queued"
    if status.paused:
        yield "paused", f"{status.paused}; go on with: {command('resume', where, keys)}"
    if status.draining:
        yield "draining", f"no further try is begun; go on with: {command('resume', where, keys)}"


def _out(out: Mapping[str, str]) -> Iterator[str]:
    for name, reason in list(out.items())[:MOST_NAMED]:
        yield f"{name} is out: {reason}"
    if len(out) > MOST_NAMED:
        yield f"and {len(out) - MOST_NAMED} more"
    if out:
        yield "one comes back with a new process of its worker (docs/operating.md)"


def _brief(brief: RunBrief) -> list[str]:
    return [brief.run, brief.state, f"version {brief.version}", f"priority {brief.priority}", f"groups {_groups(brief.groups)}"]


def _groups(groups: GroupCounts) -> str:
    return f"{groups.closed} of {groups.total} closed" + (f", {groups.short} short" if groups.short else "")


def _table(rows: list[list[str]]) -> list[str]:
    """Rows of words as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{word:{width}}" for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
