"""How does one HTTP call end in time, whatever the server does? A kept-alive connection that another thread can cut.

`requests` bounds each read, not the call: a server that drips a byte a second holds it for ever. Here every send and
every read has what is left of the call's whole time. `cut` names the call it means, under the lock that a new call
takes, so that a late cut never hits the next call on the same socket. Never a half-close: servers take that as "gone".
"""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from legato_rl.clock import Clock
from legato_rl.policy.verdicts import Break

CONNECT_S = 10.0
"""Seconds in which a connection must stand, at most; part of the call's own time."""
MAX_ANSWER = 256 * 2**20
"""Bytes of an answer; more ends the call as CUT."""


class LineBroken(Exception):
    """The call ended without a whole HTTP answer; `broken` says how."""

    def __init__(self, broken: Break, detail: str) -> None:
        super().__init__(detail)
        self.broken = broken


@dataclass
class _Call:
    """The running call, and how far it came."""

    token: Hashable
    ends: float
    fresh: bool = False
    """It makes a connection of its own."""
    stood: bool = False
    """That connection stands."""
    heard: bool = False
    """A byte of the answer has come."""
    late: bool = False
    """A send or a read ran out of time."""
    cut: bool = False
    """Its caller cut it."""


class Line:
    """One connection to one origin. Calls come from one thread; `cut` from any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._call: _Call | None = None
        self._sock: socket.socket | None = None
        self._cut_before: Hashable = None
        self._adapter = _Adapter(self)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("http://", self._adapter)
        self._session.mount("https://", self._adapter)

    def call(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Iterable[bytes] | None,
        timeout_s: float,
        token: Hashable,
    ) -> tuple[int, bytes]:
        """The status and body of one HTTP exchange; redirects are not followed. LineBroken where there is none.

        `timeout_s` seconds bound all of it. `token` (not None) names the call for `cut`.
        """
        call = _Call(token, self._clock.monotonic() + timeout_s)
        with self._lock:
            call.cut, self._cut_before = token is not None and token == self._cut_before, None
            self._call = call
        try:
            if call.cut:
                raise LineBroken(Break.CANCELLED, "cut before it began")
            return self._exchange(method, url, headers, body, timeout_s)
        except (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            self._adapter.close()
            raise self._broken(call, timeout_s, error) from None
        finally:
            with self._lock:
                self._call = None

    def cut(self, token: Hashable) -> None:
        """End the call named `token`, running or about to begin; any other call goes on."""
        with self._lock:
            if self._call is None or self._call.token != token:
                self._cut_before = token
                return
            self._call.cut = True
            if self._sock is not None:
                # The plain shutdown: SSLSocket's own forgets its TLS state under the thread that is reading.
                with suppress(OSError):  # it is closed already
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def left(self) -> float:
        """Seconds that the running call has left. TimeoutError where it has none."""
        call = self._running()
        left = call.ends - self._clock.monotonic()
        if left <= 0:
            call.late = True
            raise TimeoutError("the call's time is over")
        return left

    def late(self) -> None:
        """Note that a send or a read ran out of time."""
        self._running().late = True

    def heard(self) -> None:
        """Note that a byte of the answer has come."""
        self._running().heard = True

    def connecting(self) -> None:
        """Note that the running call makes a new connection."""
        self._running().fresh = True

    def connected(self, sock: socket.socket) -> None:
        """Note the new connection's socket. ConnectionAbortedError where the call was cut while it connected."""
        with self._lock:
            self._sock = sock
            call = self._running()
            call.stood = True
            if call.cut:
                raise ConnectionAbortedError("cut while connecting")

    def _running(self) -> _Call:
        assert self._call is not None, "sockets are used within calls only"
        return self._call

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None, timeout_s: float
    ) -> tuple[int, bytes]:
        response = self._session.request(
            method,
            url,
            data=body,
            headers=dict(headers),
            timeout=(min(CONNECT_S, timeout_s), timeout_s),
            allow_redirects=False,
            stream=True,
        )
        answer: bytes = response.raw.read(MAX_ANSWER + 1, decode_content=True)
        if len(answer) > MAX_ANSWER:
            raise OSError(f"the answer is over {MAX_ANSWER} bytes")
        response.raw.drain_conn()
        return response.status_code, answer

    def _broken(self, call: _Call, timeout_s: float, error: BaseException) -> LineBroken:
        reason = _reason(error)
        if call.cut:
            return LineBroken(Break.CANCELLED, "cut by its caller")
        if call.fresh and not call.stood:
            return LineBroken(Break.REFUSED, reason)
        if call.late:
            return LineBroken(Break.TIMEOUT, f"within {timeout_s:g} s")
        if not call.fresh and not call.heard:
            return LineBroken(Break.STALE, reason)
        return LineBroken(Break.CUT, reason)


def _reason(error: BaseException) -> str:
    """The innermost cause in a few words, such as `connection refused`."""
    while True:
        inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        if inner is None:
            break
        error = inner
    words = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return words[:1].lower() + words[1:200]


class _Timed(io.RawIOBase):
    """The reading end of a socket, in which every read has what is left of the call's time."""

    def __init__(self, raw: socket.SocketIO, sock: socket.socket, line: Line) -> None:
        self._raw, self._sock, self._line = raw, sock, line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._line.left())
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            self._line.late()
            raise
        if count:
            self._line.heard()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Adapter(HTTPAdapter):
    """requests' adapter with one connection, no retries, and connections that answer to the line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pool_classes(self._line)


def _pool_classes(line: Line) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """urllib3's connection pools by scheme, with connections that tell `line` their socket and take its time."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            plain, raw = self.fp, sock.makefile("rb", buffering=0)
            self.fp = io.BufferedReader(_Timed(raw, sock, line), 2**16)
            plain.close()

    class Told(HTTPConnection):
        response_class = Response

        def connect(self) -> None:
            line.connecting()
            super().connect()
            line.connected(self.sock)

        def send(self, data: Any) -> None:
            if self.sock is None:
                self.connect()
            self.sock.settimeout(line.left())
            try:
                super().send(data)
            except TimeoutError:
                line.late()
                raise

    class ToldTLS(Told, HTTPSConnection):
        pass

    class Plain(urllib3.HTTPConnectionPool):
        ConnectionCls = Told

    class TLS(urllib3.HTTPSConnectionPool):
        ConnectionCls = ToldTLS

    return {"http": Plain, "https": TLS}
