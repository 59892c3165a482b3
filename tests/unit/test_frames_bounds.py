"""Is what a message may cost bounded before it is looked at? Depth, lengths, values, faults, and the words for them."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from legato_rl.errors import WireError
from legato_rl.frames import MOST_IN_LIST, MOST_IN_MAP, MOST_ITEMS, MOST_REASON, WIRE_VERSION, decode
from legato_rl.wire import PutRow

LIST, MAP = b"\xdd", b"\xdf"
FIELD = b"\x81\xa3row\x81\xa1a"
"""A PutRow whose row holds, under `a`, whatever follows."""


def length(header: bytes, count: int) -> bytes:
    """The header of a list or a map of so many values."""
    return header + count.to_bytes(4, "big")


@pytest.mark.parametrize(
    "value",
    [
        b"\x91" * 5000 + b"\xc0",
        length(LIST, 2**32 - 1),
        length(MAP, 2**32 - 1),
        length(LIST, MOST_IN_LIST + 1) + b"\xc0" * (MOST_IN_LIST + 1),
        length(MAP, MOST_IN_MAP + 1) + b"".join(b"\xce" + n.to_bytes(4, "big") + b"\xc0" for n in range(MOST_IN_MAP + 1)),
        length(LIST, MOST_IN_LIST) * 100 + b"\xc0" * MOST_IN_LIST,
        b"\xdb\xff\xff\xff\xff",
    ],
    ids=["deep", "a list that is not there", "a map that is not there", "a long list", "a wide map", "lists in lists", "text"],
)
def test_what_is_too_much_is_no_message(value: bytes) -> None:
    """In one sentence; nothing else is raised."""
    with pytest.raises(WireError, match="the body of PutRow is no msgpack map"):
        decode([WIRE_VERSION, b"PutRow", FIELD + value])


def test_values_are_counted_over_all_lists() -> None:
    """As many in many lists as one may not have."""
    count = MOST_ITEMS // (MOST_IN_LIST - 1) + 1
    body = FIELD + length(LIST, count) + (length(LIST, MOST_IN_LIST - 1) + b"\xc0" * (MOST_IN_LIST - 1)) * count
    with pytest.raises(WireError, match="values"):
        decode([WIRE_VERSION, b"PutRow", body])


@pytest.mark.parametrize("fields", [{"hashes": [1] * 100_000}, {"x" * 100_000: 1}, {f"f{n}": 1 for n in range(1000)}])
def test_a_fault_is_told_in_a_few_words(fields: dict[str, Any]) -> None:
    """Of many the first, and what it quotes is cut."""
    with pytest.raises(WireError) as refused:
        decode([WIRE_VERSION, b"BlobsStored", msgpack.packb(fields)])
    assert len(str(refused.value)) <= MOST_REASON


def test_a_long_rollout_is_none_of_that() -> None:
    """A hundred steps of sixteen thousand tokens each."""
    step = {"token_ids": list(range(16_000)), "logprobs": [-0.5] * 16_000}
    body = msgpack.packb({"row": {"steps": [step] * 100}})
    message, blobs = decode([WIRE_VERSION, b"PutRow", body])
    assert isinstance(message, PutRow)
    assert (len(message.row["steps"]), blobs) == (100, [])
