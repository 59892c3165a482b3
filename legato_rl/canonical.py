"""How are bytes named? Canonical JSON, SHA-256, and image names.

Canonical JSON: keys sorted by code point, no spaces, everything outside ASCII escaped (so that lone surrogates, which
models do emit, survive), NaN and infinities refused. Equal values have equal bytes, so a hash over them names the value.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

IMAGE_SCHEME = "legato-image://"
"""An image inside a stored message is this followed by the SHA-256 of its PNG."""

_HASH = re.compile(r"[0-9a-f]{64}\Z")


def canonical_json(value: Any) -> bytes:
    """`value` as canonical JSON. ValueError for NaN or infinity, TypeError for what JSON cannot hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def sha256_hex(data: bytes | memoryview) -> str:
    """The SHA-256 of `data` in 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def is_hash(text: object) -> bool:
    """Whether `text` is a SHA-256 in 64 lower-case hex digits (so safe as a file name)."""
    return isinstance(text, str) and _HASH.match(text) is not None


def image_name(sha256: str) -> str:
    """The name under which a message refers to the image with this hash."""
    return IMAGE_SCHEME + sha256


def image_hash(url: object) -> str | None:
    """The hash in an image's name; None where `url` is no such name."""
    if isinstance(url, str) and url.startswith(IMAGE_SCHEME) and is_hash(url[len(IMAGE_SCHEME) :]):
        return url[len(IMAGE_SCHEME) :]
    return None


def image_hashes(message: dict[str, Any]) -> list[str]:
    """The hashes of the images that a stored chat message names, in order."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    found = []
    for part in content:
        if isinstance(part, dict) and part.get("type") == "image_url" and isinstance(part.get("image_url"), dict):
            sha256 = image_hash(part["image_url"].get("url"))
            if sha256:
                found.append(sha256)
    return found


def plain_fault(value: Any) -> str | None:
    """Why `value` cannot travel as JSON and as msgpack alike, in a few words; None where it can.

    Both hold null, booleans, text of whole characters, finite numbers, whole numbers of 64 bits, lists, and maps of text.
    """
    try:
        return _fault(value)
    except RecursionError:
        return "it is nested too deeply"


def _fault(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else f"{str(value)[:40]} has more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is no JSON number"
    if isinstance(value, str):
        return (
            None if value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value) else "text with half a character"
        )
    if isinstance(value, list | tuple):
        return next((fault for fault in map(_fault, value) if fault), None)
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            return "a map's names must be text"
        return next((fault for fault in map(_fault, [*value, *value.values()]) if fault), None)
    return f"a {type(value).__name__} is no JSON value"
