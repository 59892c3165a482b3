"""Are the bytes of every message what they were, and is everything else refused by one error?

`golden_wire.json` holds the frames of one example of each message. A changed encoding is a changed file in review; write
it anew with `python tests/wire_examples.py`.
"""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_examples import EXAMPLES, GOLDEN, golden_text

from legato_rl.errors import WireError
from legato_rl.frames import KINDS, WIRE_VERSION, Message, decode, encode
from legato_rl.wire import PutRow, Refused, StatusAsk

by_kind = pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind.decode())
texts = st.text(st.characters(), max_size=20)
"""All of Unicode, lone surrogates included."""

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def test_every_message_has_an_example() -> None:
    """A new message is added to the examples, once."""
    assert sorted(message.kind for message in EXAMPLES) == sorted(KINDS)


def test_bytes_are_the_golden_ones() -> None:
    """The encoding of every message is what other languages were told."""
    assert golden_text() == GOLDEN.read_text()


@by_kind
def test_decoded_is_what_was_encoded(message: Message) -> None:
    """Messages and blobs come back equal, surrogates and enums included."""
    frames = encode(message, [b"blob", b""])
    assert frames[:2] == [WIRE_VERSION, type(message).__name__.encode()]
    assert decode(frames) == (message, [b"blob", b""])


@by_kind
def test_a_message_says_who_speaks_to_whom(message: Message) -> None:
    """Docstrings start with `sender -> receiver:`; docs/protocol.md is made of them."""
    assert " -> " in (type(message).__doc__ or "").partition(":")[0]


@by_kind
def test_an_unknown_field_is_refused(message: Message) -> None:
    """A field of a newer side is not dropped in silence."""
    version, kind, body = encode(message)
    fields = {**msgpack.unpackb(body, unicode_errors="surrogatepass"), "extra": 1}
    with pytest.raises(WireError, match=f"{kind.decode()}.extra: Extra inputs are not permitted"):
        decode([version, kind, msgpack.packb(fields, unicode_errors="surrogatepass")])


@given(st.dictionaries(texts, values, max_size=5))
def test_any_row_survives(row: dict[str, Any]) -> None:
    """A row is what its writer made, whatever text a model put into it."""
    assert decode(encode(PutRow(row=row)))[0] == PutRow(row=row)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_frames_raise_only_wire_errors(frames: list[bytes]) -> None:
    """Nothing else ever comes of what a stranger sends."""
    with pytest.raises(WireError):
        decode(frames)


@given(st.sampled_from(sorted(kind for kind, message in KINDS.items() if message.model_fields)), st.binary(max_size=80))
def test_random_bodies_raise_only_wire_errors(kind: bytes, body: bytes) -> None:
    """Every message that has fields has one without a default, so that no random bytes are one."""
    with pytest.raises(WireError):
        decode([WIRE_VERSION, kind, body])


@given(st.sampled_from([message for message in EXAMPLES if type(message).model_fields]), st.data())
def test_fields_of_wrong_types_raise_only_wire_errors(message: Message, data: st.DataObject) -> None:
    """One field of a good message is replaced by anything: it is read as a message or refused."""
    version, kind, body = encode(message)
    fields = msgpack.unpackb(body, unicode_errors="surrogatepass")
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(values)
    try:
        decoded, _ = decode([version, kind, msgpack.packb(fields, unicode_errors="surrogatepass")])
    except WireError:
        return
    assert type(decoded) is type(message)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x80\x80",
        b"\x81\x01\x01",
        b"\xc7\x0c\xff" + b"\xff" * 12,
    ],
    ids=["empty", "reserved", "deep list", "deep map", "huge list", "huge bytes", "two maps", "int key", "odd timestamp"],
)
def test_hostile_bodies_are_refused(body: bytes) -> None:
    """Nesting without end, lengths without bytes, and what follows the body."""
    with pytest.raises(WireError):
        decode([WIRE_VERSION, b"StatusAsk", body])


def test_another_version_is_refused_with_both() -> None:
    """Whoever has to upgrade sees it in the sentence."""
    with pytest.raises(WireError, match=r"the wire version is b'legato/9': this side speaks b'legato/2'"):
        decode([b"legato/9", *encode(StatusAsk(id="1"))[1:]])


def test_two_messages_of_one_name_are_an_error() -> None:
    """The kind is the class's name, so it is refused where the second class is made, and the first one stays."""
    with pytest.raises(TypeError, match="two messages are called Refused"):
        type("Refused", (Message,), {"__module__": __name__})
    assert KINDS[b"Refused"] is Refused
