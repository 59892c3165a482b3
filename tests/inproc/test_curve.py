"""Is `control` over tcp for those alone whose key the service knows? Real sockets on the loopback device."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from driven_clock import DrivenClock
from zmq.utils import z85

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.curve import (
    CLIENT_SECRET,
    CLIENTS,
    DOMAIN,
    FIRST_CLIENT,
    HANDLER,
    READ_S,
    SERVER_PUBLIC,
    SERVER_SECRET,
    Gate,
    write_keys,
)
from legato_rl.endpoints import tcp_address
from legato_rl.errors import ConfigError
from legato_rl.sockets import Context, Received, Server, wait
from legato_rl.wire import StatusAsk, encode

PATIENCE_S = 60.0
REFUSED_S = 0.5
"""Seconds in which a client that is let in is heard many times over."""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder of fresh keys."""
    write_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def address() -> str:
    """An address of a port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def server(keys: Path, address: str) -> Iterator[Server]:
    """A `control` that is guarded by the keys."""
    with Context() as context:
        yield context.server("control", address, keys)


def heard(server: Server, seconds: float) -> list[Received]:
    """What comes to the server within some seconds, as soon as anything does."""
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    while (left := deadline - SYSTEM_CLOCK.monotonic()) > 0:
        wait([server], left)
        if found := list(server.receive()):
            return found
    return []


def copy(keys: Path, to: Path, *names: str) -> Path:
    """Some files of a folder of keys in another one."""
    to.mkdir()
    for name in names:
        (to / name).write_bytes((keys / name).read_bytes())
        (to / name).chmod(0o600)
    return to


def test_a_known_key_is_let_in(server: Server, keys: Path, address: str, tmp_path: Path) -> None:
    """A trainer needs two files; it is heard, and answered."""
    trainers = copy(keys, tmp_path / "trainer", CLIENT_SECRET, SERVER_PUBLIC)
    with Context() as context:
        client = context.client("control", address, keys=trainers)
        client.send(StatusAsk(id="q1"))
        (received,) = heard(server, PATIENCE_S)
        assert received.message == StatusAsk(id="q1")
        server.send(received.peer, StatusAsk(id="a1"))
        wait([client], PATIENCE_S)
        assert [answer.message for answer in client.receive()] == [StatusAsk(id="a1")]


def test_a_key_counts_from_when_its_file_is_there(server: Server, keys: Path, address: str, tmp_path: Path) -> None:
    """Another trainer is refused until its public key is put into clients/; a damaged file there stops nobody."""
    write_keys(tmp_path / "other")
    mine = copy(tmp_path / "other", tmp_path / "mine", CLIENT_SECRET)
    (mine / SERVER_PUBLIC).write_bytes((keys / SERVER_PUBLIC).read_bytes())
    with Context() as context:
        context.client("control", address, keys=mine).send(StatusAsk(id="q1"))
        assert heard(server, REFUSED_S) == []
    (keys / CLIENTS / "damaged.public").write_text("no key")
    (keys / CLIENTS / "second.public").write_bytes((tmp_path / "other" / CLIENTS / FIRST_CLIENT).read_bytes())
    with Context() as context:
        context.client("control", address, keys=mine).send(StatusAsk(id="q2"))
        assert [received.message for received in heard(server, PATIENCE_S)] == [StatusAsk(id="q2")]


@pytest.mark.parametrize("wrong_server_key", [True, False])
def test_whoever_has_no_key_is_not_heard(server: Server, keys: Path, address: str, wrong_server_key: bool) -> None:
    """A plain client, and one that takes the server for another; neither takes the server down."""
    raw = zmq.Context()
    with raw.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        if wrong_server_key:
            public, secret = zmq.curve_keypair()
            dealer.setsockopt(zmq.CURVE_SERVERKEY, zmq.curve_keypair()[0])
            dealer.setsockopt(zmq.CURVE_PUBLICKEY, public)
            dealer.setsockopt(zmq.CURVE_SECRETKEY, secret)
        dealer.connect(address)
        dealer.send_multipart(encode(StatusAsk(id="q1")))
        assert heard(server, REFUSED_S) == []
        # However slow the machine is: a client that is let in, and came later, is the first to be heard.
        with Context() as context:
            context.client("control", address, keys=keys).send(StatusAsk(id="q2"))
            assert [received.message for received in heard(server, PATIENCE_S)] == [StatusAsk(id="q2")]
    raw.term()


def test_no_socket_is_open_to_everybody(address: str, keys: Path) -> None:
    """Over tcp there is none without keys, and none but `control`."""
    with Context() as context:
        with pytest.raises(ConfigError, match="keys is missing: control at tcp://"):
            context.server("control", address)
        with pytest.raises(ConfigError, match="keys is missing: control at tcp://"):
            context.client("control", address)
        with pytest.raises(ConfigError, match=r"orders is at 'tcp://.*': only control may be elsewhere than at ipc://"):
            context.server("orders", address, keys)


@pytest.mark.parametrize(
    "text", ["tcp://host", "tcp://:1", "tcp://h:0", "tcp://h:65536", "ipc:///x", "udp://h:1", "tcp://h:1/x"]
)
def test_an_address_that_is_none(text: str) -> None:
    """Named, with one that is right."""
    with pytest.raises(ConfigError, match="it must be tcp://HOST:PORT, as in tcp://127"):
        tcp_address(text)


def test_an_address_that_somebody_has(server: Server, keys: Path, address: str) -> None:
    """A sentence, no traceback."""
    with Context() as context, pytest.raises(ConfigError, match=f"control is '{address}': it cannot be bound"):
        context.server("control", address, keys)


def test_keys_are_private_and_never_overwritten(keys: Path) -> None:
    """Secret keys are the user's alone; a second keygen touches nothing."""
    before = {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()}
    assert {path.stat().st_mode & 0o077 for path in (keys, *before)} == {0}
    with pytest.raises(ConfigError, match=r"server.secret is there already, and no key is overwritten"):
        write_keys(keys)
    assert {path: path.read_bytes() for path in before} == before


def test_keys_that_cannot_be_used(keys: Path, address: str) -> None:
    """One that others may read, one that is none, one that is not there."""
    secret = keys / SERVER_SECRET
    said = {"can be read by others": lambda: secret.chmod(0o644), "holds no key": lambda: secret.write_text("x")}
    with Context() as context:
        for sentence, damage in {**said, "cannot be read": secret.unlink}.items():
            damage()
            with pytest.raises(ConfigError, match=f"server.secret {sentence}"):
                context.server("control", address, keys)


@pytest.fixture
def ask_gate(keys: Path) -> Iterator[tuple[Callable[..., bytes], DrivenClock]]:
    """Asks a gate as libzmq does, further frames after the mechanism; the code that it answers. And the gate's clock."""
    context, clock = zmq.Context(), DrivenClock()
    gate = Gate(context, keys, clock)
    with context.socket(zmq.REQ) as asker:
        asker.setsockopt(zmq.LINGER, 0)
        asker.connect(HANDLER)

        def ask(*credentials: bytes, address: bytes = b"10.0.0.1") -> bytes:
            asker.send_multipart([b"1.0", b"7", DOMAIN, address, b"", b"CURVE", *credentials])
            assert asker.poll(PATIENCE_S * 1000), "the gate does not answer"
            version, request_id, code, *_ = asker.recv_multipart()
            assert (version, request_id) == (b"1.0", b"7")
            return code

        yield ask, clock
    gate.close()
    context.term()


def test_a_fault_of_the_gate_closes_it_to_nobody(
    ask_gate: tuple[Callable[..., bytes], DrivenClock], keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it cannot read is refused, and logged once in a while; whoever comes next is answered."""
    ask, _ = ask_gate
    known = z85.decode((keys / CLIENTS / FIRST_CLIENT).read_bytes().strip())
    assert [ask(known[:-1]) for _ in range(5)] == [b"500"] * 5
    assert ask(known) == b"200"
    assert len([record for record in caplog.records if "500" in record.getMessage()]) == 3


def test_a_flood_of_unknown_keys_reads_no_file_each_time_and_fills_no_log(
    ask_gate: tuple[Callable[..., bytes], DrivenClock], keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are read once a second, and when a file came; a key that is taken away is refused at once."""
    ask, clock = ask_gate
    public, _ = zmq.curve_keypair()
    (keys / CLIENTS / "damaged.public").write_text("no key")
    second = keys / CLIENTS / "second.public"
    for _ in range(5):
        assert [ask(z85.decode(public)) for _ in range(8)] == [b"400"] * 8
        clock.now += READ_S
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "was refused" in line]) == 6, "of 40, at 1, 2, 4, 8, 16, 32"
    assert len([line for line in said if "damaged.public" in line]) == 3, "of 5, at 1, 2, 4"
    ask(z85.decode(public))
    second.write_bytes(public)
    assert [ask(z85.decode(public)) for _ in range(8)] == [b"200"] * 8
    second.unlink()
    assert ask(z85.decode(public)) == b"400"
