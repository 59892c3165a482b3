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

State = Literal["ok", "missing", "off", "unknown"]
"""`missing`: the server does not give it; `off`: it could, or gives less; `unknown`: it could not be found out."""

ROWS: dict[str, bool] = {
    "reachable": True,
    "key": True,
    "model": True,
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

    def tell(self, name: str, state: State, value: str = "", remedy: str = "") -> None:
        """Set a row."""
        self.rows[name] = self.rows[name].model_copy(update={"state": state, "value": value, "remedy": remedy})


def probe(policy: PolicyConfig, clock: Clock = SYSTEM_CLOCK) -> ProbeReport:
    """Ask the server for one text and one prompt of images, and for what is left open then; report what it gives.

    Nothing is raised for a server that lacks something or is away: the rows say so. ConfigError for a key that no
    header can carry.
    """
    table = _Table()
    with PolicyClient(policy, clock) as client:
        try:
            _ask_everything(client, table)
        except (PolicyError, Aborted) as error:
            _blame(table, error)
    return ProbeReport(url=policy.url, model=policy.model, rows=list(table.rows.values()))


def _ask_everything(client: PolicyClient, table: _Table) -> None:
    served = survey.models(client)
    table.tell("reachable", "ok", client.policy.url)
    if served.names is not None and client.policy.model not in served.names:
        names = ", ".join(served.names[:5])
        table.tell("model", "missing", client.policy.model, f"give --model one of: {names}")
    if served.max_model_len is not None:
        table.tell("context length", "ok", f"{served.max_model_len} tokens")
    answer = survey.text_call(client)
    table.tell("key", "ok", "accepted" if client.policy.api_key else "none is asked for")
    table.tell("model", "ok", client.policy.model)
    engine = survey.engine(client, served.owner)
    if engine.name:
        table.tell("engine", "ok", f"{engine.name} {engine.version or ''}".strip())
    _tell_logprobs(table, answer)
    _tell_reasoning(table, answer, client.policy.thinking)
    mode = survey.logprobs_mode(client)
    table.tell("logprobs mode", "unknown" if mode == "unknown" else "ok", mode)
    pictures = survey.pictures(client)
    _tell_images(table, pictures)
    _tell_ids(table, pictures.first)
    _tell_cache(table, pictures.second)


def _tell_logprobs(table: _Table, answer: Answer) -> None:
    try:
        check(answer)
        table.tell("logprobs", "ok", f"{len(answer.logprobs or [])} for {answer.completion_tokens} tokens")
    except PolicyError as error:
        table.tell("logprobs", "missing", error.type, str(error))


def _tell_reasoning(table: _Table, answer: Answer, thinking: bool) -> None:
    remedy = "start the server without --reasoning-parser"
    if survey.parser_took_all(answer) and not thinking:
        table.tell("reasoning", "missing", "a parser takes the whole answer", remedy)
    elif answer.reasoning is not None:
        table.tell("reasoning", "off", "a parser splits content from ids", remedy)
    else:
        table.tell("reasoning", "ok", "left in content")


def _tell_images(table: _Table, pictures: survey.Pictures) -> None:
    if pictures.images >= survey.MOST_IMAGES:
        table.tell("images", "ok", f"{pictures.images} or more a prompt")
    else:
        remedy = f"serve more (vLLM: --limit-mm-per-prompt, --max-model-len) or collect with --image-max {pictures.images}"
        table.tell("images", "off", f"{pictures.images} a prompt", remedy)


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


def _blame(table: _Table, error: PolicyError | Aborted) -> None:
    """Put the error that ended the probe into the row that it is about: the first open one, where it names none."""
    open_rows = [name for name, row in table.rows.items() if row.state == "unknown" and row.needed]
    name = _BLAMED.get(getattr(error, "type", ""), open_rows[0] if open_rows else "images")
    if name in ("key", "model"):
        table.tell("reachable", "ok")
    table.tell(name, "missing", getattr(error, "type", "aborted"), str(error))
