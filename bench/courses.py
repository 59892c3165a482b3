"""Which waits does an attempt have? Plays it with the product's own code against a clock that only counts.

The try, the agent, the fake desktop and the fake policy are the ones that a real run uses, in one process, without
sockets. All their draws are functions of (seed, group, attempt, try, step), so an attempt has here the very waits, moves
and reward that it has in the run; `agrees` compares the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from legato_rl.config import Phase
from legato_rl.fake.chat import Chat
from legato_rl.fake.desktop import FakeDesktop
from legato_rl.policy.body import message_fragment
from legato_rl.records import Draft, ModelUse, RolloutKey, StepResponse
from legato_rl.rundir import RunFile, TaskSpec
from legato_rl.wire import Assignment, CallId, CallReply
from legato_rl.workers.agent.qwen import QwenAgent
from legato_rl.workers.conversation import Blob
from legato_rl.workers.desk import Desk
from legato_rl.workers.rollout import Try


@dataclass
class CountingClock:
    """Time passes only where somebody sleeps."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Course:
    """One attempt from its start (0.0) to its end, in seconds. A stop is obeyed at `checks`, and at once within `calls`."""

    draft: Draft
    seconds: float
    checks: list[float]
    calls: list[tuple[float, float]]

    def stopped_at(self, since: float) -> float | None:
        """When a stop that came at `since` is obeyed; None where the try is past its last check."""
        if any(begun <= since < ended for begun, ended in self.calls):
            return since
        return min((check for check in self.checks if check >= since), default=None)

    def agrees(self, row: dict[str, Any]) -> bool:
        """Whether a graded row tells the same steps, actions and reward."""
        own = [[action.action for action in step.actions] for step in self.draft.steps]
        told = [[action["action"] for action in step["actions"]] for step in row["steps"]]
        return own == told and self.draft.reward == row["reward"]


@dataclass
class NoStop:
    """Stands in for the link: nobody stops this try, but where it would obey is noted."""

    clock: CountingClock
    checks: list[float] = field(default_factory=list)

    def phase(self, phase: Phase, step: int = -1, past_actions: bool = False) -> None:
        """Nobody watches."""

    def check(self) -> None:
        """Note the moment."""
        self.checks.append(self.clock.now)


class NoSink:
    """Stands in for the line to the sink."""

    def put(self, blobs: list[Blob]) -> None:
        """Nothing is stored."""


@dataclass
class DirectPolicy:
    """Stands in for proxy and server: the fake policy, asked by a call of a function. Its latency passes on `clock`."""

    chat: Chat
    model: str
    clock: CountingClock
    calls: list[tuple[float, float]] = field(default_factory=list)
    _messages: dict[str, Any] = field(default_factory=dict)

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
        """What the server would answer."""
        images = {blob.sha256: blob.data for blob in known.values() if blob.type == "image"}
        for blob in new:
            if blob.type == "message":
                self._messages[blob.sha256] = json.loads(message_fragment(blob.data, images))
        plan = self.chat.plan({**params, "model": self.model, "messages": [self._messages[name] for name in messages]})
        begun = self.clock.now
        self.clock.sleep(plan.latency)
        self.calls.append((begun, self.clock.now))
        message = self.chat.answer(plan, 0, 0)["choices"][0]["message"]
        response = StepResponse(
            content=message["content"],
            reasoning=message["reasoning"],
            token_ids=plan.sample.ids,
            logprobs=[0.0] * len(plan.sample.ids),
            tokens=None,
            finish_reason=plan.sample.finish_reason,
        )
        unknown = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "server_version"))
        use = ModelUse(seconds=plan.latency, queued_s=0.0, attempts=1, version="", **unknown)
        return CallReply(call=call, response=response, params=params, body_sha256="", prompt=None, model=use)

    def forget(self, call: CallId) -> None:
        """Nothing is held."""


def play(run: RunFile, task: TaskSpec, key: RolloutKey, chat: Chat) -> Course:
    """The course of try `key`, undisturbed. `chat` is set as the run's server is; the run must have seeds."""
    settings, clock = run.settings, CountingClock()
    desktop = FakeDesktop(settings.desktop, "course", clock=clock)
    link, policy = NoStop(clock), DirectPolicy(chat, settings.policy.model, clock)
    agent = QwenAgent(model=settings.policy.model, image_max=settings.image_max, fold_size=settings.fold_size, today=run.today)
    assignment = Assignment(
        key=key, task_id=task.task_id, domain=task.domain, task=task.config, max_steps=task.max_steps, meta=task.meta
    )
    desk = Desk(desktop, settings.desktop.screen_size)
    clock.now = 0.0  # the desktop booted
    draft = Try(settings, assignment, 0, desk, "course", agent, policy, NoSink(), link, clock).run()  # type: ignore[arg-type]
    return Course(draft, clock.now, link.checks, policy.calls)
