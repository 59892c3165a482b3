"""What did a real server answer? The recorded exchanges of `captures/`, by file name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parent / "captures"


def capture(name: str) -> dict[str, Any]:
    """The recorded exchange `name`, without its `.json`."""
    loaded: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def answer_body(name: str) -> bytes:
    """The body that the server answered, as bytes."""
    body = capture(name)["response"]["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def status(name: str) -> int:
    """The status that the server answered."""
    value: int = capture(name)["response"]["status"]
    return value


def exchanges() -> list[str]:
    """Names of all captures of one plain chat exchange, sorted."""
    names = sorted(path.stem for path in CAPTURES.glob("*.json"))
    return [name for name in names if "response" in capture(name) and not name.startswith("k")]


def raw_answer(text: str) -> tuple[int, bytes]:
    """Status and body of a whole HTTP answer that was recorded as text."""
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), body.encode()
