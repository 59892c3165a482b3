"""How are messages moved? Sockets made by the table in endpoints.py; beside curve.py the only module that knows zmq.

A send never blocks: at the bound, or to a peer that is not there, the message is dropped and counted, since every
exchange of the protocol is asked again until answered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import zmq

from legato_rl.curve import Gate, guard_client, guard_server
from legato_rl.endpoints import ENDPOINTS, check_guard
from legato_rl.errors import ConfigError, WireError
from legato_rl.wire import Message, Refused, decode, encode

MOST_AT_ONCE = 256
"""Messages that a socket hands over before its owner looks at its other sockets and at the clock."""
BLOB_COPY = 2**16
"""Bytes from which a blob is sent without being copied."""


class Pollable(Protocol):
    """What `wait` can wait for."""

    def fileno(self) -> int: ...


@dataclass(frozen=True)
class Received:
    """One message as it came: `peer` is the identity to answer to (empty at a client)."""

    peer: bytes
    message: Message
    blobs: list[bytes]


class Context:
    """The process's sockets; closing it closes them all, each within its LINGER."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._gate: Gate | None = None

    def server(self, name: str, address: str, keys: Path | None = None) -> Server:
        """Bind endpoint `name`. One over tcp needs `keys`, a folder of CURVE keys, and is for those alone who have one.

        The folder of an ipc address is made, private to the user, where it is not there: a temporary one does not outlive
        a reboot. ConfigError where the address cannot be had.
        """
        check_guard(name, address, keys is not None)
        guard = None if address.startswith("ipc://") else keys
        if guard is not None and self._gate is None:
            self._gate = Gate(self._context, guard)
        return Server(self._context, name, address, guard)

    def client(self, name: str, address: str, identity: bytes | None = None, keys: Path | None = None) -> Client:
        """Connect to endpoint `name`, which may not be there yet; with the keys in folder `keys` where it is over tcp."""
        check_guard(name, address, keys is not None)
        return Client(self._context, name, address, identity, None if address.startswith("ipc://") else keys)

    def close(self) -> None:
        """Close all sockets, wait for their last messages (LINGER bounds it) and end."""
        if self._gate is not None:
            self._gate.close()
        # term() alone would wait for ever for a socket that an exception left open.
        self._context.destroy()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Socket:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int, name: str) -> None:
        endpoint = ENDPOINTS[name]
        self.name = name
        self.dropped = 0
        self.bad = 0
        self._socket: zmq.Socket[bytes] = context.socket(kind)
        self._socket.setsockopt(zmq.SNDHWM, endpoint.hwm)
        self._socket.setsockopt(zmq.RCVHWM, endpoint.hwm)
        self._socket.setsockopt(zmq.LINGER, endpoint.linger_ms)
        self._socket.setsockopt(zmq.MAXMSGSIZE, endpoint.max_bytes)

    @property
    def raw(self) -> zmq.Socket[bytes]:
        """For `wait`."""
        return self._socket

    def _send(self, frames: Sequence[bytes]) -> bool:
        try:
            last = len(frames) - 1
            for i, frame in enumerate(frames):
                flags = zmq.NOBLOCK | (zmq.SNDMORE if i < last else 0)
                self._socket.send(frame, flags, copy=len(frame) < BLOB_COPY)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            self.dropped += 1
            return False
        return True

    def close(self) -> None:
        """Close; what is queued still leaves within LINGER."""
        self._socket.close()

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server(_Socket):
    """A bound ROUTER. A bad message is answered with `Refused`, counted, and takes nothing down."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], name: str, address: str, keys: Path | None = None) -> None:
        super().__init__(context, zmq.ROUTER, name)
        # Without it a ROUTER drops silently at its bound and for a peer that is gone: nothing could be counted.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A peer that comes again under its identity replaces its old connection.
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if keys is not None:
            guard_server(self._socket, keys)
        if address.startswith("ipc://"):
            private_folder(Path(address.removeprefix("ipc://")).parent)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            raise ConfigError(f"{name} is {address!r}: it cannot be bound ({error.strerror}); choose another") from None

    def receive(self) -> Iterator[Received]:
        """What is here now, without waiting: MOST_AT_ONCE messages at most, since a peer may send without end."""
        for _ in range(MOST_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            peer = frames[0]
            try:
                message, blobs = decode(frames[1:])
            except WireError as error:
                self.bad += 1
                kind = frames[2][:40].decode("ascii", "replace") if len(frames) > 2 else ""
                self.send(peer, Refused(about=kind, reason=str(error)))
                continue
            yield Received(peer, message, blobs)

    def send(self, peer: bytes, message: Message, blobs: list[bytes] | None = None) -> bool:
        """Send to `peer`; False where the bound was reached or the peer is gone."""
        return self._send([peer, *encode(message, blobs)])


class Client(_Socket):
    """A connected DEALER."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        name: str,
        address: str,
        identity: bytes | None,
        keys: Path | None = None,
    ) -> None:
        super().__init__(context, zmq.DEALER, name)
        if keys is not None:
            guard_client(self._socket, keys)
        if identity is not None:
            self._socket.setsockopt(zmq.IDENTITY, identity)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 50)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        self._socket.connect(address)

    def receive(self) -> Iterator[Received]:
        """What is here now, without waiting, as with a server; messages that cannot be read are counted and skipped."""
        for _ in range(MOST_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message, blobs = decode(frames)
            except WireError:
                self.bad += 1
                continue
            yield Received(b"", message, blobs)

    def send(self, message: Message, blobs: list[bytes] | None = None) -> bool:
        """Send; False where the bound was reached."""
        return self._send(encode(message, blobs))


class Bell:
    """Wakes a `wait` in another thread of this process."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def ring(self) -> None:
        """Wake whoever waits; rings add up to one."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Forget the rings so far."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self._fd)


def private_folder(folder: Path) -> None:
    """Make a folder of sockets that is not there. ConfigError where others than this user may write in it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise ConfigError(f"the sockets folder is {str(folder)!r}: {error.strerror}; make it, private to the user") from None
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise ConfigError(f"the sockets folder is {str(folder)!r}: others may write in it; remove it, or chmod 700 it")


def wait(sources: Sequence[Server | Client | Pollable], seconds: float) -> None:
    """Return when one of `sources` has something to read, or after `seconds`."""
    poller = zmq.Poller()
    for source in sources:
        poller.register(source.raw if isinstance(source, _Socket) else source.fileno(), zmq.POLLIN)
    poller.poll(max(0, int(seconds * 1000)))
