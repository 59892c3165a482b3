"""What may the proxy's core have its shell do, and what does the shell tell it of a completion? PURE."""

from __future__ import annotations

from dataclasses import dataclass

from legato_rl.broker.proxy.calls import Call
from legato_rl.prompt_ids import PromptHistory
from legato_rl.wire import CallReply


@dataclass(frozen=True)
class Start:
    """Send this call to the server as attempt `token`."""

    call: Call
    token: int


@dataclass(frozen=True)
class Abort:
    """Close the connection of attempt `token`; its end is still to be reported."""

    token: int


@dataclass(frozen=True)
class Tell:
    """The call has its answer: tell the peer."""

    call: Call


@dataclass(frozen=True)
class Forget:
    """Nothing of this rollout is held any more."""

    rollout: str


@dataclass(frozen=True)
class Probe:
    """Ask the server's health, and report it with `probed`."""


Order = Start | Abort | Tell | Forget | Probe


@dataclass(frozen=True)
class Completed:
    """A usable completion: the reply (its waits and attempts not filled in), and the rollout's ids up to it."""

    reply: CallReply
    after: PromptHistory
