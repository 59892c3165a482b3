"""How does the bundled policy speak HTTP? The endpoints of a model server, on the standard library's threads."""

from __future__ import annotations

import hmac
import json
import socket
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock, Thread
from typing import Any

from legato_rl._version import __version__
from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.fake.chat import Chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.request import Refusal
from legato_rl.fake.slots import HungUp, QueueFull, Slots, pause

MAX_BODY = 1 << 30
"""Bytes of a request body."""
BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."


class FakePolicyServer:
    """The bundled policy server, in threads of this process. Also a context manager that starts and closes it."""

    def __init__(self, config: FakePolicyConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.config = config or FakePolicyConfig()
        self.chat = Chat(self.config)
        self.slots = Slots(self.config.concurrency, self.config.max_queued)
        self.clock = clock
        self._luck = Random(self.config.seed)
        self._luck_lock = Lock()
        self._http: _Listener | None = None
        self._thread: Thread | None = None

    def start(self) -> str:
        """Listen, and serve in the background. The base URL, ending in `/v1`. OSError where the port is taken."""
        http = _Listener((self.config.host, self.config.port), self)
        self._http = http
        self._thread = Thread(target=http.serve_forever, args=(0.05,), name="fake-policy", daemon=True)
        self._thread.start()
        return f"http://{self.config.host}:{http.server_address[1]}/v1"

    def close(self) -> None:
        """Stop listening and cut every connection, as a server does that dies: requests in flight get no answer."""
        if self._http is not None and self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()
            self._http = None

    def unlucky(self) -> bool:
        """Whether the next request is to fail."""
        with self._luck_lock:
            return self._luck.random() < self.config.fail

    def complete(self, body: Any, client: socket.socket) -> dict[str, Any]:
        """Answer one chat request. Refusal for an error; HungUp where the client left."""
        plan = self.chat.plan(body)
        try:
            with self.slots.slot(client):
                cached = self.chat.enter_cache(plan)
                pause(client, plan.latency)
                if self.unlucky():
                    raise Refusal(500, "The fake server fails at the rate it was told to.", "InternalServerError")
                return self.chat.answer(plan, cached, int(self.clock.wall()))
        except QueueFull:
            raise Refusal(503, BUSY, "Service Unavailable") from None

    def models(self) -> dict[str, Any]:
        """The body of /v1/models."""
        entry = {"id": self.chat.model, "object": "model", "owned_by": "legato", "root": self.chat.model}
        return {"object": "list", "data": [entry | {"max_model_len": self.config.max_model_len}]}

    def metrics(self) -> str:
        """The body of /metrics, in the Prometheus text format."""
        label = f'{{engine="0",model_name="{self.chat.model}"}}'
        values = (
            ("num_requests_running", "gauge", self.slots.running),
            ("num_requests_waiting", "gauge", self.slots.waiting),
            ("prefix_cache_queries_total", "counter", self.chat.cache.queries),
            ("prefix_cache_hits_total", "counter", self.chat.cache.hits),
        )
        return "".join(f"# TYPE vllm:{name} {kind}\nvllm:{name}{label} {float(value)}\n" for name, kind, value in values)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], policy: FakePolicyServer) -> None:
        self.policy = policy
        self._clients: set[Any] = set()
        self._lock = Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for client in self._clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):  # a client that vanished is no news
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_version = f"legato-fake-policy/{__version__}"
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.policy.config.keep_alive)

    def do_GET(self) -> None:
        policy = self.server.policy
        if self._authorised():
            path = self.path.partition("?")[0]
            if path == "/v1/models":
                self._send_json(200, policy.models())
            elif path == "/health":
                self._send(200, b"", "application/json")
            elif path == "/version":
                self._send_json(200, {"version": __version__})
            elif path == "/metrics":
                self._send(200, policy.metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
            elif path == "/v1/chat/completions":
                self._send_json(405, {"detail": "Method Not Allowed"})
            else:
                self._send_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        try:
            body = self._body()
            if not self._authorised():
                return
            if self.path.partition("?")[0] != "/v1/chat/completions":
                self._send_json(404, {"detail": "Not Found"})
                return
            self._send_json(200, self.server.policy.complete(_decoded(body), self.connection))
        except Refusal as error:
            self._send_json(error.status, error.body(self.server.policy.config.sglang))
        except (HungUp, ConnectionError, TimeoutError):
            self.close_connection = True

    def _authorised(self) -> bool:
        key = self.server.policy.config.api_key
        if key is None or not self.path.startswith("/v1"):
            return True
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if hmac.compare_digest(given, b"Bearer " + key.get_secret_value().encode()):
            return True
        self._send_json(401, Refusal(401, "Unauthorized").body(False))
        return False

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunks()
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            raise Refusal(400, f"Content-Length is {length!r}: it must be a number of at most {MAX_BODY} bytes.")
        return self.rfile.read(int(length))

    def _chunks(self) -> bytes:
        found = bytearray()
        while True:
            head = self.rfile.readline(64).partition(b";")[0].strip()
            try:
                size = int(head, 16)
            except ValueError:
                size = -1
            if not 0 <= size <= MAX_BODY - len(found):
                self.close_connection = True
                raise Refusal(400, "The chunked body is broken.")
            found += self.rfile.read(size)
            self.rfile.readline(64)
            if size == 0:
                return bytes(found)

    def _send_json(self, status: int, body: Any) -> None:
        self._send(status, json.dumps(body, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what was asked and answered is the client's to record."""


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        where = f"body.{getattr(error, 'pos', 0)}"
        text = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': {where!r}, 'msg': 'JSON decode error'}}"
        raise Refusal(400, text, "Bad Request", where) from None
