"""How does a message become frames? The registry of kinds, and the bytes. PURE: knows no socket and no message.

Frames of a message: `[WIRE_VERSION, kind, msgpack body, blob …]`. Big bytes (images, chat messages) are blobs, never
fields; the body names them in the same order. The version is in every message, since nobody keeps the state of a
connection: either side may restart at any time.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, ValidationError

from legato_rl.errors import WireError

WIRE_VERSION = b"legato/2"
MAX_BODY = 256 * 2**20
"""Bytes of a body; a row of a long rollout is the largest."""
MOST_ITEMS = 2**23
"""Values in a body's lists and maps, all in all: a byte of msgpack may become 70 of Python's."""
MOST_IN_LIST = 2**20
"""Values of one list: the ids of a long prompt are fewer. Room for as many as a list says is made before they are read."""
MOST_IN_MAP = 2**16
"""Fields of one map, of which each may be a fault of its own."""
MOST_IDENT = 1000
"""Characters of what a refusal names a message by; a rollout's call has 800 at most."""
MOST_REASON = 500
"""Characters of what is said of a fault, which may name a field of any length."""

_Values = TypeVar("_Values", list[Any], dict[Any, Any])

KINDS: dict[bytes, type[Message]] = {}
"""Every message class by its kind frame."""


class Message(BaseModel):
    """A message; its kind frame is the class's name. Two classes of one name are a TypeError at import."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    kind: ClassVar[bytes]

    def ident(self) -> str:
        """What a refusal names this message by, so that its sender can tell it from others; empty where none need to."""
        return ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.kind = cls.__name__.encode()
        if cls.kind in KINDS:
            raise TypeError(f"two messages are called {cls.__name__}")
        KINDS[cls.kind] = cls


class Part(BaseModel):
    """A field group inside messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def encode(message: Message, blobs: list[bytes] | None = None) -> list[bytes]:
    """The frames of `message`."""
    body = msgpack.packb(message.model_dump(by_alias=True), use_bin_type=True, unicode_errors="surrogatepass")
    return [WIRE_VERSION, message.kind, body, *(blobs or [])]


class _Count:
    """Bounds the values of one body while it is read."""

    def __init__(self) -> None:
        self.left = MOST_ITEMS

    def take(self, values: _Values) -> _Values:
        """Count a list or a map. ValueError where there are too many."""
        self.left -= len(values) + 1
        if self.left < 0:
            raise ValueError(f"it has more than {MOST_ITEMS} values")
        return values


def decode(frames: list[bytes]) -> tuple[Message, list[bytes]]:
    """The message and blobs in `frames`. WireError, in one sentence, for anything that is none."""
    if len(frames) < 3:
        raise WireError(f"a message has {len(frames)} frames: it needs version, kind and body")
    version, kind, body = (bytes(frame) if len(frame) <= MAX_BODY else b"" for frame in frames[:3])
    if version != WIRE_VERSION:
        raise WireError(f"the wire version is {version[:40]!r}: this side speaks {WIRE_VERSION!r}, so upgrade one of us")
    message_class = KINDS.get(kind)
    if message_class is None:
        raise WireError(f"the kind {kind[:40]!r} is unknown: see docs/protocol.md")
    try:
        fields = _unpack(body)
        return message_class.model_validate(fields), frames[3:]
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise WireError(f"{kind.decode()}.{field:.{MOST_REASON}}: {fault['msg']}"[:MOST_REASON]) from None
    except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WireError(f"the body of {kind.decode()} is no msgpack map: {reason}"[:MOST_REASON]) from None


def _unpack(body: bytes) -> Any:
    """The value that `body` is, of bounded size. ValueError, TypeError or UnpackException where it is none."""
    take = _Count().take
    return msgpack.unpackb(
        body,
        raw=False,
        unicode_errors="surrogatepass",
        strict_map_key=True,
        max_array_len=min(len(body), MOST_IN_LIST),
        max_map_len=min(len(body), MOST_IN_MAP),
        list_hook=take,
        object_hook=take,
    )
