"""May this row, or this blob, be stored? What the sink checks before it touches a path. PURE: no files, no clock.

A refusal is a WireError in one sentence: the sender is wrong, and the same row or blob will never be accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from legato_rl.bad_input import one_sentence
from legato_rl.canonical import canonical_json, image_hashes, is_hash, sha256_hex
from legato_rl.errors import WireError
from legato_rl.records import GRADED_OUTCOMES, Draft, Outcome, is_id
from legato_rl.wire import BlobName

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""The first bytes of every PNG (ISO/IEC 15948, section 5.2)."""

ERROR_KINDS = {
    Outcome.DESKTOP_FAILED: "env",
    Outcome.WORKER_LOST: "env",
    Outcome.EVALUATOR_FAILED: "env",
    Outcome.POLICY_FAILED: "policy",
}
"""The outcomes that come with an error, and its kind."""


@dataclass(frozen=True)
class Expected:
    """What a row of this run can be: its id, each group's task id, and the attempts per group."""

    run_id: str
    tasks: Mapping[str, str]
    attempts: int


def read_draft(row: dict[str, Any], expected: Expected) -> Draft:
    """`row` as a Draft of the run. WireError names the field that is wrong, its value and what it should be."""
    try:
        draft = Draft.model_validate(row)
    except ValidationError as error:
        raise WireError(one_sentence(error)) from None
    fault = _key_fault(draft, expected) or _outcome_fault(draft) or _hash_fault(draft)
    if fault:
        raise WireError(fault)
    return draft


def _key_fault(draft: Draft, expected: Expected) -> str | None:
    if draft.run_id != expected.run_id:
        return f"run_id is {draft.run_id!r}: this sink stores run {expected.run_id!r}"
    if not is_id(draft.group_id):
        return f"group_id is {draft.group_id!r}: an id has letters, digits, dots, dashes and underscores, 128 at most"
    if draft.group_id not in expected.tasks:
        return f"group_id is {draft.group_id!r}: the run has no such group"
    if draft.task_id != expected.tasks[draft.group_id]:
        return f"task_id is {draft.task_id!r}: group {draft.group_id} is of task {expected.tasks[draft.group_id]!r}"
    if draft.attempt >= expected.attempts:
        return f"attempt is {draft.attempt}: a group of this run has the attempts 0 to {expected.attempts - 1}"
    if draft.rollout_id != draft.key.rollout_id:
        return f"rollout_id is {draft.rollout_id!r}: the key makes it {draft.key.rollout_id!r}"
    return None


def _outcome_fault(draft: Draft) -> str | None:
    outcome = draft.outcome.value
    graded = draft.outcome in GRADED_OUTCOMES
    if graded and draft.reward is None:
        return f"reward is missing: the outcome is {outcome}"
    if not graded and draft.reward is not None:
        return f"reward is {draft.reward}: the outcome is {outcome}, which has none"
    if graded and draft.error is not None:
        return f"error is of type {draft.error.type!r}: the outcome is {outcome}, which has none"
    kind = ERROR_KINDS.get(draft.outcome)
    if kind is not None and (draft.error is None or draft.error.kind != kind):
        said = "missing" if draft.error is None else f"of kind {draft.error.kind}"
        return f"error is {said}: the outcome is {outcome}, which has one of kind {kind}"
    if draft.outcome is Outcome.STOPPED and not draft.cancel_reason:
        return "cancel_reason is missing: the outcome is stopped"
    if draft.n_steps != len(draft.steps):
        return f"n_steps is {draft.n_steps}: the row holds {len(draft.steps)} steps"
    return None


def _hash_fault(draft: Draft) -> str | None:
    seen: set[str] = set()
    for i, step in enumerate(draft.steps):
        # Each step names all messages of its prompt, so most were seen in the step before.
        for name in step.request.messages:
            if name in seen:
                continue
            seen.add(name)
            if not is_hash(name):
                return f"steps.{i}.request.messages holds {name[:80]!r}: that is no SHA-256 in hex"
    if draft.final_image is not None and not is_hash(draft.final_image):
        return f"final_image is {draft.final_image[:80]!r}: that is no SHA-256 in hex"
    return None


def check_blobs(names: list[BlobName], blobs: list[bytes]) -> None:
    """WireError unless `blobs` are, in order, what `names` says: size, hash, and a PNG or a chat message."""
    if len(names) != len(blobs):
        raise WireError(f"blobs names {len(names)} blobs: the message has {len(blobs)} blob frames")
    for name, data in zip(names, blobs, strict=True):
        if not is_hash(name.sha256):
            raise WireError(f"sha256 is {name.sha256[:80]!r}: that is no SHA-256 in hex")
        if name.size != len(data):
            raise WireError(f"size of blob {name.sha256} is {name.size}: its frame has {len(data)} bytes")
        if sha256_hex(data) != name.sha256:
            raise WireError(f"sha256 is {name.sha256}: the bytes of that frame have another hash")
        if name.type == "message":
            _check_message(name.sha256, data)
        elif not data.startswith(PNG_SIGNATURE):
            raise WireError(f"type of blob {name.sha256} is image: its bytes are no PNG")


def _check_message(sha256: str, data: bytes) -> None:
    try:
        message = json.loads(data)
        canonical = isinstance(message, dict) and canonical_json(message) == data
    except (ValueError, RecursionError):
        canonical = False
    if not canonical:
        raise WireError(f"type of blob {sha256} is message: its bytes are no JSON object in canonical form")
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image_url"]
    if len(image_hashes(message)) != len(images):
        raise WireError(f"blob {sha256} is a message with an image that is not named by its hash (legato-image://…)")
