"""Does a call end in time, and with the right verdict, whatever the server does? Over real sockets."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bad.policy_server import BadServer, Habit, answer, drip, half_an_answer, hang_up, silent
from captures_reader import answer_body, capture

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import PolicyConfig
from legato_rl.errors import ConfigError
from legato_rl.policy.line import Line, LineBroken
from legato_rl.policy.upstream import Upstream, UpstreamError
from legato_rl.policy.verdicts import Action, Break, Verdict

KEY = "sk-very-secret"
GOOD = answer(200, answer_body("c3_token_ids_1_image"))
IDS = [128492, 8763, 113914, 19009]
HEALTHY = {"/health": answer(200, b"")}
LONG_S = 60.0
"""Seconds that no test needs."""
SHORT_S = 0.25
"""Seconds that a server is waited for that will not answer."""


def upstream(server: BadServer, key: str | None = KEY) -> Upstream:
    return Upstream(PolicyConfig(server.url, "m", api_key=key))


def verdict(calls: Upstream, timeout_s: float = LONG_S, token: object = None) -> Verdict:
    """The verdict on a call that must fail."""
    with pytest.raises(UpstreamError) as caught:
        calls.post_chat(b"{}", timeout_s, "run:g:0:0", token)
    return caught.value.verdict


def test_a_completion_over_one_kept_connection() -> None:
    """Calls share a connection, carry the key and the rollout, and bring the server's ids."""
    with BadServer([GOOD]) as server:
        calls = upstream(server)
        found = [calls.post_chat(b'{"a":1}', LONG_S, "run:g:0:0").token_ids for _ in range(3)]
    assert found == [IDS] * 3
    assert server.connections == 1
    asked = server.posts()[0]
    assert (asked.path, asked.body) == ("/v1/chat/completions", b'{"a":1}')
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["x-session-id"] == "run:g:0:0"
    assert asked.headers["content-type"] == "application/json"


def test_no_key_no_header() -> None:
    """A server without a key is asked without one."""
    with BadServer([GOOD]) as server:
        upstream(server, key=None).post_chat(b"{}", LONG_S, "s")
    assert "authorization" not in server.posts()[0].headers


def test_environment_proxies_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine's environment never sees a prompt."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with BadServer([GOOD]) as server:
        assert upstream(server).post_chat(b"{}", LONG_S, "s").token_ids == IDS


def test_a_closed_idle_connection_costs_nothing() -> None:
    """As recorded: a kept connection that is closed before any byte is asked again at once, on a new one."""
    recorded = capture("x2_idle_keep_alive")["rows"][-1]["second_request"]
    assert "closed connection without response" in recorded
    with BadServer([GOOD, hang_up, GOOD]) as server:
        calls = upstream(server)
        calls.post_chat(b"{}", LONG_S, "s")
        assert verdict(calls).action is Action.RETRY_FRESH
        assert calls.post_chat(b"{}", LONG_S, "s").token_ids == IDS
    assert server.connections == 2


@pytest.mark.parametrize("habit", [hang_up, half_an_answer])
def test_a_cut_connection_is_a_server_that_is_down(habit: Habit) -> None:
    """A new connection that ends without a whole answer is no idle one; /health tells whether the server is gone with it."""
    for health, action in ((answer(503, {}), Action.DOWN), (answer(200, {}), Action.RETRY)):
        with BadServer([habit], gets={"/health": health}) as server:
            calls = upstream(server)
            assert [verdict(calls).type for _ in range(2)] == ["cut", "cut"]
            assert verdict(calls).action is action


def test_half_an_answer_on_a_kept_connection_is_cut() -> None:
    """Only a connection that brought no byte was idle."""
    with BadServer([GOOD, half_an_answer]) as server:
        calls = upstream(server)
        calls.post_chat(b"{}", LONG_S, "s")
        assert verdict(calls).type == "cut"


def test_refused() -> None:
    """Nobody listens: the server is down."""
    with BadServer([GOOD]) as server:
        pass
    found = verdict(upstream(server))
    assert (found.action, found.type) == (Action.DOWN, "refused")
    assert "connection refused" in found.message


DRIPS = {
    "silent": silent,
    "in the status": drip(b"HTTP/1.1 200 O"),
    "in a header": drip(b"HTTP/1.1 200 OK\r\nX-Long: "),
    "in the body": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"),
}


@pytest.mark.parametrize("where", DRIPS)
def test_the_time_of_a_call_is_bounded_as_a_whole(where: str) -> None:
    """A server that falls silent, or drips, is left in time; it sees the connection close."""
    with BadServer([DRIPS[where]], HEALTHY) as server:
        began = SYSTEM_CLOCK.monotonic()
        found = verdict(upstream(server), SHORT_S)
        took = SYSTEM_CLOCK.monotonic() - began
        assert server.hung_up.wait(LONG_S)
    assert (found.action, found.type) == (Action.RETRY, "timeout")
    assert SHORT_S <= took < LONG_S


def test_a_body_that_nobody_reads_is_bounded() -> None:
    """Sending has no more time than reading."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1/chat/completions"
        with pytest.raises(LineBroken) as caught:
            Line(SYSTEM_CLOCK).call("POST", url, {}, bytes(2**25), SHORT_S, None)
    assert caught.value.broken is Break.TIMEOUT


@pytest.mark.parametrize("health", [answer(503, b""), hang_up])
def test_silence_beside_a_failing_health_is_a_server_that_is_down(health: Habit) -> None:
    """As recorded on SIGTERM: sockets stay open without a byte while /health is gone."""
    assert capture("x3b_sigterm_hang")["results"]["full"]["bytes"] == 0
    with BadServer([silent], {"/health": health}) as server:
        assert verdict(upstream(server), SHORT_S).type == "silent"


ENGINE = {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}}


@pytest.mark.parametrize(
    ("code", "health", "action"),
    [
        (503, answer(200, b""), Action.BACK_OFF),
        (503, answer(503, b""), Action.DOWN),
        (500, answer(200, b""), Action.RETRY),
        (500, hang_up, Action.DOWN),
    ],
)
def test_a_server_error_is_judged_by_health(code: int, health: Habit, action: Action) -> None:
    """A full queue, a failure, and a dying engine differ in what /health says."""
    with BadServer([answer(code, ENGINE)], {"/health": health}) as server:
        assert verdict(upstream(server)).action is action


def test_an_aborted_answer_is_a_server_that_is_down() -> None:
    """A 200 with `finish_reason: "abort"` brings nothing and spends nothing."""
    with BadServer([answer(200, capture("f5_abort_by_id_dev")["answer"])]) as server:
        found = verdict(upstream(server))
    assert (found.action, found.type) == (Action.DOWN, "aborted")


@pytest.mark.parametrize(("body", "type"), [({"choices": 1}, "bad_answer"), ("no JSON", "bad_answer")])
def test_an_answer_of_the_wrong_type_fails(body: Any, type: str) -> None:
    """It was answered, so it is not asked again."""
    with BadServer([answer(200, body)]) as server:
        found = verdict(upstream(server))
    assert (found.action, found.type) == (Action.FAIL, type)


def test_redirects_are_not_followed() -> None:
    """The key and the prompt go to the configured origin alone."""
    with BadServer([GOOD]) as other, BadServer([answer(307, b"", Location=other.url)]) as server:
        assert verdict(upstream(server)).type == "redirected"
        assert other.asked == []


def test_a_quoted_key_is_not_passed_on() -> None:
    """Some servers quote the key that they refuse."""
    with BadServer([answer(401, {"error": {"message": f"Incorrect API key: {KEY}"}})]) as server:
        found = verdict(upstream(server))
    assert found.type == "key_refused"
    assert KEY not in found.message


def test_an_abort_from_another_thread_ends_the_call_at_once() -> None:
    """The call raises, the server sees the close, and neither the same abort again nor another's hits the next call."""
    with BadServer([GOOD, silent, GOOD]) as server, ThreadPoolExecutor(1) as thread:
        calls = upstream(server)
        calls.post_chat(b"{}", LONG_S, "s", token=1)
        running = thread.submit(verdict, calls, LONG_S, 2)
        assert server.waiting.wait(LONG_S)
        calls.abort(1)
        assert not running.done()
        calls.abort(2)
        assert running.result(LONG_S).action is Action.CANCELLED
        assert server.hung_up.wait(LONG_S)
        calls.abort(2)
        assert calls.post_chat(b"{}", LONG_S, "s", token=3).token_ids == IDS


def test_an_abort_before_the_call_began() -> None:
    """A call that was aborted on its way to the thread is not sent; the next one is."""
    with BadServer([GOOD]) as server:
        calls = upstream(server)
        calls.abort(1)
        assert verdict(calls, LONG_S, 1).action is Action.CANCELLED
        assert calls.post_chat(b"{}", LONG_S, "s", token=2).token_ids == IDS
    assert len(server.posts()) == 1


@pytest.mark.parametrize(
    ("gets", "alive"),
    [
        (HEALTHY, True),
        ({"/health": answer(401, b"")}, True),
        ({"/health": answer(503, b"")}, False),
        ({"/health": hang_up}, False),
        ({"/health": silent}, False),
        ({"/v1/models": answer(200, b"{}")}, True),
        ({"/v1/models": answer(500, b"")}, False),
    ],
)
def test_health(gets: dict[str, Habit], alive: bool) -> None:
    """A server without /health is judged by its list of models."""
    with BadServer([GOOD], gets) as server:
        assert upstream(server).health(LONG_S if alive else SHORT_S) is alive


def test_health_is_asked_while_a_call_runs() -> None:
    """It has a connection of its own."""
    with BadServer([silent], HEALTHY) as server, ThreadPoolExecutor(1) as thread:
        calls = upstream(server)
        running = thread.submit(verdict, calls, LONG_S, 1)
        assert server.waiting.wait(LONG_S)
        assert calls.health(LONG_S)
        calls.abort(1)
        assert running.result(LONG_S).action is Action.CANCELLED


@pytest.mark.parametrize("key", ["two words", "line\n", "naïve"])
def test_a_key_that_no_header_carries(key: str) -> None:
    """It is refused before it is sent, and not quoted."""
    with pytest.raises(ConfigError, match="LEGATO_POLICY_KEY") as caught:
        Upstream(PolicyConfig("http://127.0.0.1:9/v1", "m", api_key=key))
    assert key not in str(caught.value)


def test_fake_stands_for_no_server_yet() -> None:
    """Whoever starts the bundled server gives its URL."""
    with pytest.raises(ConfigError, match="fake"):
        Upstream(PolicyConfig("fake", "m"))


def test_large_bodies_arrive_whole() -> None:
    """A prompt of screenshots goes out as it was joined."""
    body = json.dumps({"x": "y" * 2**22}).encode()
    with BadServer([GOOD]) as server:
        upstream(server).post_chat(body, LONG_S, "s")
    assert server.posts()[0].body == body
