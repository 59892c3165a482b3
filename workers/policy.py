"""How does a worker ask the policy? SHELL: one call at a time over the wire, asked again until answered or stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.clock import Clock
from legato_rl.records import RolloutKey
from legato_rl.sockets import Client, wait
from legato_rl.wire import (
    BlobName,
    CallAsk,
    CallCancel,
    CallFailed,
    CallGone,
    CallId,
    CallNeeds,
    CallPending,
    CallReply,
    Message,
    Refused,
)
from legato_rl.workers.conversation import Blob
from legato_rl.workers.link import Dropped, Link, Stopped
from legato_rl.workers.pace import CallClock

ASK_AGAIN_S = 2.0
"""Seconds without an answer after which a call is asked again; the proxy drops what nobody repeats for 10 s."""
CANCEL_S = 5.0
"""Seconds that a cancel is repeated; a proxy that is away drops the call by itself."""
QUIT_CANCEL_S = 1.0
"""The same, when this process is to end."""


class CallError(BaseException):
    """No completion will come of a call; `type` is the cause to count by.

    No Exception: it passes through the agent's code, which must not take it for a fault of its own.
    """

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type


def call_id(key: RolloutKey, lease: int, step: int, messages: list[str], params: dict[str, Any]) -> CallId:
    """The id of a call: another prompt or other parameters under the same step have another digest."""
    digest = sha256_hex(canonical_json([messages, params]))
    return CallId(rollout=key.rollout_id, lease=lease, step=step, digest=digest)


@dataclass
class PolicyLine:
    """A worker's connection to the proxy."""

    socket: Client
    link: Link
    clock: Clock

    def call(
        self,
        call: CallId,
        policy: int,
        previous: str,
        messages: list[str],
        params: dict[str, Any],
        deadline_s: float | None,
        new: list[Blob],
        known: dict[str, Blob],
    ) -> CallReply:
        """The completion of `call`. CallError where none will come; Stopped or Dropped where the try is to end.

        `policy` is the assignment's, `previous` the `ids_hash` of the last step's answer.
        `deadline_s` seconds it may run in all, also where a proxy ends in between.
        `new` are the blobs that the proxy has not seen; `known` holds every blob of the rollout, for what it asks again.
        """
        blobs, spent = new, CallClock(self.clock.monotonic())
        try:
            while True:
                self.link.news.clear()
                self.link.check()
                names = [BlobName(sha256=blob.sha256, size=len(blob.data), type=blob.type) for blob in blobs]
                ask = CallAsk(
                    call=call,
                    messages=messages,
                    params=params,
                    deadline_s=spent.left(deadline_s),
                    blobs=names,
                    policy=policy,
                    previous=previous,
                )
                spent.asked(self.clock.monotonic())
                self.socket.send(ask, [blob.data for blob in blobs])
                answer = self._hear(ask, known, spent)
                if isinstance(answer, CallReply):
                    return spent.of(answer, self.clock.monotonic())
                blobs = answer
        except (Stopped, Dropped):
            self.cancel(call)
            raise

    def _hear(self, ask: CallAsk, known: dict[str, Blob], spent: CallClock) -> CallReply | list[Blob]:
        """The reply; or the blobs that the proxy needs; or, after ASK_AGAIN_S without either, no blobs: ask again."""
        ask_again = self.clock.monotonic() + ASK_AGAIN_S
        needed: list[Blob] = []
        while not needed and (left := ask_again - self.clock.monotonic()) > 0:
            wait([self.socket, self.link.news], left)
            self.link.news.clear()
            self.link.check()
            for message in self._answers(ask.call):
                match message:
                    case CallReply():
                        return message
                    case CallFailed():
                        raise CallError(message.type, message.message)
                    case CallPending():
                        spent.told(message)
                    case CallNeeds():
                        needed = [known[sha256] for sha256 in message.hashes if sha256 in known]
                    case Refused(of=of) if of == ask.ident():
                        raise CallError("proxy_refused", message.reason)
        return needed

    def cancel(self, call: CallId) -> None:
        """Have the proxy drop `call` and forget its rollout; gives up silently on a proxy that is away."""
        give_up = self.clock.monotonic() + (QUIT_CANCEL_S if self.link.quit_.asked else CANCEL_S)
        while self.clock.monotonic() < give_up:
            self.socket.send(CallCancel(call=call))
            wait([self.socket], QUIT_CANCEL_S)
            if any(isinstance(message, CallGone) for message in self._answers(call)):
                return

    def forget(self, call: CallId) -> None:
        """The rollout of `call` has ended: what the proxy holds of it may go. Said once; the proxy forgets by itself too."""
        self.socket.send(CallCancel(call=call))

    def _answers(self, call: CallId) -> list[Message]:
        """What came, less what belongs to another call (late answers of an earlier step)."""
        answers = [received.message for received in self.socket.receive()]
        return [message for message in answers if getattr(message, "call", call) == call]
