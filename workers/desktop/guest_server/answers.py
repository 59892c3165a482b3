"""What does a request ask and an answer say? Requests, answers, and the table of routes: no sockets here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

DESKTOP = "Legato-Desktop"
"""The header by which a request names the desktop that it is meant for, and the answer says that it comes from there."""


class Refused(Exception):
    """An answer that ends a request early."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def as_json(value: Any, status: int = 200) -> Answer:
    """`value` as a JSON answer."""
    return Answer(json.dumps(value).encode() + b"\n", status)


def as_text(text: str, status: int = 200) -> Answer:
    """`text` as Flask sends a string."""
    return Answer(text.encode(), status, "text/html; charset=utf-8")


def failed(message: str, status: int = 500) -> Answer:
    """The body that most of OSWorld's routes use for an error."""
    return as_json({"status": "error", "message": message}, status)


@dataclass(frozen=True)
class Request:
    """One request: its query is not used by any route."""

    method: str
    path: str
    kind: str
    """The content type with its parameters."""
    body: bytes
    desktop: str = ""
    """The token of the desktop that it is meant for; empty where it names none, as OSWorld's own requests."""

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Refused with 400 where it is none."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            raise Refused(failed("the body is no JSON", 400)) from None
        if not isinstance(value, dict):
            raise Refused(failed("the body is no JSON object", 400))
        return value

    def form(self) -> dict[str, bytes]:
        """The fields of an HTML form, URL-encoded or multipart; of a repeated field the first."""
        if self.kind.startswith("multipart/form-data"):
            return _multipart(self.body, self.kind)
        fields = parse_qs(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return {name: values[0].encode() for name, values in fields.items()}

    def field(self, name: str) -> str | None:
        """A form's field as text."""
        value = self.form().get(name)
        return None if value is None else value.decode("utf-8", "replace")


def _multipart(body: bytes, kind: str) -> dict[str, bytes]:
    """Fields of a multipart body by name; a file's field holds its bytes."""
    _, _, boundary = kind.partition("boundary=")
    mark = b"--" + boundary.split(";")[0].strip().strip('"').encode()
    fields: dict[str, bytes] = {}
    for part in (b"\r\n" + body).split(b"\r\n" + mark)[1:]:
        head, gap, data = part.partition(b"\r\n\r\n")
        _, found, rest = head.partition(b' name="')
        if gap and found:
            fields.setdefault(rest.split(b'"')[0].decode("utf-8", "replace"), data)
    return fields


Route = Callable[[Request], Answer]
Routes = dict[tuple[str, str], Route]
"""Method and path, and what answers them."""
