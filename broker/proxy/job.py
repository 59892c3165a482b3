"""What is one HTTP attempt? From a gathered prompt to a reply or a verdict, in one of the pool's threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from legato_rl.broker.proxy.fragments import Fragment
from legato_rl.broker.proxy.orders import Completed
from legato_rl.canonical import sha256_hex
from legato_rl.clock import Clock
from legato_rl.errors import RecordError
from legato_rl.policy.answer import Completion
from legato_rl.policy.body import canonical_body, wire_body
from legato_rl.policy.upstream import Upstream, UpstreamError
from legato_rl.policy.verdicts import Action, Verdict
from legato_rl.prompt_ids import PromptHistory, record_prompt
from legato_rl.records import ModelUse, StepResponse
from legato_rl.wire import CallId, CallReply

IDS_KEY = "return_token_ids"


@dataclass(frozen=True)
class Job:
    """Attempt `token` at a call. `params` is the whole body less its messages; `version` is in force as it leaves."""

    token: int
    call: CallId
    params: dict[str, object]
    prompt: list[Fragment]
    before: PromptHistory
    version: str
    timeout_s: float


def attempt(job: Job, upstream: Upstream, clock: Clock) -> Completed | Verdict:
    """Send `job`, and make its reply; or the verdict where no usable completion came."""
    body = wire_body(job.params, [fragment.ready for fragment in job.prompt])
    left = clock.monotonic()
    try:
        completion = upstream.post_chat(body, job.timeout_s, job.call.rollout, job.token)
        return _completed(job, completion, clock.monotonic() - left)
    except UpstreamError as error:
        if error.verdict.action is Action.WITHOUT_IDS and IDS_KEY not in job.params:
            return replace(error.verdict, action=Action.FAIL)
        return error.verdict
    except RecordError as error:
        return Verdict(Action.FAIL, "bad_answer", f"the server's answer is damaged: {error}")


def _completed(job: Job, completion: Completion, seconds: float) -> Completed:
    """The reply of `completion`, with the prompt's ids told as a difference. RecordError for ids that are none."""
    hashes = [image for fragment in job.prompt for image in fragment.images]
    prompt, after = None, PromptHistory(placeholder=job.before.placeholder)
    if completion.prompt_token_ids is not None:
        prompt, after = record_prompt(job.before, completion.prompt_token_ids, hashes)
        after = after.answered(completion.token_ids or [])
    reply = CallReply(
        call=job.call,
        response=StepResponse(
            content=completion.content,
            reasoning=completion.reasoning,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            tokens=completion.tokens,
            finish_reason=completion.finish_reason,
        ),
        params=job.params,
        body_sha256=sha256_hex(canonical_body(job.params, [fragment.message for fragment in job.prompt])),
        prompt=prompt,
        model=ModelUse(
            seconds=seconds,
            queued_s=0.0,
            attempts=0,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            version=job.version,
            server_version=completion.server_version,
        ),
    )
    return Completed(reply, after)
