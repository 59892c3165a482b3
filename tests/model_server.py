"""What is a model server in tests? One that answers by a script, holds what it is told to hold, and sees hang-ups."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Semaphore, Thread
from typing import Any

Body = dict[str, Any]
Answer = tuple[int, Any]
WAIT_S = 60.0
"""Seconds after which a test that waits for something gives up."""


def completion(text: str = "ok", ids: tuple[int, ...] = (7, 8), prompt: list[int] | None = None) -> Body:
    """A chat completion as vLLM writes it; `prompt` are the prompt's ids."""
    entries: list[Body] = [{"token": f"t{i}", "logprob": -0.5, "bytes": None, "top_logprobs": []} for i in ids]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": entries},
        "finish_reason": "stop",
        "token_ids": list(ids),
    }
    usage = {"prompt_tokens": len(prompt or []), "completion_tokens": len(ids)}
    return {"choices": [choice], "usage": usage, "prompt_token_ids": prompt or [1, 2, 3]}


class ModelServer:
    """Answers `/v1/chat/completions` with `script(body)`, and `/health` with `health`.

    `hold()` makes further requests wait in the server until `let_go()`; one whose client hangs up meanwhile sets
    `hung_up`. `bodies` and `headers` are of every request that came whole.
    """

    def __init__(self, script: Callable[[Body], Answer] = lambda body: (200, completion())) -> None:
        self.script = script
        self.health = 200
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.hung_up = Event()
        self.running = 0
        self.most = 0
        self._came = Semaphore(0)
        self._lock = Lock()
        self._go = Event()
        self._go.set()
        self._port = 0
        self._http: _Http | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Listen; again on the same port after `stop`."""
        self._http = _Http(("127.0.0.1", self._port), _Handler)
        self._http.model = self
        self._port = self._http.server_address[1]
        Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on, and cut those there are."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            for connection in list(self._http.connections):
                _cut(connection)
            self._http = None

    def hold(self) -> None:
        self._go.clear()

    def let_go(self) -> None:
        self._go.set()

    def wait_request(self, count: int = 1) -> None:
        """Wait until `count` further requests have come."""
        for _ in range(count):
            assert self._came.acquire(timeout=WAIT_S), "the request did not come"

    def complete(self, body: Body, headers: dict[str, str], connection: socket.socket) -> Answer | None:
        """The answer to one request; None where its client hung up."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self.running += 1
            self.most = max(self.most, self.running)
        self._came.release()
        try:
            while not self._go.wait(0.01):
                if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                    self.hung_up.set()
                    return None
            return self.script(body)
        finally:
            with self._lock:
                self.running -= 1


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def __init__(self, *args: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*args)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: clients that hang up are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._send(self.server.model.health if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.model.complete(body, dict(self.headers), self.connection)
        if answer is None:
            self.close_connection = True
        else:
            self._send(*answer)

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):  # the client may have been faster
        connection.shutdown(socket.SHUT_RDWR)
