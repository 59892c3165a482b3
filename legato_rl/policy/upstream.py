"""How is the model server called? One session to one server: a body goes out, a completion or a verdict comes back.

Nothing is retried here: the verdict says what the caller (the proxy, for rollouts) does next. The key is in one header
of requests to the configured origin, and in no text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import FAKE_URL, PolicyConfig
from legato_rl.errors import ConfigError, PolicyError
from legato_rl.policy.answer import Aborted, Completion, parse_completion
from legato_rl.policy.body import Pieces
from legato_rl.policy.line import Line, LineBroken
from legato_rl.policy.verdicts import ABORTED, Action, Break, Verdict, judge, judge_break

HEALTH_S = 5.0
"""Seconds that /health has to answer, when a call's own failure raises the question."""

SHORTEST_KEY = 8
"""Signs of a key that is looked for in what a policy says: EMPTY is one that many servers are given."""
QUOTED = Verdict(Action.FAIL, "key_quoted", "the server's answer quotes the key that it was called with: it cannot be stored")


class UpstreamError(Exception):
    """A call without a completion; `verdict` says what to do."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Upstream:
    """A model server, over one kept-alive connection. Calls come from one thread; `abort` and `health` from any.

    ConfigError for a key that no header can carry, and for the URL `fake`, which stands for no server yet.
    """

    def __init__(self, policy: PolicyConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        if policy.url == FAKE_URL:
            raise ConfigError("policy-url is 'fake': start the bundled server (legato-rl fake-policy) and give its URL")
        self._base = policy.url
        parts = urlsplit(policy.url)
        self._root = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}"
        self._key = policy.key()
        self._clock = clock
        self._line = Line(clock)
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "legato-rl"}
        if self._key is not None:
            if not (self._key.isascii() and self._key.isprintable() and " " not in self._key and self._key):
                raise ConfigError("LEGATO_POLICY_KEY holds a blank or a sign that no HTTP header carries: set it anew")
            self._headers["Authorization"] = f"Bearer {self._key}"

    def post_chat(self, body: bytes | Pieces, timeout_s: float, session_id: str, token: Hashable = None) -> Completion:
        """The completion of `body` (the JSON of a whole chat request). UpstreamError with the verdict for none.

        `timeout_s` seconds bound this one attempt, all of it. `session_id` goes out as X-Session-ID. `token` names the
        call for `abort`; no two calls share one.
        """
        answer = self.post(body, timeout_s, session_id, token)
        try:
            completion = parse_completion(answer)
        except Aborted:
            raise UpstreamError(ABORTED) from None
        except PolicyError as error:
            raise UpstreamError(Verdict(Action.FAIL, error.type, self.safe_words(error, answer))) from None
        if self._is_quoted(completion):
            raise UpstreamError(QUOTED)
        return completion

    def post(self, body: bytes | Pieces, timeout_s: float, session_id: str, token: Hashable = None) -> bytes:
        """As `post_chat`, but the 200 body as it came."""
        url = f"{self._base}/chat/completions"
        headers = {**self._headers, "Content-Type": "application/json", "X-Session-ID": session_id}
        try:
            status, answer = self._line.call("POST", url, headers, body, timeout_s, token)
        except LineBroken as error:
            raise self._failed(self._judge_break(error)) from None
        if status == 200:
            return answer
        raise self._failed(judge(status, self.clean(answer), healthy=status < 500 or self.health(HEALTH_S)))

    def get(self, path: str, timeout_s: float) -> tuple[int, bytes]:
        """Status and body of a GET below the base URL (`/models`), or below the server's root (`//version`).

        UpstreamError where there is no HTTP answer. On the same connection as `post_chat`.
        """
        try:
            status, answer = self._line.call("GET", self._url(path), self._headers, None, timeout_s, None)
            return status, self.plain(answer) if status == 200 else self.clean(answer)
        except LineBroken as error:
            raise self._failed(self._judge_break(error)) from None

    def health(self, timeout_s: float) -> bool:
        """Whether the server lives: /health (/v1/models where there is none) gives no 5xx within `timeout_s`.

        On a connection of its own, so that it may be asked while a call runs.
        """
        line = Line(self._clock)
        try:
            for path in ("//health", "/models"):
                status, _ = line.call("GET", self._url(path), self._headers, None, timeout_s, None)
                if status != 404:
                    break
            return status < 500
        except LineBroken:
            return False
        finally:
            line.close()

    def abort(self, token: Hashable) -> None:
        """End the call that was named `token`: it raises CANCELLED at once, and the server sees it close.

        A call of another name goes on. A call that has not begun yet raises as soon as it does, if it is the next one.
        """
        self._line.cut(token)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _url(self, path: str) -> str:
        return self._root + path[1:] if path.startswith("//") else self._base + path

    def _judge_break(self, error: LineBroken) -> Verdict:
        healthy = error.broken in (Break.CUT, Break.TIMEOUT) and self.health(HEALTH_S)
        return judge_break(error.broken, str(error), healthy)

    def safe_words(self, error: PolicyError, answer: bytes) -> str:
        """What is wrong with the 200 body `answer`, told without the key, should the server quote it back."""
        words, clean = str(error), self.clean(answer)
        if clean != answer:
            # Judged anew without it, since words may be cut in the middle of the key.
            try:
                parse_completion(clean)
                words = f"the answer cannot be used ({error.type}), and it quotes the key"
            except PolicyError as told:
                words = str(told)
        # An answer may also hold the key escaped, and only the words of it hold it plainly.
        return words.replace(self._key, "[key]") if self._key else words

    def _is_quoted(self, completion: Completion) -> bool:
        """Whether a good answer holds the key, which its row would then keep. A short one is a word like any other."""
        if self._key is None or len(self._key) < SHORTEST_KEY:
            return False
        texts = (completion.content, completion.reasoning, completion.finish_reason, completion.server_version)
        return any(self._key in text for text in (*texts, "".join(completion.tokens or ())) if text)

    def plain(self, answer: bytes) -> bytes:
        """A good body without the key, however that is escaped: what the pre-flight finds at the server is written down."""
        if self._key is None or len(self._key) < SHORTEST_KEY:
            return answer
        with suppress(ValueError, RecursionError):
            answer = json.dumps(json.loads(answer)).encode()
        return self.clean(answer)

    def clean(self, answer: bytes) -> bytes:
        """An answer's bytes without the key, taken out before anything is cut from them."""
        if self._key:
            for form in {self._key, self._key.replace("/", "\\/"), json.dumps(self._key)[1:-1]}:
                answer = answer.replace(form.encode(), b"[key]")
        return answer

    def _failed(self, verdict: Verdict) -> UpstreamError:
        """The verdict as an error; a server that quotes the key back is not passed on."""
        if self._key:
            verdict = replace(verdict, message=verdict.message.replace(self._key, "[key]"))
        return UpstreamError(verdict)
