"""Do sockets move what they should, and only count what they cannot? Real sockets in one thread."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import zmq

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import ENDPOINTS, IPC_LIMIT, address
from legato_rl.errors import ConfigError
from legato_rl.sockets import Bell, Client, Context, Received, Server, wait
from legato_rl.wire import BlobsStored, Message, ProxyOrder, PutBlobs, Refused, encode

PATIENCE_S = 60.0
HELLO = ProxyOrder(boot="b")


@pytest.fixture
def where() -> Iterator[str]:
    """The address of an `orders` endpoint."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder:
        yield address(Path(folder), "orders")


@pytest.fixture
def pair(where: str) -> Iterator[tuple[Server, Client]]:
    """A server and a client that speak."""
    with Context() as context:
        yield context.server("orders", where), context.client("orders", where)


def hear(socket: Server | Client) -> Received:
    """The next message at `socket`."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        wait([socket], 1.0)
        for received in socket.receive():
            return received
    raise AssertionError(f"nothing came to {socket.name}")


def greet(server: Server, client: Client) -> bytes:
    """Exchange one message, so that both know each other; the client's identity."""
    client.send(HELLO)
    return hear(server).peer


def test_a_message_and_its_blobs_arrive(pair: tuple[Server, Client]) -> None:
    """Small and large blobs come as they were sent, in both directions."""
    server, client = pair
    blobs = [b"", b"small", bytes(range(256)) * 4096]
    client.send(PutBlobs(run="r1", blobs=[]), blobs)
    received = hear(server)
    assert (received.message, received.blobs) == (PutBlobs(run="r1", blobs=[]), blobs)
    assert server.send(received.peer, BlobsStored(hashes=["x"]), blobs)
    answer = hear(client)
    assert (answer.peer, answer.message, answer.blobs) == (b"", BlobsStored(hashes=["x"]), blobs)


def test_a_client_counts_what_it_drops_at_its_bound(where: str) -> None:
    """Nobody is there: messages wait up to the bound, the rest is dropped at once and counted; then they arrive."""
    bound = ENDPOINTS["orders"].hwm
    with Context() as context:
        client = context.client("orders", where)
        sent = [client.send(HELLO) for _ in range(bound + 5)]
        assert sent == [True] * bound + [False] * 5
        assert client.dropped == 5
        server = context.server("orders", where)
        heard: list[Message] = [hear(server).message]
        while len(heard) < bound:
            wait([server], PATIENCE_S)
            heard += [received.message for received in server.receive()]
        assert heard == [HELLO] * bound


def test_a_server_counts_what_it_drops_at_its_bound(pair: tuple[Server, Client]) -> None:
    """A peer that does not read costs no more than the bound, blocks nobody, and is served again when it reads."""
    server, client = pair
    peer = greet(server, client)
    sent = 0
    while server.send(peer, HELLO, [bytes(100_000)]):
        sent += 1
    assert server.dropped == 1
    for _ in range(sent):
        hear(client)
    assert server.send(peer, HELLO)
    assert hear(client).blobs == []


def test_a_message_to_nobody_is_counted(pair: tuple[Server, Client]) -> None:
    """A peer that is gone, or never was, takes nothing down."""
    server, client = pair
    assert not server.send(b"nobody", HELLO)
    assert server.dropped == 1
    greet(server, client)


def test_a_peer_that_comes_again_replaces_itself(where: str) -> None:
    """Under the same identity the new connection is the one that is answered."""
    with Context() as context:
        server = context.server("orders", where)
        old = context.client("orders", where, b"worker-1")
        assert greet(server, old) == b"worker-1"
        new = context.client("orders", where, b"worker-1")
        assert greet(server, new) == b"worker-1"
        server.send(b"worker-1", HELLO)
        assert hear(new).message == HELLO


@pytest.mark.parametrize(
    ("frames", "about", "said"),
    [
        ([b""], "", "a message has 1 frames"),
        ([b"legato/0", b"ProxyOrder", b""], "ProxyOrder", "the wire version is b'legato/0'"),
        ([b"legato/2", b"Nonsense\xff", b""], "Nonsense\ufffd", "is unknown"),
        ([b"legato/2", b"ProxyOrder", b"\xc1"], "ProxyOrder", "is no msgpack map"),
        ([b"legato/2", b"ProxyOrder", b"\x80"], "ProxyOrder", "ProxyOrder.boot: Field required"),
    ],
)
def test_bad_frames_are_refused(where: str, frames: list[bytes], about: str, said: str) -> None:
    """A bad message is answered in a sentence and counted, and the next good one is read."""
    raw = zmq.Context()
    with Context() as context, raw.socket(zmq.DEALER) as dealer:
        server = context.server("orders", where)
        dealer.connect(where)
        dealer.send_multipart(frames)
        dealer.send_multipart(encode(HELLO))
        assert hear(server).message == HELLO
        assert server.bad == 1
        version, kind, *_ = answer = dealer.recv_multipart()
        assert (version, kind) == (b"legato/2", b"Refused")
        refused = Refused.model_validate(msgpack.unpackb(answer[2]))
        assert refused.about == about
        assert said in refused.reason
    raw.term()


def test_a_client_skips_what_it_cannot_read(where: str) -> None:
    """What a broken server sends is counted, and answers nothing."""
    raw = zmq.Context()
    with Context() as context, raw.socket(zmq.ROUTER) as router:
        router.bind(where)
        client = context.client("orders", where)
        client.send(HELLO)
        peer = router.recv_multipart()[0]
        router.send_multipart([peer, b"x"])
        router.send_multipart([peer, *encode(HELLO)])
        assert hear(client).message == HELLO
        assert client.bad == 1
    raw.term()


def test_a_context_closes_what_is_open(where: str) -> None:
    """Leaving leaves no socket behind, and does not wait for ever for one that an exception left open."""
    context = Context()
    sockets = [context.client("orders", where), context.server("orders", where)]
    sockets[0].send(HELLO)
    context.close()
    assert all(socket.raw.closed for socket in sockets)


def test_a_bell_wakes_a_wait_in_another_thread() -> None:
    """Rings add up to one, and a cleared bell is silent."""
    bell = Bell()
    ringer = threading.Thread(target=bell.ring)
    begun = SYSTEM_CLOCK.monotonic()
    ringer.start()
    wait([bell], PATIENCE_S)
    ringer.join()
    bell.ring()
    wait([bell], PATIENCE_S)
    bell.clear()
    bell.clear()
    assert SYSTEM_CLOCK.monotonic() - begun < PATIENCE_S
    wait([bell], 0.01)
    assert SYSTEM_CLOCK.monotonic() - begun >= 0.01
    bell.close()


def test_a_path_that_is_too_long_for_a_socket_is_refused() -> None:
    """Unix sockets hold 107 bytes of path: the error comes before the bind, and says what to do."""
    longest = Path("/" + "a" * (IPC_LIMIT - len("//orders")))
    assert address(longest, "orders") == f"ipc://{longest}/orders"
    with pytest.raises(ConfigError, match=f"has {IPC_LIMIT + 1} bytes: use a folder of a shorter name"):
        address(longest.with_name(longest.name + "a"), "orders")
