"""Who may speak to a socket over tcp? The CURVE keys of a folder, and the handler that refuses every other key.

A folder of keys holds, one key a file (Z85, 40 characters): `server.secret` and `clients/*.public` at the service;
`client.secret` and `server.public` at whoever connects. `legato-rl keygen` writes them all.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from pathlib import Path

import zmq
from zmq.utils import z85

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.errors import ConfigError
from legato_rl.faults import Faults
from legato_rl.rundir import RunDir, write_file

log = logging.getLogger("legato_rl")

HANDLER = "inproc://zeromq.zap.01"
"""Where libzmq asks who may connect (ZeroMQ RFC 27)."""
READ_S = 1.0
"""Seconds between two readings of the keys for the sake of clients that are refused, while no file comes or goes."""
DOMAIN = b"control"
TURN_MS = 200
"""Milliseconds after which the handler sees that it should end."""
SERVER_SECRET, SERVER_PUBLIC, CLIENT_SECRET, CLIENTS = "server.secret", "server.public", "client.secret", "clients"
FIRST_CLIENT = "client.public"

Context = zmq.Context[zmq.Socket[bytes]]


def write_keys(folder: Path) -> None:
    """Draw the keys of a server and of one client, into a new or empty folder. Secret ones are the user's alone.

    ConfigError where the folder holds anything, keys above all, or cannot be written.
    """
    server_public, server_secret = zmq.curve_keypair()
    client_public, client_secret = zmq.curve_keypair()
    keys = {
        folder / SERVER_SECRET: server_secret,
        folder / SERVER_PUBLIC: server_public,
        folder / CLIENT_SECRET: client_secret,
        folder / CLIENTS / FIRST_CLIENT: client_public,
    }
    try:
        _refuse_filled(folder, keys)
        (folder / CLIENTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for path, key in keys.items():
            write_file(path, key + b"\n")
            path.chmod(0o600)
    except OSError as error:
        raise ConfigError(f"dir is {str(folder)!r}: {error.strerror or error}; name a folder that can be written") from None


def _refuse_filled(folder: Path, keys: Iterable[Path]) -> None:
    """Keys that are there are in use somewhere, and a folder of something else would be taken from whoever reads it."""
    told = f"dir is {str(folder)!r}"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{told}: it is a file; name a new or empty folder")
    for path in keys:
        if path.exists():
            raise ConfigError(f"{told}: {path.name} is there already, and no key is overwritten; name another")
    if folder.is_dir() and any(folder.iterdir()):
        what = "it holds a run" if RunDir(folder).run_file.exists() else "it is not empty"
        raise ConfigError(f"{told}: {what}; name a new or empty folder")


def check_keys(folder: Path) -> None:
    """ConfigError where a folder of keys lacks one of a service, or of the commands that connect to it on its machine."""
    for name in (SERVER_SECRET, CLIENT_SECRET):
        _read_secret(folder / name)
    _read(folder / SERVER_PUBLIC)


def guard_server(socket: zmq.Socket[bytes], folder: Path) -> None:
    """Make a socket that is not bound yet a CURVE server; nobody connects without a handler (`Gate`)."""
    socket.setsockopt(zmq.CURVE_SECRETKEY, _read_secret(folder / SERVER_SECRET))
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def guard_client(socket: zmq.Socket[bytes], folder: Path) -> None:
    """Make a socket that is not connected yet a CURVE client."""
    secret = _read_secret(folder / CLIENT_SECRET)
    socket.setsockopt(zmq.CURVE_SERVERKEY, _read(folder / SERVER_PUBLIC))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(secret))
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)


class Gate:
    """Answers libzmq, in a thread of its own, whether a client's key is one of `clients/`: those that are there now.

    For keys that are unknown the files are read again once the folder changed, else not before READ_S have passed.
    """

    def __init__(self, context: Context, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clients = folder / CLIENTS
        self._clock = clock
        self._closing = False
        self._faults = Faults()
        self._allowed: set[bytes] = set()
        """As last read, at `_read_at`, when the folder had changed at `_changed_at` (its own st_mtime_ns)."""
        self._read_at, self._changed_at = 0.0, -1
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(HANDLER)
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; from now on nobody connects."""
        self._closing = True
        self._thread.join()

    def _run(self) -> None:
        with self._socket:
            while not self._closing:
                if self._socket.poll(TURN_MS):
                    self._socket.send_multipart(self._answer(self._socket.recv_multipart()))

    def _answer(self, request: list[bytes]) -> list[bytes]:
        """`[version, request id, domain, address, identity, mechanism, key]` to `[version, id, code, text, user, metadata]`."""
        try:
            code, text = self._judge(request)
        except Exception as error:
            # One request that cannot be judged is refused; a thread that ended would refuse everybody.
            code, text = b"500", b"internal fault"
            if count := self._faults.note(type(error).__name__):
                log.exception("a client is answered 500 (the %d. time): its key could not be looked up", count)
        return [*request[:2], code, text, b"", b""]

    def _judge(self, request: list[bytes]) -> tuple[bytes, bytes]:
        _, _, _, address, _, mechanism, *credentials = request
        if mechanism == b"CURVE" and self._allows(z85.encode(b"".join(credentials))):
            return b"200", b"OK"
        where = address.decode(errors="replace")
        if count := self._faults.note(where):
            log.warning("a client at %s was refused (the %d. time): its key is not in %s", where, count, self._clients)
        return b"400", b"unknown key"

    def _allows(self, key: bytes) -> bool:
        now, changed_at = self._clock.monotonic(), self._clients.stat().st_mtime_ns
        # One that was let in may have been taken away since; those that were not may come by the thousand.
        if key in self._allowed or changed_at != self._changed_at or now - self._read_at >= READ_S:
            self._allowed, self._read_at, self._changed_at = self._read_all(), now, changed_at
        return key in self._allowed

    def _read_all(self) -> set[bytes]:
        allowed = set()
        for path in self._clients.glob("*.public"):
            try:
                allowed.add(_read(path))
            except ConfigError as error:
                if count := self._faults.note(path.name):
                    log.error("%s (the %d. time)", error, count)
        return allowed


def _read_secret(path: Path) -> bytes:
    key = _read(path)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others: chmod 600 it, or draw new keys with legato-rl keygen")
    return key


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): legato-rl keygen writes it") from None
    if not re.fullmatch(rb"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}", key):
        raise ConfigError(f"{path} holds no key: legato-rl keygen writes one of 40 characters")
    return key
