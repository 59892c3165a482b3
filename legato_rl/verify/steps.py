"""Is each step what was sent and what came back? Bodies and prompt ids are rebuilt, ids and logprobs counted. DISK."""

from __future__ import annotations

import math

from legato_rl.canonical import canonical_json, image_hashes, sha256_hex
from legato_rl.errors import RecordError
from legato_rl.policy.answer import NO_LOGPROB
from legato_rl.prompt_ids import pack, rebuild
from legato_rl.records import Rollout, Step, StepResponse
from legato_rl.request import StoredMessages
from legato_rl.rundir import RunDir
from legato_rl.verify.blobs import Blobs
from legato_rl.verify.report import Report


class StepChecker:
    """Looks at the steps of one row after another."""

    def __init__(self, run: RunDir, blobs: Blobs, report: Report) -> None:
        self._stored = StoredMessages(run)
        self._blobs = blobs
        self._report = report

    def check(self, rollout: Rollout, where: str) -> None:
        """All steps of `rollout`, in order."""
        before: list[int] | None = []
        for index, step in enumerate(rollout.steps):
            place = f"{where} step {index}"
            self._report.steps += 1
            self._check_request(step, place)
            fault = ids_fault(step)
            if fault:
                self._report.fault("step-ids", place, fault)
            # What follows a step whose ids are damaged, or a prompt that is, cannot be rebuilt, and is not told again.
            before = None if before is None else self._prompt(step, before, place)
            if before is not None:
                before = None if fault else [*before, *(step.response.token_ids or [])] if step.request.prompt else []
        if rollout.final_image is not None:
            self._blobs.name_image(rollout.final_image, where, self._report)

    def _prompt(self, step: Step, before: list[int], where: str) -> list[int] | None:
        """The prompt's ids, empty where the server gave none; None where they cannot be rebuilt, which is told."""
        if step.request.prompt is None:
            return []
        try:
            return rebuild(before, step.request.prompt)
        except RecordError as error:
            self._report.fault("step-prompt", where, str(error))
            return None

    def _check_request(self, step: Step, where: str) -> None:
        hashes, request = step.request.messages, step.request
        # All are named, whatever becomes of one.
        whole = [self._blobs.name_message(sha256, where, self._report) for sha256 in hashes]
        # A body whose parts are missing or damaged, which is told of those, has no hash to compare.
        if not all(whole):
            return
        messages = self._stored.load(hashes)
        actual = sha256_hex(canonical_json({**request.params, "messages": messages}))
        if actual != request.body_sha256:
            self._report.fault("step-body", where, f"body_sha256 is {request.body_sha256}, rebuilt it is {actual}")
        placed = [sha256 for _, _, sha256 in request.prompt.images] if request.prompt else []
        named = [sha256 for message in messages for sha256 in image_hashes(message)]
        if placed and placed != named:
            self._report.fault("step-prompt", where, f"prompt.images are not the {len(named)} images of the messages")


def ids_fault(step: Step) -> str | None:
    """Why ids and logprobs of a step do not belong together; None where they do. As the proxy asked when they came."""
    response = step.response
    fault = _length_fault(response, step.model.completion_tokens)
    if fault:
        return fault
    for n, logprob in enumerate(response.logprobs):
        if not math.isfinite(logprob) or logprob <= NO_LOGPROB:
            return f"response.logprobs.{n} is {logprob}: that is none of a token that was sampled"
    try:
        pack(response.token_ids or [])
    except RecordError as error:
        return str(error)
    return None


def _length_fault(response: StepResponse, completion_tokens: int | None) -> str | None:
    if response.tokens is not None and response.token_ids is not None:
        return "response.tokens are there beside response.token_ids"
    counts = {"logprobs": len(response.logprobs)}
    for name, count in (
        ("token ids", None if response.token_ids is None else len(response.token_ids)),
        ("tokens", None if response.tokens is None else len(response.tokens)),
        ("completion_tokens", completion_tokens),
    ):
        if count is not None:
            counts[name] = count
    return f"there are {', '.join(f'{n} {name}' for name, n in counts.items())}" if len(set(counts.values())) > 1 else None
