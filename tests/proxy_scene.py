"""What surrounds the proxy in tests? The real shell in a thread, on real sockets, between a worker, a broker, a server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from model_server import WAIT_S, ModelServer

from legato_rl.broker.proxy.pool import Pool
from legato_rl.broker.proxy.server import ProxyServer
from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.clock import SYSTEM_CLOCK, SystemClock
from legato_rl.config import PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.policy.upstream import Upstream
from legato_rl.role import Quit
from legato_rl.service import ServiceFile, origin
from legato_rl.sockets import Bell, Client, Context, Server, wait
from legato_rl.wire import (
    BlobName,
    CallAsk,
    CallCancel,
    CallFailed,
    CallId,
    CallNeeds,
    CallReply,
    Message,
    PolicyName,
    ProxyBeat,
    ProxyOrder,
    RunPolicy,
)
from legato_rl.workers.policy import ASK_AGAIN_S

KEY = "sk-very-secret"
PARAMS: dict[str, Any] = {"temperature": 1.0, "logprobs": True, "return_token_ids": True}
ANSWERS = (CallReply, CallFailed)
M = TypeVar("M", bound=Message)


class Shifted(SystemClock):
    """The machine's clock, `ahead` seconds ahead: a test lets time pass by setting it."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def text(words: str) -> bytes:
    """A chat message in canonical JSON."""
    return canonical_json({"role": "user", "content": words})


def picture(png: bytes) -> bytes:
    """A chat message with one image, in canonical JSON."""
    part = {"type": "image_url", "image_url": {"url": image_name(sha256_hex(png))}}
    return canonical_json({"role": "user", "content": [part]})


@dataclass
class Worker:
    """One worker's side of the `policy` socket."""

    socket: Client
    seen: list[Message] = field(default_factory=list)
    """All that ever came."""
    unread: list[Message] = field(default_factory=list)
    previous: str = ""
    """Of the last answer that was heard."""
    asked: CallAsk | None = None
    """The last one."""
    known: dict[str, bytes] = field(default_factory=dict)
    """All blobs so far, by hash."""

    def ask(
        self, rollout: str = "r:g:0:0", step: int = 0, lease: int = 1, digest: str = "d",
        messages: tuple[bytes, ...] = (text("hi"),), blobs: tuple[bytes, ...] | None = None,
        deadline_s: float | None = None, policy: int = 0, previous: str | None = None,
    ) -> CallId:  # fmt: skip
        """Ask for a completion of `messages`, with `blobs` along (all of `messages` unless given)."""
        call = CallId(rollout=rollout, lease=lease, step=step, digest=digest)
        along = messages if blobs is None else blobs
        self.known.update({sha256_hex(blob): blob for blob in (*messages, *along)})
        self.asked = CallAsk(
            call=call,
            messages=[sha256_hex(message) for message in messages],
            params=PARAMS,
            deadline_s=deadline_s,
            blobs=[],
            policy=policy,
            previous=self.previous if previous is None else previous,
        )
        self._ask_with(along)
        return call

    def _ask_with(self, along: Sequence[bytes]) -> None:
        """Send the last ask, with these blobs."""
        assert self.asked is not None
        names = [
            BlobName(sha256=sha256_hex(blob), size=len(blob), type="message" if blob[:1] == b"{" else "image") for blob in along
        ]
        self.socket.send(self.asked.model_copy(update={"blobs": names}), list(along))

    def cancel(self, call: CallId) -> None:
        self.socket.send(CallCancel(call=call))

    def hear(self, kind: type[M], accept: Callable[[M], bool] = lambda message: True) -> M:
        """The next message of this kind that `accept` takes; others before it are passed over.

        The answer to the last ask is asked for again until it comes, with what the proxy needs, as workers do: it drops a call
        that nobody repeats. Late answers to another call are passed over too.
        """
        give_up, again = time.monotonic() + WAIT_S, time.monotonic() + ASK_AGAIN_S
        while time.monotonic() < give_up:
            for received in self.socket.receive():
                self.seen.append(received.message)
                self.unread.append(received.message)
            while self.unread:
                message = self.unread.pop(0)
                if isinstance(message, ANSWERS) and (self.asked is None or message.call != self.asked.call):
                    continue
                if isinstance(message, kind) and accept(message):
                    if isinstance(message, CallReply):
                        self.previous = message.ids_hash()
                    return message
                if isinstance(message, CallNeeds) and kind in ANSWERS:
                    self._ask_with([self.known[sha256] for sha256 in message.hashes])
            if kind in ANSWERS and time.monotonic() >= again:
                self._ask_with([])
                again = time.monotonic() + ASK_AGAIN_S
            wait([self.socket], 0.05)
        raise AssertionError(f"no {kind.__name__} came, but {self.seen[-3:]}")


@dataclass
class Broker:
    """The broker's side of the `orders` socket. `policies` are of the run `r` and of any that a test adds."""

    socket: Server
    policies: list[RunPolicy]
    beats: list[ProxyBeat] = field(default_factory=list)
    number: int = 100
    _peer: bytes = b""

    def beat(self, accept: Callable[[ProxyBeat], bool] = lambda beat: True) -> ProxyBeat:
        """The next beat of the proxy that `accept` takes."""
        give_up = time.monotonic() + WAIT_S
        while time.monotonic() < give_up:
            for received in self.socket.receive():
                assert isinstance(received.message, ProxyBeat)
                self.beats.append(received.message)
                self._peer = received.peer
                if accept(received.message):
                    return received.message
            wait([self.socket], 0.05)
        raise AssertionError(f"no such beat came, but {self.beats[-3:]}")

    def push(self, **fields: Any) -> int:
        """Send an order to the proxy that beat last; its number."""
        self.number += 1
        order = {"boot": self.beats[-1].boot, "number": self.number, "policies": self.policies, **fields}
        self.socket.send(self._peer, ProxyOrder(**order))
        return self.number

    def order(self, **fields: Any) -> ProxyBeat:
        """Order, and wait until that is carried out."""
        number = self.push(**fields)
        return self.beat(lambda beat: beat.order == number)


def run_policy(run: str = "r", *names: tuple[str, str], step_timeout: float = 60.0, retries: int = 1) -> RunPolicy:
    """A run's policies, each a model's name and a version."""
    policies = [PolicyName(model=model, version=version) for model, version in names or [("m", "v7")]]
    return RunPolicy(run=run, names=policies, step_timeout=step_timeout, retries=retries)


def service_file(policy: PolicyConfig, sockets: Path, origins: tuple[str, ...] = (), **settings: Any) -> ServiceFile:
    """A service before the server of `policy`; `settings` are laid over the usual ones."""
    resolved = Settings(policy=policy, **settings)
    return ServiceFile(
        created_at="",
        legato_rl="",
        python="",
        settings=resolved,
        most_desktops=resolved.desktops,
        origins=[origin(policy.url), *origins],
        sockets=sockets,
        control=address(sockets, "control"),
        engine={},
    )


@dataclass
class Scene:
    """A running proxy and its surroundings."""

    context: Context
    sockets: Path
    clock: Shifted
    proxy: ProxyServer
    broker: Broker
    workers: list[Worker] = field(default_factory=list)
    server: ModelServer = field(init=False)
    """The scripted server; not there before another one."""

    def worker(self) -> Worker:
        """One more worker, connected."""
        self.workers.append(Worker(self.context.client("policy", address(self.sockets, "policy"))))
        return self.workers[-1]

    @property
    def beats(self) -> list[ProxyBeat]:
        """All that were heard."""
        return self.broker.beats

    def beat(self, accept: Callable[[ProxyBeat], bool]) -> ProxyBeat:
        """The next beat of the proxy that `accept` takes."""
        return self.broker.beat(accept)


@contextmanager
def scene(
    server: ModelServer, policy: dict[str, Any] | None = None, origins: tuple[str, ...] = (), **settings: Any
) -> Iterator[Scene]:
    """A proxy before `server`, and after it a look that the key was in no message. The server ends with it."""
    try:
        with proxy_before(server.url, policy, origins, **settings) as here:
            here.server = server
            yield here
    finally:
        server.let_go()
        server.stop()


@contextmanager
def proxy_before(
    url: str,
    policy: dict[str, Any] | None = None,
    origins: tuple[str, ...] = (),
    first: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[Scene]:
    """A proxy before the server at `url`, which knows run `r`, and after it a look that the key was in no message.

    `first` are further fields of the first order.
    """
    config = PolicyConfig(url, "m", **{"version": "v7", "api_key": KEY, **(policy or {})})
    clock, quit_ = Shifted(), Quit()

    def open_pool(there: str, threads: int, bell: Bell) -> Pool:
        return Pool(threads, lambda: Upstream(config.model_copy(update={"url": there}), SYSTEM_CLOCK), clock, bell)

    with tempfile.TemporaryDirectory(prefix="lr") as folder, Context() as context:
        sockets = Path(folder)
        orders = context.server("orders", address(sockets, "orders"))
        calls = context.server("policy", address(sockets, "policy"))
        beats = context.client("orders", address(sockets, "orders"))
        proxy = ProxyServer(service_file(config, sockets, origins, **settings), calls, beats, open_pool, clock)
        thread = Thread(target=proxy.run, args=(quit_,), daemon=True)
        thread.start()
        broker = Broker(orders, [run_policy(step_timeout=config.step_timeout, retries=config.retries)])
        here = Scene(context, sockets, clock, proxy, broker)
        try:
            broker.beat()
            broker.order(max_inflight=settings.get("max_inflight"), **(first or {}))
            yield here
        finally:
            quit_.ask()
            thread.join(WAIT_S)
            proxy.close()
            for socket in (orders, calls, beats, *(worker.socket for worker in here.workers)):
                socket.close()
        assert not thread.is_alive()
        assert KEY not in repr([worker.seen for worker in here.workers]) + repr(here.beats)
