"""Does a row contradict itself, or the run that it says it is of? PURE.

The rules are those of docs/rollouts.md; what the sink refuses, and more, since it saw the task and this sees the row alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from legato_rl.bad_input import told
from legato_rl.canonical import is_hash
from legato_rl.records import DESKTOP_OUTCOMES, GRADED_OUTCOMES, Outcome, Rollout, StopReason
from legato_rl.rundir import RunFile, TaskSpec

ERROR_KINDS = {
    **dict.fromkeys(DESKTOP_OUTCOMES, "env"),
    Outcome.EVALUATOR_FAILED: "env",
    Outcome.POLICY_FAILED: "policy",
}
"""The outcomes that come with an error, and its kind."""


def contradiction(row: Rollout, run: RunFile, tasks: Mapping[str, TaskSpec]) -> str | None:
    """The first thing that cannot be, in one sentence; None where there is none. `tasks` are the run's by group."""
    return _key_fault(row, run, tasks) or _outcome_fault(row) or _hash_fault(row)


def _key_fault(row: Rollout, run: RunFile, tasks: Mapping[str, TaskSpec]) -> str | None:
    if row.run_id != run.run_id:
        return f"run_id is {told(row.run_id)}: the run is {run.run_id}"
    task = tasks.get(row.group_id)
    if task is None:
        return f"group_id is {told(row.group_id)}: the run has no such group"
    if row.attempt >= run.settings.attempts:
        return f"attempt is {row.attempt}: a group of this run has {run.settings.attempts}, from 0"
    if row.rollout_id != row.key.rollout_id:
        return f"rollout_id is {told(row.rollout_id)}: run, group, attempt and try make it {row.key.rollout_id}"
    for name in ("task_id", "domain", "meta"):
        if getattr(row, name) != getattr(task, name):
            return f"{name} is {told(getattr(row, name))}: the group's task has {told(getattr(task, name))}"
    return None


def _outcome_fault(row: Rollout) -> str | None:
    outcome, kind = row.outcome.value, ERROR_KINDS.get(row.outcome)
    graded = row.outcome in GRADED_OUTCOMES
    if graded is (row.reward is None):
        return f"reward is {told(row.reward)}: the outcome is {outcome}"
    if graded and row.error is not None:
        return f"error is of type {told(row.error.type)}: the outcome is {outcome}, which has none"
    if kind is not None and (row.error is None or row.error.kind != kind):
        said = "missing" if row.error is None else f"of kind {row.error.kind}"
        return f"error is {said}: the outcome is {outcome}, which has one of kind {kind}"
    if row.outcome is Outcome.STOPPED and row.cancel_reason is None:
        return f"cancel_reason is missing: the outcome is {outcome}"
    if row.cancel_reason is not None and row.cancel_reason not in get_args(StopReason):
        return f"cancel_reason is {told(row.cancel_reason)}: it must be one of {', '.join(get_args(StopReason))}"
    if row.n_steps != len(row.steps):
        return f"n_steps is {row.n_steps}: the row holds {len(row.steps)} steps"
    return None


def _hash_fault(row: Rollout) -> str | None:
    """A name that is no hash would be a path from outside."""
    names = {sha256 for step in row.steps for sha256 in step.request.messages}
    wrong = next((name for name in sorted(names) if not is_hash(name)), None)
    if wrong is not None:
        return f"a step names the message {told(wrong)}: that is no SHA-256 in hex"
    if row.final_image is not None and not is_hash(row.final_image):
        return f"final_image is {told(row.final_image)}: that is no SHA-256 in hex"
    return None
