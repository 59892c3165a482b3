"""How is wrong input told? One fault of a pydantic error as one sentence, in the words of the command line. PURE."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

OPTIONS = {
    "url": "policy-url",
    "osworld_path": "osworld",
    "screen_size": "screen",
    "deadlines": "deadline",
    "stop_failure_share": "stop-failures",
    "min_free_gb": "min-free",
    "origins": "allow-origin",
    **{
        name: name.replace("_", "-")
        for name in (
            *("top_p", "max_tokens", "extra_body", "step_timeout", "server_wait", "fixed_wait", "max_steps", "max_inflight"),
            *("rollout_timeout", "env_retries", "image_max", "tokens_per_second", "max_queued", "cache_tokens", "max_booting"),
            *("osworld_python", "path_to_vm", "ram_gb", "cache_dir", "client_password", "most_desktops"),
            *("max_model_len", "max_images", "logprobs_mode", "weight_version", "keep_alive", "reasoning_parser"),
        )
    },
}
"""Fields that are options of another spelling: whoever set one is told the option's name."""

SECRET = "api_key"
"""The field whose value is never told."""

LONGEST = 200
"""Characters of a value that are told."""

_REASONS = {
    "string_too_short": "it must not be empty",
    "string_type": "it must be text",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a smaller number",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "bool_parsing": "it must be true or false",
    "bool_type": "it must be true or false",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "literal_error": "it must be {expected}",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
}
"""What is asked of a value, by the type of pydantic's error."""


def one_sentence(error: ValidationError) -> str:
    """The first fault as `field is value: it must …`; what a validator of a whole model says stands by itself."""
    fault = error.errors(include_url=False)[0]
    path = [str(part) for part in fault["loc"]]
    if path and path[-1] == "[key]":
        path = path[:-2]
    field = ".".join([OPTIONS.get(part, part) if n == 0 else part for n, part in enumerate(path)])
    kind, value = fault["type"], fault["input"]
    if not field:
        return fault["msg"].removeprefix("Value error, ") if kind == "value_error" else f"settings: {_reason(fault)}"
    if kind == "missing":
        return f"{field} is missing: give it a value"
    if kind == "extra_forbidden":
        return f"{field} is unknown here: correct the name or leave it out"
    if SECRET in path or isinstance(value, BaseModel):
        return f"{field}: {_reason(fault)}"
    if path == ["url"] and isinstance(value, str):
        value = without_secrets(value)
    if path == ["screen_size"] and isinstance(value, list | tuple) and len(value) == 2:
        value = "x".join(map(str, value))
    return f"{field} is {told(value)}: {_reason(fault)}"


def damage(error: ValidationError) -> str:
    """The first fault of a record that was read from a file, as the file has it: nobody typed it, so nothing is asked for."""
    fault = error.errors(include_url=False)[0]
    field, kind, value = ".".join(map(str, fault["loc"])), fault["type"], fault["input"]
    if not field:
        words = {"json_invalid": f"it is no JSON ({fault.get('ctx', {}).get('error')})", "value_error": one_sentence(error)}
        return words.get(kind, f"it is {json_kind(value)}, and must be an object")
    if kind in ("missing", "extra_forbidden"):
        return f"{field} is missing" if kind == "missing" else f"{field} is no field of this format"
    return f"{field}: {_reason(fault)}" if SECRET in fault["loc"] else f"{field} is {told(value)}: {_reason(fault)}"


def json_kind(value: Any) -> str:
    """What a value is, in JSON's words: `an object`, `a number`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = {dict: "an object", list: "a list", tuple: "a list", str: "text", int: "a number", float: "a number"}
    return next((words for kind, words in kinds.items() if isinstance(value, kind)), f"a Python {type(value).__name__}")


def json_fault(error: ValueError | RecursionError) -> str:
    """Why something is no JSON, in words. Python's reader gives up where lists and objects are a thousand deep."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def told(value: Any) -> str:
    """A value in a message: text in quotes, anything else in JSON's words, cut where it is long."""
    text = repr(value) if isinstance(value, str | float | bytes) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def without_secrets(url: str) -> str:
    """A URL less what may be a secret in it: user, password and query become `…`."""
    url = re.sub(r"\A([a-zA-Z]+://)?.*@", r"\1…@", url, flags=re.DOTALL)
    return re.sub(r"\?.*", "?…", url, flags=re.DOTALL)


def _reason(fault: Mapping[str, Any]) -> str:
    if fault["type"] not in ("finite_number", "value_error") and _is_not_finite(fault["input"]):
        return "it must be a finite number"
    if fault["type"] in _REASONS:
        return _REASONS[fault["type"]].format_map({name: _plain(limit) for name, limit in fault.get("ctx", {}).items()})
    reason = str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "it must", 1)
    return reason[:1].lower() + reason[1:]


def _plain(limit: Any) -> Any:
    """A limit as people write it: 1 for 1.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _is_not_finite(value: Any) -> bool:
    try:
        return not math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
