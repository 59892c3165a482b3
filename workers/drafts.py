"""What does a try's row say of its actions and of itself? PURE."""

from __future__ import annotations

from typing import Any

from legato_rl.config import PolicyConfig
from legato_rl.desktop import ActResult
from legato_rl.records import ActionRecord, PolicyStamp, Step
from legato_rl.wire import Assignment

STDERR_BYTES = 2000
"""What a row keeps of an action's stderr."""


def action_record(action: str, result: ActResult) -> ActionRecord:
    """An action and what the guest said of it; its look at the screen is not in it yet."""
    ready = result.ready
    return ActionRecord(
        action=action,
        rc=result.rc,
        stderr=result.stderr.encode("utf-8", "backslashreplace")[:STDERR_BYTES].decode(errors="ignore"),
        act_s=result.act_s,
        wait_s=ready.seconds,
        ready_s=ready.seconds if ready.state == "ready" else None,
        ready=ready.state,
        obs_s=0.0,
    )


def stamp(policy: PolicyConfig, steps: list[Step]) -> PolicyStamp:
    """The policy that answered; what the run asked for where there is no step."""
    if not steps:
        return PolicyStamp(model=policy.model, version=policy.version, versions=[])
    versions = list(dict.fromkeys(step.model.version for step in steps))
    return PolicyStamp(model=steps[0].request.params.get("model", policy.model), version=versions[0], versions=versions)


def identity(assignment: Assignment) -> dict[str, Any]:
    """The fields of a Draft that name the try."""
    key = assignment.key
    return {
        "run_id": key.run,
        "rollout_id": key.rollout_id,
        "task_id": assignment.task_id,
        "domain": assignment.domain,
        "group_id": key.group,
        "attempt": key.attempt,
        "try_": key.try_,
        "meta": assignment.meta,
    }
