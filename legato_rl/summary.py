"""What came of a run? The numbers behind `summary.json`, `profile` and `verify`, from its rows. PURE: one pass.

What every number means is in docs/rollouts.md, "summary.json". Durations are seconds. Nothing is kept per step but its
model call's two durations, so that percentiles are exact.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from legato_rl.config import Settings
from legato_rl.export.groups import Group, RowFacts, facts_of, fold_groups, reward_of
from legato_rl.export.instants import instant
from legato_rl.records import ResetWay, Rollout, Status, Step, Timing

SUMMARY_SCHEMA = "legato.summary/v0"
SUCCESS = 1 - 1e-9
"""A usable rollout with at least this reward is a success."""

PHASES: dict[str, str] = {
    "reset": "reset_s",
    "wait_after_reset": "wait_after_reset_s",
    "model": "model_s",
    "act": "act_s",
    "wait": "wait_s",
    "observe": "obs_s",
    "wait_before_eval": "wait_before_eval_s",
    "evaluate": "eval_s",
}
"""Phases of a rollout and their fields of `timing`. `queue` is taken out of `model`; `other` is the rest of it all."""

CUT_NOTE = "cancelled rollouts were cut when their group closed: their steps and seconds are lower bounds"


def summarize(
    rows: Iterable[Rollout],
    settings: Settings,
    group_ids: Sequence[str],
    desktop_events: Iterable[Mapping[str, Any]] = (),
    notices: Sequence[str] = (),
    again: Collection[str] = (),
) -> dict[str, Any]:
    """The summary of a run, as the JSON object of `summary.json`. RecordError where the rows contradict the settings.

    `group_ids` are those of the run's tasks; `desktop_events` have `event` (rebuilt, out) and `desktop`; `notices` are
    sentences for people that were known before, which come first among the summary's own. `again` as for `fold_groups`.
    """
    tally = Tally()
    facts = []
    for line, row in enumerate(rows, start=1):
        tally.add(row)
        facts.append(facts_of(row, line))
    groups = fold_groups(facts, settings, group_ids, again)
    events = list(desktop_events)
    summary = {
        "schema": SUMMARY_SCHEMA,
        **_delivery(groups, settings, len(facts)),
        "statuses": {status.value: tally.statuses[status] for status in Status},
        "rewards": _rewards([row for group in groups for row in group.usable], len(groups) * settings.group),
        **tally.result(),
        "desktops": {
            "rebuilt": sum(event.get("event") == "rebuilt" for event in events),
            "out": sorted({str(event.get("desktop")) for event in events if event.get("event") == "out"}),
            "resets": {way: tally.resets[way] for way in get_args(ResetWay)},
        },
    }
    return {**summary, "notices": [*notices, *_notices(summary)]}


@dataclass
class Length:
    """How long rollouts of one kind were."""

    rollouts: int = 0
    steps: int = 0
    seconds: float = 0.0

    def add(self, row: Rollout) -> None:
        self.rollouts += 1
        self.steps += row.n_steps
        self.seconds += row.timing.total_s

    def result(self) -> dict[str, Any]:
        return {
            "rollouts": self.rollouts,
            "steps": self.steps,
            "seconds": self.seconds,
            "steps_mean": _ratio(self.steps, self.rollouts),
            "seconds_mean": _ratio(self.seconds, self.rollouts),
        }


@dataclass
class Tally:
    """Sums over the rows seen so far; their order does not matter."""

    statuses: Counter[Status] = field(default_factory=Counter)
    kept: Length = field(default_factory=Length)
    cancelled: Length = field(default_factory=Length)
    first_start: float = math.inf
    last_end: float = -math.inf
    phases: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*PHASES, "queue", "other"), 0.0))
    total_s: float = 0.0
    errors: dict[str, Counter[str]] = field(default_factory=lambda: {"policy": Counter(), "env": Counter()})
    evaluator_failures: Counter[str] = field(default_factory=Counter)
    resets: Counter[str | None] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    mixed_versions: int = 0
    call_s: array[float] = field(default_factory=lambda: array("d"))
    queued_s: array[float] = field(default_factory=lambda: array("d"))
    steps: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    finish_reasons: Counter[str] = field(default_factory=Counter)

    def add(self, row: Rollout) -> None:
        """Count one row, of whatever status."""
        self.statuses[row.status] += 1
        if row.usable:
            self.kept.add(row)
        if row.status is Status.CANCELLED:
            self.cancelled.add(row)
        self._add_span(row)
        self._add_timing(row.timing, math.fsum(step.model.queued_s for step in row.steps))
        if row.error:
            self.errors[row.error.kind][row.error.type] += 1
        if row.outcome == "evaluator_failed":
            self.evaluator_failures[row.task_id] += 1
        self.mixed_versions += row.usable and len(row.policy.versions) > 1
        self.resets[row.reset] += 1
        for step in row.steps:
            self._add_step(step)

    def _add_span(self, row: Rollout) -> None:
        if row.started_at and row.ended_at:
            self.first_start = min(self.first_start, instant(row.started_at))
            self.last_end = max(self.last_end, instant(row.ended_at))

    def _add_timing(self, timing: Timing, queued_s: float) -> None:
        spent: dict[str, float] = {phase: getattr(timing, name) for phase, name in PHASES.items()}
        known = math.fsum(spent.values())
        spent["queue"] = min(queued_s, timing.model_s)
        spent["model"] -= spent["queue"]
        spent["other"] = max(0.0, timing.total_s - known)
        for phase, seconds in spent.items():
            self.phases[phase] += seconds
        self.total_s += max(timing.total_s, known)

    def _add_step(self, step: Step) -> None:
        use, response = step.model, step.response
        self.call_s.append(use.seconds)
        self.queued_s.append(use.queued_s)
        self.versions[use.version] += 1
        self.finish_reasons[response.finish_reason or "none"] += 1
        self.steps["retried"] += use.attempts > 1
        self.steps["extra_attempts"] += use.attempts - 1
        self.steps["resampled"] += use.resampled
        self.steps["parse_error"] += step.parse_error is not None
        self.steps["token_ids"] += response.token_ids is not None
        self.steps["prompt_ids"] += step.request.prompt is not None
        # An empty completion has none to give, and lacks none.
        self.steps["logprobs"] += bool(response.logprobs) or response.token_ids == []
        self.tokens["prompt"] += use.prompt_tokens or 0
        self.tokens["completion"] += use.completion_tokens or 0
        if use.cached_tokens is not None and use.prompt_tokens is not None:
            self.tokens["cached"] += use.cached_tokens
            self.tokens["cached_of"] += use.prompt_tokens

    def result(self) -> dict[str, Any]:
        """The parts of the summary that need no group."""
        n_steps = len(self.call_s)
        hours = max(0.0, self.last_end - self.first_start) / 3600
        return {
            "hours": hours,
            "usable_per_hour": _ratio(self.kept.rollouts, hours),
            "time": {
                "total_s": self.total_s,
                "seconds": self.phases,
                "share": {phase: _ratio(spent, self.total_s) for phase, spent in self.phases.items()},
            },
            "model_calls": {
                "steps": n_steps,
                **percentiles(self.call_s, "seconds"),
                **percentiles(self.queued_s, "queued"),
                "retried": self.steps["retried"],
                "extra_attempts": self.steps["extra_attempts"],
                "resampled": self.steps["resampled"],
                "prompt_tokens": self.tokens["prompt"],
                "completion_tokens": self.tokens["completion"],
                "cache_hit_rate": _ratio(self.tokens["cached"], self.tokens["cached_of"]),
                "logprobs_share": _ratio(self.steps["logprobs"], n_steps),
                "token_ids_share": _ratio(self.steps["token_ids"], n_steps),
                "prompt_ids_share": _ratio(self.steps["prompt_ids"], n_steps),
                "parse_errors": self.steps["parse_error"],
                "finish_reasons": _by_count(self.finish_reasons),
            },
            "errors": {kind: _by_count(types) for kind, types in self.errors.items()},
            "evaluator_failures": _by_count(self.evaluator_failures),
            "lengths": {"kept": self.kept.result(), "cancelled": self.cancelled.result(), "note": CUT_NOTE},
            "policy_versions": dict(self.versions),
            "mixed_version_rollouts": self.mixed_versions,
        }


def percentiles(values: Iterable[float], name: str) -> dict[str, float | None]:
    """`<name>_p50`, `_p95` and `_p99` by nearest rank, so each is a value that occurred; None where there is none."""
    ordered = sorted(values)
    return {f"{name}_p{p}": ordered[max(0, math.ceil(len(ordered) * p / 100) - 1)] if ordered else None for p in (50, 95, 99)}


def _delivery(groups: list[Group], settings: Settings, rows: int) -> dict[str, Any]:
    """What was asked for, and what of it is there."""
    asked, ended = len(groups) * settings.attempts, sum(group.ended for group in groups)
    states = Counter(group.state for group in groups)
    return {
        "rows": rows,
        "groups": {
            "asked": len(groups),
            "closed": states["closed"],
            "short": states["short"],
            "open": states["open"],
            "flat": sum(group.state != "open" and bool(group.usable) and group.flat for group in groups),
        },
        "attempts": {"asked": asked, "ended": ended, "unfinished": asked - ended},
    }


def _rewards(usable: list[RowFacts], asked: int) -> dict[str, Any]:
    rewards = [reward_of(row) for row in usable]
    return {
        "asked": asked,
        "usable": len(usable),
        "mean": _ratio(math.fsum(rewards), len(rewards)),
        "success_rate": _ratio(sum(reward >= SUCCESS for reward in rewards), len(rewards)),
    }


def _notices(summary: Mapping[str, Any]) -> list[str]:
    """What a trainer should be told before they use the run, one sentence each."""
    groups, attempts, calls = summary["groups"], summary["attempts"], summary["model_calls"]
    lengths, escalated = summary["lengths"], summary["desktops"]["resets"]["escalated"]
    told = [
        (attempts["unfinished"], f"{attempts['unfinished']} of {attempts['asked']} attempts have no final row"),
        (groups["short"], f"{groups['short']} of {groups['asked']} groups ended short of their graded attempts"),
        (groups["flat"], f"{groups['flat']} of {groups['asked']} groups without variance: their advantages are 0"),
        *((errors, f"errors on the {_SIDES[kind]} side: {_listed(errors)}") for kind, errors in summary["errors"].items()),
        (summary["mixed_version_rollouts"], f"usable rollouts that mix policy versions: {summary['mixed_version_rollouts']}"),
        (summary["desktops"]["out"], f"desktops are out: {', '.join(summary['desktops']['out'])}"),
        (escalated, f"fast resets that did not prove clean and became reverts: {escalated}; the workers' logs say why"),
        (summary["evaluator_failures"], f"evaluators failed on: {_listed(summary['evaluator_failures'])}"),
        (_lacks(calls["logprobs_share"]), "some steps have no logprobs: they cannot be trained on off-policy"),
        (0 < (calls["token_ids_share"] or 0) < 1, "some steps have no token ids: a trainer would have to tokenise text anew"),
        (lengths["cancelled"]["rollouts"], lengths["note"]),
    ]
    return [sentence for holds, sentence in told if holds]


_SIDES = {"policy": "policy's", "env": "desktops'"}
MOST_LISTED = 8


def _listed(counts: Mapping[str, int]) -> str:
    """`counts` as text, the most frequent first."""
    shown = [f"{name} ({count})" for name, count in list(counts.items())[:MOST_LISTED]]
    return ", ".join(shown + ["…"] * (len(counts) > MOST_LISTED))


def _lacks(share: float | None) -> bool:
    return share is not None and share < 1


def _ratio(part: float, whole: float) -> float | None:
    """`part` / `whole`; None where there is no whole."""
    return part / whole if whole else None


def _by_count(counter: Counter[str]) -> dict[str, int]:
    """Most frequent first, then by name, so that equal runs have equal summaries."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
