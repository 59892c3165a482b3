"""Are the bytes of every message what they were, and is everything else refused by one error?

`golden_wire.json` holds the frames of one example of each message. A changed encoding is a changed file in review; write
it anew with `python tests/unit/test_wire.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.errors import WireError
from legato_rl.frames import KINDS, WIRE_VERSION, Message, decode, encode
from legato_rl.records import ModelUse, Outcome, PromptRecord, RolloutKey, Status, StepResponse
from legato_rl.wire import (
    Assignment,
    Beat,
    BlobName,
    BlobsNeeded,
    BlobsStored,
    CallAsk,
    CallCancel,
    CallFailed,
    CallGone,
    CallId,
    CallNeeds,
    CallPending,
    CallReply,
    DesktopEventStored,
    DesktopOut,
    Feed,
    FeedAsk,
    FeedRow,
    GroupCounts,
    Holding,
    Order,
    ProxyBeat,
    ProxyOrder,
    PutBlobs,
    PutDesktopEvent,
    PutRow,
    Refused,
    RowStored,
    RunStatus,
    StatusAsk,
    StopAsk,
)

GOLDEN = Path(__file__).with_name("golden_wire.json")
KEY = RolloutKey(run="r1", group="g1", attempt=2, try_=1)
CALL = CallId(rollout=KEY.rollout_id, lease=7, step=3, digest="d" * 64)
HOLDING = Holding(key=KEY, lease=7, phase="policy", step=3)
ASSIGNMENT = Assignment(
    key=KEY, task_id="t1", domain="os", task={"id": "t1", "instruction": "Öffne"}, max_steps=15, meta={"k": [1, None]}
)
ROW = FeedRow(n=9, key=KEY, outcome=Outcome.GRADED, status=Status.OK, reward=0.5)
RESPONSE = StepResponse(
    content="a\ud800b", reasoning=None, token_ids=[1, 2], logprobs=[-0.5, -1.25], tokens=None, finish_reason="stop"
)
PROMPT = PromptRecord(keep=4, add=[5, 6], images=[(3, 70, "a" * 64)], sha256="b" * 64)
USE = ModelUse(
    seconds=1.5,
    queued_s=0.25,
    attempts=1,
    prompt_tokens=90,
    completion_tokens=2,
    cached_tokens=None,
    version="step-41",
    server_version=None,
)
BLOB = BlobName(sha256="a" * 64, size=5, type="image")
EXAMPLES: list[Message] = [
    Refused(about="PutRow", reason="the disk is full"),
    Beat(worker="w1", boot="b1", ready=False, phase="policy", holds=HOLDING, stored=KEY, built=1, build_failures=0),
    Order(boot="b1", assign=ASSIGNMENT, held=KEY, stop="group_closed", rebuild=2),
    ProxyBeat(boot="b2", state="down", queued=3, running=0, down_s=4.5, message="connection refused"),
    ProxyOrder(boot="b2"),
    CallAsk(call=CALL, messages=["c" * 64], params={"top_p": 0.9, "stop": None}, deadline_s=None, blobs=[BLOB]),
    CallPending(call=CALL, state="queued", queued_s=1.0, running_s=0.0, down_s=0.0, paused_s=0.0),
    CallNeeds(call=CALL, hashes=["c" * 64]),
    CallReply(call=CALL, response=RESPONSE, params={"n": 1}, body_sha256="e" * 64, prompt=PROMPT, model=USE),
    CallFailed(call=CALL, type="timeout", message="no answer in 60 s", queued_s=0.5),
    CallCancel(call=CALL),
    CallGone(call=CALL),
    PutBlobs(blobs=[BLOB]),
    BlobsStored(hashes=["a" * 64]),
    PutRow(row={"run_id": "r1", "steps": [], "text": "\udcff"}),
    RowStored(row=ROW, duplicate=False),
    BlobsNeeded(key=KEY, hashes=["a" * 64]),
    FeedAsk(after=8),
    Feed(rows=[ROW], last=9),
    PutDesktopEvent(id="e1", desktop="d1", event="out", at="2030-01-01T00:00:00.000Z", reason="3 rebuilds failed"),
    DesktopEventStored(id="e1"),
    StatusAsk(id="q1"),
    RunStatus(
        id="q1",
        state="running",
        reason="",
        groups=GroupCounts(total=2, closed=1, short=0, open=1),
        rows={"ok": 4},
        attempts_total=10,
        attempts_ended=5,
        desktops={"policy": 3, "out": 1},
        policy="up",
        policy_message="",
        sink_message="",
        queued=0,
        running=3,
    ),
    StopAsk(id="q2", reason="Ctrl-C"),
    DesktopOut(id="q3", desktop="d1", reason="exited 4 times"),
]
"""One of each message, with its optional parts."""

by_kind = pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind.decode())
texts = st.text(st.characters(), max_size=20)
"""All of Unicode, lone surrogates included."""

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def golden_text() -> str:
    """The table of frames as it is stored: kind to hexadecimal body."""
    table = {message.kind.decode(): encode(message)[2].hex() for message in EXAMPLES}
    return json.dumps(table, indent=1) + "\n"


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


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=80))
def test_random_bodies_raise_only_wire_errors(kind: bytes, body: bytes) -> None:
    """Every message has a field without a default, so that no random bytes are one."""
    with pytest.raises(WireError):
        decode([WIRE_VERSION, kind, body])


@given(st.sampled_from(EXAMPLES), st.data())
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
    with pytest.raises(WireError, match=r"the wire version is b'legato/9': this side speaks b'legato/1'"):
        decode([b"legato/9", *encode(StatusAsk(id="1"))[1:]])


def test_two_messages_of_one_name_are_an_error() -> None:
    """The kind is the class's name, so it is refused where the second class is made, and the first one stays."""
    with pytest.raises(TypeError, match="two messages are called Refused"):
        type("Refused", (Message,), {"__module__": __name__})
    assert KINDS[b"Refused"] is Refused


if __name__ == "__main__":
    GOLDEN.write_text(golden_text())
