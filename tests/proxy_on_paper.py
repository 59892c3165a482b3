"""What surrounds the proxy's core in tests? A shell on paper: it carries orders out by writing down what they would do."""

from __future__ import annotations

from dataclasses import dataclass, field

from legato_rl.broker.proxy.calls import State
from legato_rl.broker.proxy.core import Core
from legato_rl.broker.proxy.orders import Abort, Completed, Forget, Order, Probe, Start, Tell
from legato_rl.parts import PauseMode
from legato_rl.policy.verdicts import UNKNOWN_MODEL, Action, Verdict
from legato_rl.prompt_ids import NO_HISTORY, PromptHistory
from legato_rl.records import ModelUse, StepResponse
from legato_rl.wire import CallAsk, CallFailed, CallId, CallReply, PolicyName, RunPolicy

RUNS = ["a", "b", "c", "d", "e"]
"""Each of them has one rollout, of the same name."""


def call_id(rollout: str, lease: int = 1, step: int = 0, digest: str = "d") -> CallId:
    return CallId(rollout=rollout, lease=lease, step=step, digest=digest)


def completion(call: CallId, after: PromptHistory = NO_HISTORY, seconds: float = 1.0) -> Completed:
    """A completion of `call`, as a pool thread reports it that was at it for so long."""
    response = StepResponse(content="x", reasoning=None, token_ids=[1], logprobs=[0.0], tokens=None, finish_reason=None)
    model = ModelUse(
        seconds=seconds, queued_s=0.0, attempts=0, prompt_tokens=1, completion_tokens=1, cached_tokens=None, version="v",
        server_version=None,
    )  # fmt: skip
    return Completed(CallReply(call=call, response=response, params={}, body_sha256="", prompt=None, model=model), after)


def verdict(action: Action) -> Verdict:
    return Verdict(action, action.value, f"said {action.value}")


NO_SUCH_MODEL = Verdict(Action.FAIL, UNKNOWN_MODEL, "the server does not know the model")


@dataclass
class Harness:
    """A core whose orders are carried out on paper: what is in the air, and what was told."""

    core: Core
    policies: list[RunPolicy]
    now: float = 0.0
    air: dict[int, CallId] = field(default_factory=dict)
    departed: dict[int, float] = field(default_factory=dict)
    """By attempt, of all that ever left."""
    starts: list[str] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    told: dict[str, CallReply | CallFailed] = field(default_factory=dict)
    probes: int = 0

    def take(self, orders: list[Order]) -> None:
        for order in orders:
            match order:
                case Start(call=call, token=token):
                    assert token not in self.air
                    self.air[token] = call.id
                    self.departed[token] = self.now
                    self.starts.append(call.id.rollout)
                    assert len(self.air) <= self.core.admission.max_inflight
                    assert self.core.server.standing == "up"
                    assert self.core.name_of(call) is not None
                case Abort(token=token):
                    assert token in self.air
                    self.aborted.add(token)
                case Tell(call=call):
                    assert call.answer is not None
                    assert isinstance(call.answer, CallFailed) or call.answer.model.attempts >= 1
                    assert call.answer.call == call.id
                    assert call.id.rollout not in self.told, "a call is answered once"
                    self.told[call.id.rollout] = call.answer
                case Forget(rollout=rollout):
                    self.told.pop(rollout, None)
                case Probe():
                    self.probes += 1

    def ask(self, call: CallId, deadline_s: float | None = None, peer: bytes | None = None, policy: int = 0) -> None:
        """Ask a call whose prompt is all there; of each rollout's own worker unless `peer` says otherwise."""
        asked = CallAsk(call=call, messages=[], params={}, deadline_s=deadline_s, blobs=[], policy=policy)
        held = self.core.calls.get(call.rollout)
        before = held.id if held else None
        found, orders = self.core.ask(asked, peer or call.rollout.encode(), self.now)
        if found is not None and before is not None and before != call:
            self.told.pop(call.rollout, None)
        self.take(orders)
        if found is not None and found.state is State.GATHERING:
            self.take(self.core.gathered(found, self.now))

    def obey(self, pause: PauseMode | None = None, max_inflight: int | None = None) -> None:
        """Be told how calls are to be made, of the runs in `policies`."""
        most = max_inflight or self.core.admission.max_inflight
        self.take(self.core.obey(self.policies, most, pause, self.now))

    def end(self, token: int, said: Action | Verdict | None = None) -> None:
        """Report the end of an attempt: a completion, or a verdict."""
        call = self.air.pop(token)
        if token in self.aborted:
            said = Action.CANCELLED
        if said is None:
            done = completion(call, seconds=self.now - self.departed[token])
            self.take(self.core.completed(token, done, self.now))
        else:
            self.take(self.core.ended(token, verdict(said) if isinstance(said, Action) else said, self.now))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.core.tick(self.now))

    def probed(self, healthy: bool) -> None:
        if self.probes:
            self.probes -= 1
            self.take(self.core.probed(healthy, "no health", self.now))

    def token(self, rollout: str) -> int:
        """The attempt in the air for `rollout`."""
        return next(token for token, call in self.air.items() if call.rollout == rollout and token not in self.aborted)

    def check(self) -> None:
        """What is always true."""
        core, admission = self.core, self.core.admission
        assert admission.slots == set(self.air)
        assert set(admission.tickets) == {
            name for name, call in core.calls.items() if call.state in (State.QUEUED, State.PAUSING, State.RUNNING)
        }
        for name, call in core.calls.items():
            assert (call.answer is not None) == (call.state in (State.ANSWERED, State.FAILED))
            assert call.answer == self.told.get(name)
            if name in admission.tickets:
                pending = core.pending(call, self.now)
                assert pending.state == (call.ticket and call.ticket.clock)
                spent = (pending.queued_s, pending.running_s, pending.down_s, pending.paused_s)
                assert min(spent) >= 0
                assert sum(spent) <= self.now + 1e-6
        if core.server.standing == "up" and len(self.air) < admission.max_inflight:
            queued = [call for call in core.calls.values() if call.state is State.QUEUED]
            assert not [call for call in queued if call.ticket is not None and core.may_go(call.ticket, self.now)]


def first_of(h: Harness, rollout: str) -> int:
    """Ask a first call of `rollout`; its attempt."""
    h.ask(call_id(rollout))
    return h.token(rollout)


def run_policy(run: str, retries: int = 1, versions: tuple[str, ...] = ("v",), model: str = "m") -> RunPolicy:
    """A run's policies, one of each version."""
    names = [PolicyName(model=model, version=version) for version in versions]
    return RunPolicy(run=run, names=names, step_timeout=60.0, retries=retries)


def harness(max_inflight: int = 2, retries: int = 1, server_wait: float = 600.0) -> Harness:
    """A core that knows the policies of RUNS."""
    h = Harness(Core(max_inflight, server_wait, "boot"), [run_policy(run, retries) for run in RUNS])
    h.obey()
    return h
