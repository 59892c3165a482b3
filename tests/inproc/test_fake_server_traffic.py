"""Does the bundled policy server treat keys, errors, queues and hang-ups as a model server does, over real HTTP?"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from fake_play import image_part
from fake_server import HELLO, ask, gauge, post, serving, until
from PIL import Image
from pydantic import SecretStr

from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer


@pytest.mark.parametrize(
    ("fields", "status", "type_", "param"),
    [
        ({"model": "other"}, 404, "NotFoundError", "model"),
        ({"messages": []}, 400, "BadRequestError", None),
        ({"messages": "x"}, 400, "Bad Request", "body.messages"),
        ({"messages": [{}]}, 400, "Bad Request", None),
        ({"messages": [{"role": "user", "content": {}}]}, 400, "Bad Request", None),
        ({"messages": [{"role": "user", "content": [{"type": "picture"}]}]}, 400, "BadRequestError", None),
        ({"messages": [{"role": "user", "content": [None]}]}, 400, "BadRequestError", None),
        ({"max_tokens": "many"}, 400, "Bad Request", "body.max_tokens"),
        ({"max_tokens": 0}, 400, "BadRequestError", "max_tokens"),
        ({"max_tokens": 10**9}, 400, "BadRequestError", "max_tokens"),
        ({"temperature": -1}, 400, "BadRequestError", "temperature"),
        ({"top_logprobs": 1}, 400, "BadRequestError", "top_logprobs"),
        ({"logit_bias": {"999999": 1}}, 400, "BadRequestError", "logit_bias"),
        ({"allowed_token_ids": []}, 400, "BadRequestError", "allowed_token_ids"),
        ({"allowed_token_ids": [-1]}, 400, "BadRequestError", "allowed_token_ids"),
        ({"stream": True}, 400, "BadRequestError", "stream"),
        ({"n": 2}, 400, "BadRequestError", "n"),
    ],
)
def test_errors_have_the_servers_shapes(fields: dict[str, Any], status: int, type_: str, param: str | None) -> None:
    """Status, type and param as vLLM's, nested; as SGLang's, flat."""
    for sglang in (False, True):
        with serving(model="fake", sglang=sglang) as (_, url):
            answer = post(url, **{"messages": HELLO, **fields}) if "messages" not in fields else post(url, **fields)
            body = answer.json() if sglang else answer.json()["error"]
            assert (answer.status_code, body["type"], body["param"], body["code"]) == (status, type_, param, status)
            assert body["message"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:image/png;base64,@@@", "base64"),
        ("data:image/png;base64,bm90IGEgcGljdHVyZQ==", "cannot identify image file"),
        (image_part(Image.new("RGB", (64, 64)))["image_url"]["url"][:-40] + "====", "Failed to load image"),
        ("http://127.0.0.1/x.png", "data URLs only"),
    ],
)
def test_bad_images_are_refused(url: str, words: str) -> None:
    """No base64, no image, a cut image, another scheme: 400 with a reason."""
    with serving(max_images=1) as (_, server):
        part = {"type": "image_url", "image_url": {"url": url}}
        answer = post(server, [{"role": "user", "content": [part]}])
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]
        answer = post(server, [{"role": "user", "content": [part, part]}])
        assert answer.json()["error"]["param"] == "image"


def test_the_key_guards_v1_alone() -> None:
    """Without it 401, whose error is a string; health and metrics stay open; the key shows nowhere."""
    config = FakePolicyConfig(api_key=SecretStr("s3cret"))
    assert "s3cret" not in repr(config) + config.model_dump_json()
    with FakePolicyServer(config) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
            answer = requests.get(f"{url}/models", headers=headers, timeout=20)
            assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
        assert post(url).status_code == 401
        right = {"Authorization": "Bearer s3cret"}
        assert requests.get(f"{url}/models", headers=right, timeout=20).json()["data"][0]["id"] == "fake"
        assert requests.get(url.removesuffix("/v1") + "/health", timeout=20).content == b""
        assert gauge(url, "num_requests_running") == 0


def test_paths_and_methods_have_their_errors() -> None:
    """An unknown path, a wrong method, a body that is no JSON."""
    with serving() as (_, url):
        root = url.removesuffix("/v1")
        assert requests.get(f"{root}/version", timeout=20).json()["version"]
        assert requests.post(f"{url}/nothing", json={}, timeout=20).json() == {"detail": "Not Found"}
        assert requests.get(f"{root}/nothing", timeout=20).status_code == 404
        assert requests.get(f"{url}/chat/completions", timeout=20).status_code == 405
        broken = requests.post(f"{url}/chat/completions", data=b'{"model": ', timeout=20)
        assert (broken.status_code, broken.json()["error"]["param"]) == (400, "body.10")


def test_bodies_may_come_in_chunks() -> None:
    """A chunked body is read like any other, and the connection goes on."""
    body = json.dumps({"messages": HELLO}).encode()
    with serving() as (_, url), requests.Session() as session:
        for _ in range(2):
            pieces = iter([body[:7], body[7:]])
            answer = session.post(f"{url}/chat/completions", data=pieces, timeout=20)
            assert answer.json()["object"] == "chat.completion"


def test_the_queue_is_bounded() -> None:
    """With one slot and one place to wait, the third request is answered 503 at once."""
    with serving(concurrency=1, max_queued=1, latency=60) as (server, url), ThreadPoolExecutor() as pool:
        held = [pool.submit(post, url), pool.submit(post, url)]
        until(lambda: gauge(url, "num_requests_running") == 1 and gauge(url, "num_requests_waiting") == 1)
        answer = post(url)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "Service Unavailable")
        server.close()
        assert all(isinstance(call.exception(), requests.ConnectionError) for call in held)


def test_all_are_served_in_the_end() -> None:
    """More clients than slots: each has its answer, and no slot is lost."""
    with serving(concurrency=2, latency=0.005, tail=1) as (_, url), ThreadPoolExecutor(12) as pool:
        answers = [call.result() for call in [pool.submit(ask, url, seed=seed) for seed in range(40)]]
        assert len({answer["id"] for answer in answers}) == 40
        assert (gauge(url, "num_requests_running"), gauge(url, "num_requests_waiting")) == (0, 0)


def raw_request(url: str) -> socket.socket:
    """A chat request on a bare socket, so that it can be hung up."""
    port = int(url.removesuffix("/v1").rpartition(":")[2])
    client = socket.create_connection(("127.0.0.1", port), 20)
    body = json.dumps({"messages": HELLO}).encode()
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return client


def test_hanging_up_frees_the_slot() -> None:
    """Both of a running and of a waiting request, while others go on."""
    with serving(concurrency=1, latency=60) as (_, url):
        running = raw_request(url)
        until(lambda: gauge(url, "num_requests_running") == 1)
        waiting = raw_request(url)
        until(lambda: gauge(url, "num_requests_waiting") == 1)
        waiting.close()
        until(lambda: gauge(url, "num_requests_waiting") == 0)
        assert gauge(url, "num_requests_running") == 1
        running.close()
        until(lambda: gauge(url, "num_requests_running") == 0)


def test_the_slot_goes_to_the_next_that_waits() -> None:
    """When the running client leaves, the waiting one runs."""
    with serving(concurrency=1, latency=60) as (_, url):
        first = raw_request(url)
        until(lambda: gauge(url, "num_requests_running") == 1)
        second = raw_request(url)
        until(lambda: gauge(url, "num_requests_waiting") == 1)
        first.close()
        until(lambda: gauge(url, "num_requests_waiting") == 0)
        assert gauge(url, "num_requests_running") == 1
        second.close()
        until(lambda: gauge(url, "num_requests_running") == 0)


def test_an_idle_connection_is_closed() -> None:
    """After `keep_alive` seconds the server hangs up without a word, as vLLM does."""
    with serving(keep_alive=0.05) as (_, url):
        port = int(url.removesuffix("/v1").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            assert client.recv(1) == b""


def test_requests_fail_at_the_rate_set() -> None:
    """Rate 1 fails every request with a 500 of the usual shape; the server stays healthy."""
    with serving(fail=1) as (_, url):
        answer = post(url)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, 500)
        assert requests.get(url.removesuffix("/v1") + "/health", timeout=20).status_code == 200
