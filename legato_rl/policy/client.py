"""How does a Python user, or a probe, call the policy? One call after another, retried as the verdicts say.

Rollouts do not come this way: the proxy calls the server for them, and owns their retries.
"""

from __future__ import annotations

from typing import Any

from legato_rl.canonical import canonical_json
from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import PolicyConfig
from legato_rl.errors import PolicyError
from legato_rl.policy.answer import Aborted, Answer, Completion, parse_completion, read_answer
from legato_rl.policy.body import sampling_params, wire_body
from legato_rl.policy.upstream import Upstream, UpstreamError
from legato_rl.policy.verdicts import Action

PATIENCE_S = 30.0
"""Seconds that a call waits, in all, for a server that is full."""
PAUSE_S = 0.5
"""Seconds between two attempts of a call."""


class PolicyClient:
    """The policy behind one model server. Also a context manager that closes the connection.

    `token_ids` turns False when the server refuses to return them. ConfigError for a key that no header can carry.
    """

    def __init__(self, policy: PolicyConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self.policy = policy
        self.token_ids = True
        self._clock = clock
        self._upstream = Upstream(policy, clock)

    def complete(self, messages: list[dict[str, Any]], seed: int | None = None) -> Completion:
        """The policy's answer to chat `messages` (images as data URLs). PolicyError, by type, where there is none."""
        answer = self.ask(messages, seed=seed)
        try:
            return parse_completion(answer)
        except Aborted as error:
            raise PolicyError("aborted", str(error)) from None
        except PolicyError as error:
            raise PolicyError(error.type, self._upstream.safe_words(error, answer)) from None

    def answer(self, messages: list[dict[str, Any]], **fields: Any) -> Answer:
        """What the server answers, not judged yet. PolicyError where there is none, or no chat completion in it."""
        body = self.ask(messages, **fields)
        try:
            return read_answer(self._upstream.plain(body))
        except PolicyError as error:
            raise PolicyError(error.type, self._upstream.safe_words(error, body)) from None

    def ask(self, messages: list[dict[str, Any]], seed: int | None = None, **fields: Any) -> bytes:
        """The 200 body of a chat request, `fields` laid over its own. PolicyError where there is none."""
        params = {**sampling_params(self.policy, seed), **fields, "model": self.policy.model}
        fragments = [canonical_json(message) for message in messages]
        ends = self._clock.monotonic() + PATIENCE_S
        retries = self.policy.retries
        while True:
            if not self.token_ids:
                params.pop("return_token_ids", None)
            try:
                body = self._upstream.post(wire_body(params, fragments), self.policy.step_timeout, "legato-client")
            except UpstreamError as error:
                verdict = error.verdict
            else:
                self.token_ids = "return_token_ids" in params
                return body
            if verdict.action is Action.WITHOUT_IDS and "return_token_ids" in params:
                del params["return_token_ids"]
            elif verdict.action is Action.BACK_OFF and self._clock.monotonic() < ends:
                self._clock.sleep(PAUSE_S)
            elif verdict.action is Action.RETRY and retries:
                retries -= 1
                self._clock.sleep(PAUSE_S)
            elif verdict.action is not Action.RETRY_FRESH:
                raise PolicyError(verdict.type, verdict.message)

    def get(self, path: str, timeout_s: float = 10.0) -> tuple[int, bytes]:
        """Status and body of a GET, as Upstream.get. PolicyError where there is no HTTP answer."""
        for last in (False, True):
            try:
                return self._upstream.get(path, timeout_s)
            except UpstreamError as error:
                if last or error.verdict.action is not Action.RETRY_FRESH:
                    raise PolicyError(error.verdict.type, error.verdict.message) from None
        raise AssertionError("the second attempt returns or raises")

    def close(self) -> None:
        """Close the connection."""
        self._upstream.close()

    def __enter__(self) -> PolicyClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
