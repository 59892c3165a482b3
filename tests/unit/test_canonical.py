"""What has a canonical form, and what can travel?"""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.canonical import canonical_json, image_hash, image_name, is_hash, plain_fault

numbers = st.none() | st.booleans() | st.integers() | st.floats()
values = st.recursive(
    numbers | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(values)
def test_what_is_plain_travels_both_ways(value: Any) -> None:
    """Whatever has no fault is written as JSON and as msgpack, and read back equal."""
    if plain_fault(value) is None:
        assert json.loads(canonical_json(value)) == value
        assert msgpack.unpackb(msgpack.packb(value)) == value
        json.dumps(value, ensure_ascii=False).encode()


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2**64, "more than 64 bits"),
        ({"a": [-(2**63) - 1]}, "more than 64 bits"),
        (math.nan, "no JSON number"),
        ([math.inf], "no JSON number"),
        ("\ud800", "half a character"),
        ({"\udfff": 1}, "half a character"),
        ({1: 2}, "names must be text"),
        (b"x", "bytes is no JSON value"),
        (deep(100_000), "nested too deeply"),
    ],
)
def test_what_cannot_travel_is_told(value: Any, said: str) -> None:
    """In a few words, for the sentence that names the field."""
    assert said in str(plain_fault(value))


def test_names_of_images() -> None:
    """Only 64 lower-case hex digits are a hash."""
    sha256 = "a" * 64
    assert image_hash(image_name(sha256)) == sha256
    for wrong in (sha256[1:], sha256.upper(), "../" + sha256, sha256 + "\n", 5, None):
        assert not is_hash(wrong)
        assert image_hash(f"legato-image://{wrong}") is None
