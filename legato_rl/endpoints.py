"""Which sockets are there? One table: who binds, what may be in flight, what is dropped at exit, what is too large."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from legato_rl.errors import ConfigError

IPC_LIMIT = 107
"""Bytes of a unix socket's path (sun_path less its zero)."""


@dataclass(frozen=True)
class Endpoint:
    """A ROUTER that `binder` binds and DEALERs connect to. Bounds are per connection and direction.

    `hwm` counts messages; at it, a send is dropped and counted, and the exchange asks again. `linger_ms` is how long
    a closing socket may still send. `max_bytes` bounds one frame; a peer that sends more is disconnected.
    """

    name: str
    binder: str
    hwm: int
    linger_ms: int
    max_bytes: int


ENDPOINTS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        # Small and repeated every second: dropping is harmless.
        Endpoint("orders", binder="broker", hwm=64, linger_ms=200, max_bytes=16 * 2**20),
        # A call is one message with its new blobs; at 1 MB a screenshot, 16 bounds a worker's share at ~16 MB.
        Endpoint("policy", binder="proxy", hwm=16, linger_ms=200, max_bytes=64 * 2**20),
        # Workers send few unacknowledged blobs; the broker's rows are small.
        Endpoint("rows", binder="sink", hwm=64, linger_ms=1000, max_bytes=256 * 2**20),
        Endpoint("control", binder="broker", hwm=64, linger_ms=500, max_bytes=64 * 2**20),
    )
}


def address(folder: Path, name: str) -> str:
    """The ipc address of endpoint `name` in the socket folder. ConfigError where the path is too long for a socket."""
    path = str(folder / ENDPOINTS[name].name)
    if len(path.encode()) > IPC_LIMIT:
        raise ConfigError(f"the socket path {path} has {len(path.encode())} bytes: use a folder of a shorter name")
    return f"ipc://{path}"


def tcp_address(text: str) -> str:
    """`text` as an address of socket `control` over tcp. ConfigError where it is none."""
    match = re.fullmatch(r"tcp://([^\s:/\[\]]+):([0-9]{1,5})", text)
    if match is None or not 0 < int(match[2]) < 2**16:
        raise ConfigError(f"control is {text!r}: it must be tcp://HOST:PORT, as in tcp://127.0.0.1:5555")
    return text


def check_guard(name: str, address: str, guarded: bool) -> None:
    """Whether endpoint `name` may be at `address`. ConfigError for one over tcp that is not `control`, or has no keys."""
    if address.startswith("ipc://"):
        return
    if name != "control":
        raise ConfigError(f"{name} is at {address!r}: only control may be elsewhere than at ipc://")
    tcp_address(address)
    if not guarded:
        raise ConfigError(f"keys is missing: control at {address} is for those who have one; legato-rl keygen draws them")
