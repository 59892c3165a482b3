"""What does a failed model call ask for? Retry, wait, go without ids, or give up: one verdict per failure. PURE.

Bodies and words are those of vLLM, SGLang, llama.cpp, LMDeploy and TensorRT-LLM. Whatever is not known to be worth
another attempt is not asked again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Action(Enum):
    """What the caller does next."""

    RETRY_FRESH = "retry_fresh"
    """Ask again at once; no retry is spent. Cannot come twice in a row: the next connection is a new one."""
    RETRY = "retry"
    """Ask again if a retry is left: a healthy server was too slow or failed."""
    BACK_OFF = "back_off"
    """Ask again later; no retry is spent. The server is full, and others go on."""
    DOWN = "down"
    """Stop admitting calls, probe the server, ask again when it is back; no retry is spent."""
    WITHOUT_IDS = "without_ids"
    """Ask again without `return_token_ids`; when that is answered, leave it out from then on."""
    FAIL = "fail"
    """Never ask again: the same request would fail the same way, or was answered."""
    CANCELLED = "cancelled"
    """The caller itself aborted the call."""


@dataclass(frozen=True)
class Verdict:
    """What to do about a failed call. `type` is a short cause to count by, `message` one sentence for people."""

    action: Action
    type: str
    message: str


class Break(Enum):
    """How a call ended without an HTTP answer."""

    REFUSED = "refused"
    """No connection could be made."""
    STALE = "stale"
    """A kept-alive connection was closed before any byte of the answer: servers do so when idle, vLLM after 5 s."""
    CUT = "cut"
    """The connection was closed in the middle of the call."""
    TIMEOUT = "timeout"
    """The answer was not complete in time."""
    CANCELLED = "cancelled"
    """Our own side aborted the call."""


NO_FILES = "too many open files"
"""The words of EMFILE and, with `in system`, of ENFILE."""


def judge_break(broken: Break, detail: str, healthy: bool) -> Verdict:
    """The verdict on a call without an answer. `healthy` is what the server's /health said (it counts for CUT and TIMEOUT)."""
    if broken is Break.STALE:
        return Verdict(Action.RETRY_FRESH, "stale_connection", "the server had closed the idle connection")
    if broken is Break.CANCELLED:
        return Verdict(Action.CANCELLED, "cancelled", "the call was aborted by its caller")
    if broken is Break.REFUSED and NO_FILES in detail:
        return Verdict(Action.DOWN, "no_files", f"this side can open no connection ({detail}); raise its limit, ulimit -n")
    if broken is Break.REFUSED:
        return Verdict(Action.DOWN, "refused", f"no connection to the server ({detail}); start it or correct the policy URL")
    if broken is Break.CUT and healthy:
        return Verdict(Action.RETRY, "cut", f"the server, or what is before it, cut the call ({detail}); look at its log")
    if broken is Break.CUT:
        return Verdict(Action.DOWN, "cut", f"the server cut the connection ({detail}) and /health fails; look at its log")
    if healthy:
        return Verdict(Action.RETRY, "timeout", f"no answer {detail}; give --step-timeout more or the server less")
    return Verdict(Action.DOWN, "silent", f"no answer {detail} and /health fails; look at the server's log")


ABORTED = Verdict(Action.DOWN, "aborted", "the server aborted the call (it is pausing, updating or shutting down)")
"""The verdict on a 200 with `finish_reason: "abort"`."""

UNKNOWN_MODEL = "unknown_model"
"""The type of a failure that every call would meet which names the same model."""
_MODEL_REMEDY = "load it there, or correct --model"
_NO_MODEL = re.compile(
    r"(the )?model (([`'\"])[^`'\"]+\3 )?(does not exist|(is |was )?not (found|loaded))($|[.,:;]| or )"
    r"|the following requested lora adapters are not loaded:"
    r"|got lora adapter that has never been loaded:"
    r"|(\W*error\W+)?(/[\w/]+: )?invalid model name passed in model=",
    re.I,
)
"""How a 400 or 422 begins whose model is unknown: llama.cpp and what copies vLLM's 404, SGLang (two), LiteLLM. Only a
beginning counts: further on a model may be mentioned, or the policy's own text be quoted, in what is wrong with one request.
"""

MODEL_IS_THERE = frozenset(
    {"context_length", "max_tokens", "too_many_images", "image_cache", "nan_logits", "aborted"}
    | {"no_logprobs", "bad_logprobs", "length_mismatch", "tool_parser", "key_quoted"}
)
"""Types of a failure that show the model known: servers look it up before they count tokens and images, and the last five are
of a completion. Those of a field's form come before that, and what a gateway says of itself tells nothing.
"""

_BAD_REQUESTS: list[tuple[str, str, str]] = [
    ("nan_logits", r"out of range float values", "the logits are not numbers: check the served weights"),
    (
        "context_length",
        r"maximum context length|input_tokens|exceeds? (the )?(model's |available )?(maximum )?context|context_length"
        r"|exceed_context_size|longer than the model's context",
        "serve a longer context or lower --image-max, --max-steps or --max-tokens",
    ),
    (
        "max_tokens",
        r"max_(completion_)?tokens\W.*cannot be greater|max_(completion_)?tokens\W.* too large",
        "lower --max-tokens",
    ),
    (
        "too_many_images",
        r"at most \d+ image|too many images|\bimages? .*\blimit\b",
        "raise the server's limit (vLLM: --limit-mm-per-prompt) or lower --image-max",
    ),
    (
        "bad_image",
        r"load(ing)? (the )?image|base64|identify image|processor on data|decode.*image|image.*decode",
        "the image processor refuses a screenshot: check the screen size",
    ),
    ("logprobs_refused", r"logprobs?\b", "switch logprobs on at the server (LMDeploy: --logprobs-mode raw_logprobs)"),
]
"""(type, words in a 400 or 422, what to do), the first that fits."""

_IDS_REFUSED = re.compile(
    r"return_token_ids.*(extra|permit|forbid|unknown|unexpected|unrecogni[sz]ed|support|allow)"
    r"|(extra|permit|forbid|unknown|unexpected|unrecogni[sz]ed|support|allow).*return_token_ids",
    re.I | re.S,
)
_NO_IMAGE_500 = re.compile(r"cannot connect to host|cannot load local files", re.I)


SERVER_WIDE = frozenset({"key_refused", "no_such_path", "redirected"})
"""Types of a failure that every call would meet: the server's set-up is wrong, and no one call's fault."""


def judge(status: int, body: bytes, healthy: bool = True) -> Verdict:
    """The verdict on an HTTP answer that is no 200. `healthy` is what /health said; it counts for every 5xx."""
    words, everything = error_words(body)
    said = f"HTTP {status}, {words!r}" if words else f"HTTP {status}"
    if status in (401, 403):
        return _fail("key_refused", f"the server refuses the key ({said}); set LEGATO_POLICY_KEY to the right one")
    if status in (404, 405):
        if re.search(r"\bmodel\b", everything, re.I):
            return _fail(UNKNOWN_MODEL, f"the server does not know the model ({said}); {_MODEL_REMEDY}")
        return _fail("no_such_path", f"the server has no chat completions there ({said}); correct the policy URL")
    if 300 <= status < 400:
        return _fail("redirected", f"the server redirects ({said}), which is not followed; give the final policy URL")
    if status == 413:
        return _fail("body_too_large", f"the prompt is too large for the server ({said}); raise its body limit")
    if status in (408, 425):
        return Verdict(Action.RETRY, "server_error", f"the server gave up waiting ({said})")
    if status == 429:
        return Verdict(Action.BACK_OFF, "rate_limited", f"the server limits the rate ({said}); lower --max-inflight")
    if status in (400, 422):
        return _judge_bad_request(said, words, everything)
    if status >= 500:
        return _judge_server_error(status, said, words, healthy)
    return _fail("bad_request" if status >= 400 else "bad_answer", f"the server answered {said}")


def error_words(body: bytes) -> tuple[str, str]:
    """What an error body says: its message (one line, 300 characters at most), and all its text to search in.

    Takes `{"error": {…}}`, `{"error": "…"}` (vLLM's 401), the flat form of SGLang and LMDeploy, FastAPI's `detail`, and
    plain text.
    """
    text = body[:20_000].decode("utf-8", "replace")
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        told = re.sub(r"<[^>]*>", " ", text)
    if isinstance(told, dict):
        told = told.get("error") or told
    if isinstance(told, dict):
        message = told.get("message") or told.get("detail") or told
        everything = " ".join(_plain(told.get(name) or "") for name in ("message", "detail", "type", "param"))
    else:
        message = everything = told
    return " ".join(_plain(message).split())[:300], _plain(everything)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fail(type: str, message: str) -> Verdict:
    return Verdict(Action.FAIL, type, message)


def _judge_bad_request(said: str, words: str, everything: str) -> Verdict:
    if _NO_MODEL.match(words):
        return _fail(UNKNOWN_MODEL, f"the server does not know the model ({said}); {_MODEL_REMEDY}")
    if _IDS_REFUSED.search(everything):
        return Verdict(Action.WITHOUT_IDS, "ids_refused", f"the server does not return token ids ({said})")
    for type, pattern, remedy in _BAD_REQUESTS:
        if re.search(pattern, everything, re.I | re.S):
            return _fail(type, f"the server refuses the request ({said}); {remedy}")
    return _fail("bad_request", f"the server refuses the request ({said}); check --extra-body and the sampling options")


def _judge_server_error(status: int, said: str, words: str, healthy: bool) -> Verdict:
    if not healthy:
        return Verdict(Action.DOWN, "unhealthy", f"the server fails ({said}) and so does /health; look at its log")
    if status == 503:
        return Verdict(Action.BACK_OFF, "queue_full", f"the server's queue is full ({said}); lower --max-inflight")
    if _NO_IMAGE_500.search(words):
        return _fail("bad_image", f"the server cannot load an image ({said})")
    if "expected a cached item" in words.lower():
        remedy = "raise vLLM's --mm-processor-cache-gb"
        return Verdict(Action.RETRY, "image_cache", f"the server's image cache is too small ({said}); {remedy}")
    return Verdict(Action.RETRY, "server_error", f"the server failed ({said}); look at its log")
