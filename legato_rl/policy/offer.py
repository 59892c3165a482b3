"""What does this server give, and what is to be switched on? The table that `legato-rl probe` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import PolicyConfig
from legato_rl.errors import PolicyError
from legato_rl.policy import survey
from legato_rl.policy.answer import Aborted, Answer, check
from legato_rl.policy.client import PolicyClient
from legato_rl.policy.room import IMAGE_MAX, SCREEN_SIZE, Wanted, images_remedy

State = Literal["ok", "missing", "off", "unknown"]
"""`missing`: the server does not give it; `off`: it could, or gives less; `unknown`: it could not be found out."""

ROWS: dict[str, bool] = {
    "reachable": True,
    "key": True,
    "model": True,
    "answers": True,
    "engine": False,
    "context length": False,
    "logprobs": True,
    "logprobs mode": False,
    "token ids": True,
    "prompt ids": False,
    "reasoning": True,
    "images": True,
    "cached tokens": False,
}
"""What is looked at, in the order of the table, and whether training needs it."""


class ProbeRow(BaseModel):
    """One thing that a server gives or not. `remedy` says what to do; empty where nothing is to be done."""

    name: str
    state: State
    value: str
    needed: bool
    remedy: str


class ProbeReport(BaseModel):
    """What a server gives."""

    url: str
    model: str
    rows: list[ProbeRow]

    @property
    def trainable(self) -> bool:
        """Whether everything is there that training needs."""
        return all(row.state in ("ok", "off") for row in self.rows if row.needed)


class _Table:
    """The rows, each unknown until it is told."""

    def __init__(self) -> None:
        self.rows = {
            name: ProbeRow(name=name, state="unknown", value="", needed=needed, remedy="") for name, needed in ROWS.items()
        }

    def tell(self, name: str, state: State, value: str = "", remedy: str = "", needed: bool | None = None) -> None:
        """Set a row, and whether it is needed where ROWS cannot say."""
        needed = ROWS[name] if needed is None else needed
        self.rows[name] = ProbeRow(name=name, state=state, value=value, needed=needed, remedy=remedy)

    def is_open(self, name: str) -> bool:
        """Whether nothing was found out about a row yet."""
        return self.rows[name].state == "unknown"


def probe(
    policy: PolicyConfig,
    clock: Clock = SYSTEM_CLOCK,
    *,
    image_max: int = IMAGE_MAX,
    screen_size: tuple[int, int] = SCREEN_SIZE,
) -> ProbeReport:
    """Ask the server for one text and one prompt of images, and for what is left open then; report what it gives.

    It is judged for a run of that `policy`, whose prompts hold up to `image_max` screenshots of `screen_size` pixels.

    Nothing is raised for a server that lacks something or is away: the rows say so. ConfigError for a key that no
    header can carry.
    """
    table = _Table()
    with PolicyClient(policy, clock) as client:
        try:
            _ask_everything(client, table, Wanted(image_max, screen_size, policy.max_tokens))
        except (PolicyError, Aborted) as error:
            _blame(table, policy, error)
    return ProbeReport(url=policy.url, model=policy.model, rows=list(table.rows.values()))


def _ask_everything(client: PolicyClient, table: _Table, wanted: Wanted) -> None:
    served = survey.models(client)
    table.tell("reachable", "ok", client.policy.url)
    if served.names is not None:
        known = client.policy.model in served.names
        remedy = "" if known else f"give --model one of: {', '.join(served.names[:5])}"
        table.tell("model", "ok" if known else "missing", client.policy.model, remedy)
    if served.max_model_len is not None:
        _tell_context(table, served.max_model_len, wanted)
    answer = survey.text_call(client)
    table.tell("key", "ok", "accepted" if client.policy.api_key else "none is asked for")
    table.tell("model", "ok", client.policy.model)
    table.tell("answers", "ok", "to a short text")
    engine = survey.engine(client, served.owner)
    if engine.name:
        table.tell("engine", "ok", f"{engine.name} {engine.version or ''}".strip())
    _tell_logprobs(table, answer)
    _tell_reasoning(table, answer, client)
    _tell_mode(table, survey.logprobs_mode(client))
    pictures = survey.pictures(client, wanted.image_max, times=2)
    _tell_images(table, pictures, wanted)
    first, second = pictures.answers
    _tell_ids(table, first)
    _tell_cache(table, second)


def _tell_context(table: _Table, context: int, wanted: Wanted) -> None:
    """The context beside what a run's largest prompt takes; one that holds no screenshot makes every attempt fail."""
    held = wanted.held_by(context)
    state: State = "ok" if context >= wanted.tokens else "off" if held else "missing"
    value = f"{context:,} tokens, about {wanted.tokens:,} wanted"
    table.tell("context length", state, value, wanted.context_remedy(context), needed=not held)


def _tell_logprobs(table: _Table, answer: Answer) -> None:
    try:
        check(answer)
        table.tell("logprobs", "ok", f"{len(answer.logprobs or [])} for {answer.completion_tokens} tokens")
    except PolicyError as error:
        table.tell("logprobs", "missing", error.type, str(error))


def _tell_reasoning(table: _Table, answer: Answer, client: PolicyClient) -> None:
    """Whether a parser is at the server: one that is shows itself in an answer that was thought about, if not in others."""
    thinking = client.policy.thinking
    thought = answer if thinking else _thought_about(client)
    remedy = "start the server without --reasoning-parser"
    if survey.parser_took_all(answer) and not thinking:
        table.tell("reasoning", "missing", "a parser takes the whole answer", remedy)
    elif answer.reasoning is not None:
        table.tell("reasoning", "off", "a parser splits content from ids", remedy, needed=False)
    elif thought is None:
        table.tell("reasoning", "ok", "left in content without --thinking")
    elif thought.reasoning is not None or survey.parser_took_all(thought):
        remedy = f"{remedy} before a run with --thinking"
        table.tell("reasoning", "off", "a parser splits it off with --thinking", remedy, needed=False)
    else:
        table.tell("reasoning", "ok", "left in content")


def _thought_about(client: PolicyClient) -> Answer | None:
    """An answer with thinking on; None where the server gives none."""
    try:
        return survey.text_call(client, thinking=True)
    except (PolicyError, Aborted):
        return None


def _tell_mode(table: _Table, mode: survey.LogprobsMode) -> None:
    if mode == "unknown":
        remedy = "sample with temperature 1, top-p 1 and no penalties, where raw and processed are the same"
        table.tell("logprobs mode", "unknown", "raw or processed", remedy)
    else:
        table.tell("logprobs mode", "ok", mode)


def _tell_images(table: _Table, pictures: survey.Pictures, wanted: Wanted) -> None:
    held = pictures.images
    if not pictures.short:
        table.tell("images", "ok", f"{held} or more a prompt")
    elif pictures.short == "limit":
        table.tell("images", "missing", f"{held} a prompt, {wanted.image_max} wanted", images_remedy(held))
    else:
        table.tell("images", "off", f"{held} small ones fill the context", "serve a longer context (vLLM: --max-model-len)")


def _tell_ids(table: _Table, answer: Answer) -> None:
    """Token ids and prompt ids, judged by the prompt with images."""
    if answer.token_ids is None:
        table.tell("token ids", "missing", "none", "serve with an engine that takes return_token_ids (vLLM, SGLang, LMDeploy)")
    else:
        table.tell("token ids", "ok", "with images")
    if answer.prompt_token_ids is None:
        table.tell("prompt ids", "missing", "none", "serve with vLLM or SGLang to have the prompt's tokens in the record")
    elif len(answer.prompt_token_ids) != answer.prompt_tokens:
        value = f"{len(answer.prompt_token_ids)} of {answer.prompt_tokens}"
        table.tell("prompt ids", "off", value, "upgrade the server: its prompt ids do not expand the images")
    else:
        table.tell("prompt ids", "ok", "images expanded")


def _tell_cache(table: _Table, repeated: Answer) -> None:
    cached = repeated.cached_tokens
    if cached is None:
        remedy = "start the server with --enable-prompt-tokens-details (vLLM) or --enable-cache-report (SGLang)"
        table.tell("cached tokens", "missing", "not told", remedy)
    elif cached == 0:
        remedy = "start the server with prefix caching (vLLM: --enable-prefix-caching), or the history is computed anew"
        table.tell("cached tokens", "off", "none on a repeat", remedy)
    else:
        table.tell("cached tokens", "ok", f"{cached} of {repeated.prompt_tokens} on a repeat")


_BLAMED = {"key_refused": "key", "unknown_model": "model", "too_many_images": "images", "bad_image": "images"}
"""The row that a failed call is about, by the error's type."""


def _blame(table: _Table, policy: PolicyConfig, error: PolicyError | Aborted) -> None:
    """Put the error that ended the probe into the row that it is about: by its type, else that of the call that failed."""
    kind = error.type if isinstance(error, PolicyError) else "aborted"
    name = _BLAMED.get(kind) or next((row for row in ("reachable", "answers") if table.is_open(row)), "images")
    if name != "reachable":
        table.tell("reachable", "ok", policy.url)
    if name == "model":
        # A list of the names that are served says more than a refusal.
        table.tell("model", "missing", policy.model, table.rows["model"].remedy or str(error))
    else:
        table.tell(name, "missing", "refused" if name == "key" else kind, str(error))
