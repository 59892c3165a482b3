"""How does one try run? reset, (observe, policy, act)*, evaluate, in plain blocking code; ends in a Draft.

It meets the world through what it is given: a desktop, an agent, a policy line, a row line, the link to the broker.
Whatever goes wrong becomes an outcome of the row; only Dropped leaves none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from legato_rl.clock import Clock, iso
from legato_rl.config import Phase, Settings
from legato_rl.desktop import DesktopFailure
from legato_rl.policy.body import call_seed, sampling_params
from legato_rl.records import ActionRecord, Draft, Outcome, RolloutError, Step, StepRequest
from legato_rl.wire import Assignment, CallId, CallReply
from legato_rl.workers.agent import Agent, Observation
from legato_rl.workers.agent.reasoning import merge_reasoning
from legato_rl.workers.conversation import Conversation
from legato_rl.workers.desk import Desk, EvaluatorFailed, is_readable
from legato_rl.workers.drafts import action_record, identity, stamp
from legato_rl.workers.link import Link, Stopped
from legato_rl.workers.pace import Pace
from legato_rl.workers.policy import CallError, PolicyLine, call_id
from legato_rl.workers.rows import RowLine

GRADING = frozenset({"wait_before_eval", "evaluate", "store"})
"""Phases in which only the grading or the storing is left."""
ENDS = frozenset({"DONE", "FAIL"})
"""Actions that end the episode."""
TIMEOUT_TYPE = "rollout_timeout"
"""The type of a CallFailed that the rollout's own time-out caused; the rollout is then graded, not failed."""


ERROR_CHARS = 2000
"""What a row keeps of an error's message."""


class _TimedOut(BaseException):
    """The rollout's own time is used up. No Exception, since it passes through the agent's code."""


@dataclass
class Try:
    """One try of one attempt on one desktop, under its run's `settings`. `run()` once."""

    settings: Settings
    assignment: Assignment
    lease: int
    desk: Desk
    desktop_name: str
    agent: Agent
    policy: PolicyLine
    rows: RowLine
    link: Link
    clock: Clock
    conversation: Conversation = field(default_factory=Conversation)

    def __post_init__(self) -> None:
        self._pace = Pace(self.settings.rollout_timeout)
        self._phase: Phase = "reset"
        self._step = 0
        self._steps: list[Step] = []
        self._reply: CallReply | None = None
        self._call: CallId | None = None
        self._previous = ""
        """The `ids_hash` of the last step's answer."""
        self._hashes: list[str] = []
        self._screen = b""
        self._over = False
        """The last action was begun: only looking and grading are left."""
        self.agent.call_llm = self._call_llm

    def run(self) -> Draft:
        """Run the try to its end. Raises Dropped where it is to leave no row."""
        started, start = self.clock.wall(), self.clock.monotonic()
        outcome, reward, reason, error = Outcome.GRADED, None, None, None
        try:
            timed_out = self._episode()
            reward = self._grade()
            if timed_out:
                outcome = Outcome.TIMED_OUT_GRADED
        except Stopped as stop:
            outcome, reason = Outcome.STOPPED, stop.reason
        except DesktopFailure as failure:
            outcome, error = Outcome.DESKTOP_FAILED, self._error("env", failure.type, failure)
        except CallError as failure:
            outcome, error = Outcome.POLICY_FAILED, self._error("policy", failure.type, failure)
        except EvaluatorFailed as failure:
            outcome, error = Outcome.EVALUATOR_FAILED, self._error("env", failure.type, failure)
        finally:
            if self._call is not None:
                self.policy.forget(self._call)
        self._enter("store")
        return self._draft(outcome, reward, reason, error, started, self.clock.monotonic() - start)

    # --- the episode -------------------------------------------------------------------------------------------------

    def _episode(self) -> bool:
        """From reset to the last action; whether the rollout's own time ran out."""
        self._reset()
        try:
            for step in range(self.assignment.max_steps):
                self._step = step
                if self._one_step():
                    return False
        except _TimedOut:
            if not self._steps:
                raise CallError("no_model_call", "the rollout's time ran out before any model call was answered") from None
            return True
        return False

    def _reset(self) -> None:
        key = self.assignment.key
        task = copy.deepcopy(self.assignment.task)
        # What a desktop may want to know of the try: to name its folders, or to draw its luck.
        task["legato"] = {
            "rollout_id": key.rollout_id,
            "group_id": key.group,
            "domain": self.assignment.domain,
            "attempt": key.attempt,
            "try": key.try_,
            "max_steps": self.assignment.max_steps,
        }
        self.link.check()
        with self._timed("reset", "reset_s"):
            self.desk.reset(task)
        with self._timed("wait_after_reset", "wait_after_reset_s"):
            self.desk.wait_after_reset()
        self._pace.start_rollout(self.clock.monotonic())
        self._observe()
        self.agent.reset()

    def _one_step(self) -> bool:
        """One policy call, its actions, one look at the screen; whether the episode is over."""
        self.link.check()
        if self._pace.over(self.clock.monotonic()):
            raise _TimedOut
        self._enter("policy")
        self._reply = None
        _, actions = self._ask_agent(Observation(screenshot=self._screen))
        reply = self._reply
        if reply is None:
            raise CallError("agent_made_no_call", "the agent's predict returned without calling call_llm")
        records: list[ActionRecord] = []
        timed_out = False
        try:
            for action in actions:
                self.link.check()
                timed_out = bool(records) and self._pace.over(self.clock.monotonic())
                if timed_out:
                    break
                self._over = action in ENDS
                records.append(self._act(action))
                if self._over:
                    break
        finally:
            # Also where an action failed: what the policy said, and what ran before, is known and kept.
            self._keep(reply, records)
        self._over = self._over or timed_out or self._step + 1 == self.assignment.max_steps
        seconds = self._observe()
        if records:
            records[-1] = records[-1].model_copy(update={"obs_s": seconds})
            self._steps[-1] = self._steps[-1].model_copy(update={"actions": records})
        if timed_out:
            raise _TimedOut
        return bool(records) and records[-1].action in ENDS

    def _ask_agent(self, observation: Observation) -> tuple[str, list[str]]:
        try:
            return self.agent.predict(self.assignment.task["instruction"], observation)
        except Exception as error:
            if self._reply is not None:
                self._keep(self._reply, [])
            elif not is_readable(self._screen):
                raise DesktopFailure("screenshot", f"the screenshot cannot be decoded: {error}") from error
            raise CallError("agent_error", f"{type(error).__name__}: {error}") from error

    def _call_llm(self, payload: dict[str, Any], model: str) -> str:
        """The agent's seam: its messages go out under the run's sampling; the answer's text comes back."""
        policy, key = self.settings.policy, self.assignment.key
        seed = None
        if policy.seed is not None:
            seed = call_seed(policy.seed, key.group, key.attempt, key.try_, self._step)
        params = sampling_params(policy, seed)
        self._hashes, new = self.conversation.add(payload["messages"])
        self.rows.put(new)
        call = self._call = call_id(key, self.lease, self._step, self._hashes, params)
        known, start = self.conversation.blobs, self.clock.monotonic()
        try:
            reply = self.policy.call(
                call, self.assignment.policy, self._previous, self._hashes, params, self._pace.left(start), new, known
            )
        except CallError as error:
            self._pace.add("model_s", self.clock.monotonic() - start)
            if error.type == TIMEOUT_TYPE:
                raise _TimedOut from None
            raise
        self._pace.add("model_s", self.clock.monotonic() - start)
        self._pace.stand(reply.stood_s)
        self._reply = reply
        return merge_reasoning(reply.response.reasoning, reply.response.content)

    def _keep(self, reply: CallReply, actions: list[ActionRecord]) -> None:
        self._previous = reply.ids_hash()
        request = StepRequest(messages=self._hashes, params=reply.params, body_sha256=reply.body_sha256, prompt=reply.prompt)
        self._steps.append(
            Step(
                request=request,
                response=reply.response,
                model=reply.model,
                parse_error=self.agent.parse_error,
                actions=list(actions),
            )
        )

    def _act(self, action: str) -> ActionRecord:
        start = self.clock.monotonic()
        self._enter("act")
        result = self.desk.act(action)
        total, ready = self.clock.monotonic() - start, result.ready
        self._pace.add("wait_s", min(ready.seconds, total))
        self._pace.add("act_s", max(0.0, total - ready.seconds))
        return action_record(action, result)

    def _observe(self) -> float:
        start = self.clock.monotonic()
        with self._timed("observe", "obs_s"):
            self._screen = self.desk.observe()
        return self.clock.monotonic() - start

    def _grade(self) -> float:
        self.link.check()
        with self._timed("wait_before_eval", "wait_before_eval_s"):
            self.desk.wait_before_eval()
        self.link.check()
        with self._timed("evaluate", "eval_s"):
            return self.desk.evaluate()

    # --- small pieces ------------------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self.link.phase(phase, self._step, past_actions=self._over or phase in GRADING)

    @contextmanager
    def _timed(self, phase: Phase, part: str) -> Iterator[None]:
        self._enter(phase)
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self._pace.add(part, self.clock.monotonic() - start)

    def _error(self, kind: str, type_: str, error: BaseException) -> RolloutError:
        message = str(error)[:ERROR_CHARS]
        return RolloutError.model_validate({"kind": kind, "phase": self._phase, "type": type_, "message": message})

    def _draft(
        self,
        outcome: Outcome,
        reward: float | None,
        reason: str | None,
        error: RolloutError | None,
        started: float,
        total_s: float,
    ) -> Draft:
        final = None
        if self._screen:
            final, new = self.conversation.add_image(self._screen)
            self.rows.put(new)
        return Draft(
            **identity(self.assignment),
            policy=stamp(self.settings.policy, self._steps),
            desktop=self.desktop_name,
            reset=self.desk.reset_way,
            outcome=outcome,
            reward=reward,
            cancel_reason=reason,
            error=error,
            n_steps=len(self._steps),
            started_at=iso(started),
            ended_at=iso(self.clock.wall()),
            timing=self._pace.timing(total_s),
            steps=self._steps,
            final_image=final,
        )
