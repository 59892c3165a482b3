"""How do tests talk to the bundled policy server? Start it, ask it, look at its gauges, and wait without sleeping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests

from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer

HELLO = [{"role": "user", "content": "Hello"}]


@contextmanager
def serving(**config: Any) -> Iterator[tuple[FakePolicyServer, str]]:
    """A running server and its base URL."""
    server = FakePolicyServer(FakePolicyConfig(**config))
    with server as url:
        yield server, url


def post(url: str, messages: Any = HELLO, session: Any = requests, **fields: Any) -> requests.Response:
    """One chat request."""
    answer: requests.Response = session.post(f"{url}/chat/completions", json={"messages": messages, **fields}, timeout=20)
    return answer


def ask(url: str, *args: Any, **fields: Any) -> Any:
    """The answer to a chat request that is right."""
    answer = post(url, *args, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def gauge(url: str, name: str) -> float:
    """A value of /metrics."""
    text = requests.get(url.removesuffix("/v1") + "/metrics", timeout=20).text
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"vllm:{name}{{"))


def until(true: Callable[[], bool]) -> None:
    """Ask again, over HTTP or another wait, until it is true."""
    for _ in range(2000):
        if true():
            return
    raise AssertionError("it never came true")
