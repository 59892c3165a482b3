"""What can a model server do wrong? One that is scripted, down to when it says nothing and when it hangs up."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

PATIENCE_S = 60.0
"""Seconds after which a habit that waits for its client gives up, so that a broken test ends."""


@dataclass(frozen=True)
class Asked:
    """A request as it came, and the number of its connection (from 0)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Gone(Exception):
    """The connection is to be closed now."""


Habit = Callable[["BadServer", socket.socket], None]
"""What is done about one request, over its connection; Gone closes that."""


@dataclass
class BadServer:
    """Listens on 127.0.0.1; each POST gets the next of `habits` (the last one for ever), each GET its path's in `gets`.

    `url` ends in /v1. `asked` holds the requests, `hung_up` is set when a waiting habit saw its client close.
    """

    habits: list[Habit]
    gets: dict[str, Habit] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    waiting: Event = field(default_factory=Event)
    hung_up: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._clients: list[socket.socket] = []

    def posts(self) -> list[Asked]:
        """The POST requests so far."""
        return [asked for asked in self.asked if asked.method == "POST"]

    def __enter__(self) -> BadServer:
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        for each in (self._listener, *self._clients):
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            thread = Thread(target=self._serve, args=(client, self.connections), daemon=True)
            self._threads.append(thread)
            self.connections += 1
            thread.start()

    def _serve(self, client: socket.socket, connection: int) -> None:
        reader = client.makefile("rb")
        try:
            while line := reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while (line := reader.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = reader.read(int(headers.get("content-length", 0)))
                with self._lock:
                    self.asked.append(Asked(method, path, headers, body, connection))
                    habit = self._habit(method, path)
                habit(self, client)
        except (Gone, OSError):
            pass  # the habit ended the connection, or the client did
        finally:
            reader.close()
            client.close()

    def _habit(self, method: str, path: str) -> Habit:
        if method == "GET":
            return self.gets.get(path, answer(404, {"detail": "Not Found"}))
        return self.habits.pop(0) if len(self.habits) > 1 else self.habits[0]


def answer(status: int, body: Any, **headers: str) -> Habit:
    """Answer at once, and keep the connection."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(data)}", *(f"{k}: {v}" for k, v in headers.items())]

    def habit(server: BadServer, client: socket.socket) -> None:
        client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    return habit


def reflect(make: Callable[[dict[str, Any]], Habit]) -> Habit:
    """Do what `make` says for the decoded body of the request."""

    def habit(server: BadServer, client: socket.socket) -> None:
        make(json.loads(server.posts()[-1].body))(server, client)

    return habit


def silent(server: BadServer, client: socket.socket) -> None:
    """Say nothing until the client hangs up."""
    drip(b"")(server, client)


def drip(start: bytes) -> Habit:
    """Say `start`, and then a byte every 20 ms (none after an empty start) until the client hangs up."""

    def habit(server: BadServer, client: socket.socket) -> None:
        client.sendall(start)
        client.settimeout(0.02 if start else PATIENCE_S)
        server.waiting.set()
        for _ in range(int(PATIENCE_S / 0.02) if start else 1):
            try:
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                client.sendall(b"a")
            except OSError:
                break
        server.hung_up.set()
        raise Gone

    return habit


def hang_up(server: BadServer, client: socket.socket) -> None:
    """Close the connection without a word."""
    raise Gone


def half_an_answer(server: BadServer, client: socket.socket) -> None:
    """Close the connection in the middle of the body."""
    client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": [')
    raise Gone
