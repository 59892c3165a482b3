"""What may somebody who means harm send? Seeded frames: noise, depth, false lengths, wrong types, messages for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgpack
from wire_examples import EXAMPLES

from legato_rl.frames import KINDS, WIRE_VERSION, Message, encode

Frames = list[bytes]
WRONG: list[Any] = [
    *(
        None,
        {},
        [],
        [[]],
        -1,
        2**64 - 1,
        -(2**63),
        1.5,
        float("nan"),
        float("inf"),
        "",
        "\ud800",
        "x" * 70_000,
        b"\xff",
        b"\0" * 9,
    ),
    *(
        {"run": "../../escaped"},
        ["../../escaped"],
        msgpack.ExtType(5, b"x"),
        msgpack.Timestamp(1, 2),
        {"a": {"b": [None] * 300}},
    ),
]
"""What no field expects, or few do."""
PATHS = ["..", "../escaped", "../../escaped", "/tmp/escaped", "runs/../../escaped", ".", "a/../../escaped", "x\0y", "~", "-x"]
HEADERS = [b"\xdc", b"\xdd", b"\xde", b"\xdf", b"\xd9", b"\xda", b"\xdb", b"\xc4", b"\xc5", b"\xc6", b"\xc7", b"\xc8", b"\xc9"]
"""msgpack's lists, maps, texts, bytes and extensions of a stated length."""
BLUNT = frozenset(
    {
        *("ShutdownAsk", "StopAsk", "PauseAsk", "DrainAsk", "DesktopsAsk", "DesktopOut", "Submit", "ProxyBeat", "PolicyAsk"),
        *("CancelAsk", "InflightAsk", "ResumeAsk", "Leave"),
    }
)
"""Messages that do what they say, whoever sends them whole; here they come broken, or not at all."""


def messages(seed: int, run: str, count: int) -> list[Frames]:
    """`count` messages, the same for the same seed. Those that name a run name `run` half of the time."""
    rng = Random(seed)
    makers: list[Callable[[Random, str], Frames]] = [noise, cut, deep, false_length, wrong_type, wrong_type, flipped, others]
    return [rng.choice(makers)(rng, run) for _ in range(count)]


def noise(rng: Random, run: str) -> Frames:
    """Frames of random bytes, and often a good version or kind before them."""
    frames = [rng.randbytes(rng.choice([0, 1, 9, 300])) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.7:
        frames[0] = WIRE_VERSION
        frames[1:2] = [rng.choice([*KINDS, b"", b"Message", b"\xff" * 300])]
    return frames


def cut(rng: Random, run: str) -> Frames:
    """A good message that is not all there, or goes on behind its end."""
    version, kind, body = encode(rng.choice(EXAMPLES))
    return [version, kind, body[: rng.randrange(len(body))] if rng.random() < 0.5 else body + rng.randbytes(9)]


def deep(rng: Random, run: str) -> Frames:
    """Lists or maps in one another, in a field that may hold anything."""
    depth = rng.choice([10, 200, 255, 256, 511, 900, 1000, 1023, 1024, 5000, 50_000])
    inner = rng.choice([b"\x91", b"\x81\xa1a"]) * depth + b"\xc0"
    kind, fields = rng.choice(
        [
            ("PutRow", {"row": {"run_id": run, "meta": None}}),
            ("PutRow", {"row": {"run_id": None}}),
            ("PutRow", {"row": {"run_id": run, "rollout_id": None}}),
            ("Submit", {"id": "s", "tasks": [], "settings": {"policy": None}}),
            ("Submit", {"id": "s", "tasks": [{"task_id": None}], "settings": {}}),
            ("CallAsk", {**_fields("CallAsk"), "params": {"extra": None}}),
            ("StatusAsk", {"id": None}),
        ]
    )
    return [WIRE_VERSION, kind.encode(), _spliced(fields, inner)]


def false_length(rng: Random, run: str) -> Frames:
    """A field whose header states up to 4 GiB that are not there; also many of them in one another."""
    header = rng.choice(HEADERS)
    length = rng.choice([b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\x00\x0f\xff\xff"])
    body = (header + length) * rng.choice([1, 1, 300]) + bytes(rng.randrange(40))
    kind = rng.choice(list(KINDS))
    return [WIRE_VERSION, kind, rng.choice([b"", b"\x81\xa3row", b"\x81\xa2id", b"\x81\xa5tasks", b"\x82\xa4call"]) + body]


def wrong_type(rng: Random, run: str) -> Frames:
    """A good message with one value of the wrong kind, or a path where a name should be, somewhere in it."""
    example = rng.choice(EXAMPLES)
    fields = _of_run(rng, example, run)
    if example.kind.decode() in BLUNT:
        return _packed(example, {**fields, rng.choice(["id", "boot", "extra"]): rng.choice([{}, [], [1], 1.5])})
    places = list(_places(fields))
    holder, name = rng.choice(places) if places else (fields, "extra")
    holder[name] = rng.choice(PATHS) if isinstance(holder[name], str) and rng.random() < 0.5 else rng.choice(WRONG)
    return _packed(example, fields)


def flipped(rng: Random, run: str) -> Frames:
    """A good message with some bytes changed on the way."""
    example = rng.choice([one for one in EXAMPLES if one.kind.decode() not in BLUNT])
    version, kind, body = encode(example)
    changed = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return [version, kind, bytes(changed)]


def others(rng: Random, run: str) -> Frames:
    """A good message, most often of another socket or for the other side, with blobs that nobody named."""
    example = rng.choice([one for one in EXAMPLES if one.kind.decode() not in BLUNT])
    return [*_packed(example, _of_run(rng, example, run)), *(rng.randbytes(50) for _ in range(rng.choice([0, 0, 1, 30])))]


def bombs(megabytes: int) -> Iterator[Frames]:
    """Messages of a size at which a mistake costs gigabytes or minutes."""
    size = megabytes * 2**20
    many = b"\xdd" + (2**20 - 1).to_bytes(4, "big")
    yield [WIRE_VERSION, b"PutRow", b"\x81\xa3row\x81\xa1a" + (many * 1000).ljust(size, b"\xc0")]
    yield [WIRE_VERSION, b"PutRow", b"\x81\xa3row\x81\xa1a" + many + b"\x80" * (2**20 - 1)]
    yield [WIRE_VERSION, b"CallNeeds", b"\x81\xa6hashes" + many + b"\x01" * (2**20 - 1)]
    yield [WIRE_VERSION, b"StatusAsk", msgpack.packb({"id": "x" * size})]
    yield [WIRE_VERSION, b"StatusAsk", msgpack.packb({"id": "x", "y" * size: 1})]
    yield [WIRE_VERSION, b"Beat", bytes(size)]
    yield [WIRE_VERSION, b"k" * size, b""]
    yield [b""] * 20_000


def _fields(kind: str) -> dict[str, Any]:
    example = next(one for one in EXAMPLES if one.kind.decode() == kind)
    return example.model_dump(by_alias=True)


def _of_run(rng: Random, example: Message, run: str) -> dict[str, Any]:
    """The fields of an example, which half of the time speaks of `run`; a worker's is of one that has no desktop."""
    fields = example.model_dump(by_alias=True)
    if rng.random() < 0.5 and "run" in fields:
        fields["run"] = run
    if "worker" in fields:
        fields["worker"] = f"worker-{rng.randrange(900, 999)}"
    return fields


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in nested maps and lists, as the map or list and the key in it."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _packed(example: Message, fields: dict[str, Any]) -> Frames:
    return [WIRE_VERSION, example.kind, msgpack.packb(fields, unicode_errors="surrogatepass")]


def _spliced(fields: dict[str, Any], inner: bytes) -> bytes:
    """`fields` packed, with `inner` in place of their last nil."""
    before, _, after = msgpack.packb(fields).rpartition(b"\xc0")
    return bytes(before + inner + after)
