"""How does a worker ask the proxy for a completion? The messages of socket `policy`. PURE: knows no socket."""

from __future__ import annotations

from typing import Any, Literal

from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.frames import Message
from legato_rl.parts import BlobName, CallId
from legato_rl.records import Items, ModelUse, PromptRecord, StepResponse


# --- policy: worker <-> proxy ----------------------------------------------------------------------------------------
class CallAsk(Message):
    """worker -> proxy: answer this call; asked again until answered. Blobs: what the proxy has not seen yet.

    `params` is the body less `messages` and `model`; the proxy adds the model in force. `deadline_s` is what is left of
    the rollout's own time: the running HTTP attempt is ended when it has used that much. `policy` is the assignment's.
    `previous` names the answer that the worker has of the step before: only to its ids is the prompt told as a difference,
    since another proxy may have answered that step otherwise.
    """

    call: CallId
    messages: Items[str]
    params: dict[str, Any]
    deadline_s: float | None
    blobs: Items[BlobName]
    policy: int = 0
    previous: str = ""

    def ident(self) -> str:
        return str(self.call)


class CallPending(Message):
    """proxy -> worker: not yet. Seconds spent so far in each state; `queued`, `down` and `paused` stop the rollout's clock.

    `taken` is drawn when the call is taken in: another one means that the proxy had forgotten the call, or is another process,
    and the seconds begin anew.
    """

    call: CallId
    state: Literal["queued", "running", "down", "paused"]
    queued_s: float
    running_s: float
    down_s: float
    paused_s: float
    taken: str = ""


class CallNeeds(Message):
    """proxy -> worker: ask again with these blobs."""

    call: CallId
    hashes: Items[str]


class CallReply(Message):
    """proxy -> worker: the completion, kept until the next step.

    The rollout's own time stands still also where the run is paused, or the server down, while the attempt runs: `stood_s`
    has that, `model.queued_s` only what was before the attempt.
    """

    call: CallId
    response: StepResponse
    params: dict[str, Any]
    body_sha256: str
    prompt: PromptRecord | None
    model: ModelUse
    stood_s: float = 0.0

    def ids_hash(self) -> str:
        """Names the ids of the prompt and of what was sampled after it; empty where the server gave none."""
        if self.prompt is None:
            return ""
        return sha256_hex(canonical_json([self.prompt.sha256, self.response.token_ids]))


class CallFailed(Message):
    """proxy -> worker: no completion will come of this call. `type` is a short cause, `rollout_timeout` the rollout's own."""

    call: CallId
    type: str
    message: str
    queued_s: float


class CallCancel(Message):
    """worker -> proxy: drop or abort this call and forget the rollout; asked again until `CallGone`."""

    call: CallId


class CallGone(Message):
    """proxy -> worker: nothing of this rollout is held any more."""

    call: CallId
