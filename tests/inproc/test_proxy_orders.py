"""Does the proxy do what the broker orders, over real sockets and real HTTP?"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest
from model_server import Answer, Body, ModelServer, completion
from proxy_scene import Scene, proxy_before, run_policy, scene

from legato_rl.service import origin
from legato_rl.wire import CallPending, CallReply


@pytest.fixture
def here() -> Iterator[Scene]:
    """A proxy with three desktops, one call at once, before a server that answers everything."""
    with scene(ModelServer(), desktops=3, max_inflight=1) as found:
        yield found


def test_a_call_of_a_run_that_is_not_known_waits_and_then_asks_for_its_policy(here: Scene) -> None:
    """The run is a minute old and the proxy has not heard of it: queued, then its own model and version."""
    worker = here.worker()
    worker.ask(rollout="new:g:0:0", policy=1)
    assert worker.hear(CallPending).state == "queued"
    here.broker.policies.append(run_policy("new", ("base", "1"), ("lora", "2")))
    here.broker.order()
    reply = worker.hear(CallReply)
    assert (reply.params["model"], reply.model.version) == ("lora", "2")
    assert here.server.bodies[0]["model"] == "lora"


def test_a_pause_that_aborts_and_a_new_policy(here: Scene) -> None:
    """The server sees the hang-up; after the resume the call asks for the new policy, and its abort counts nowhere."""
    worker = here.worker()
    here.server.hold()
    worker.ask()
    here.server.wait_request()
    here.broker.push(pause="abort")
    assert here.server.hung_up.wait(20)
    beat = here.beat(lambda beat: beat.state == "paused" and beat.running == 0)
    assert beat.order == here.broker.number
    worker.ask()
    assert worker.hear(CallPending, lambda pending: pending.state == "paused").running_s == 0.0
    here.server.let_go()
    here.broker.policies = [run_policy("r", ("m2", "v8"))]
    here.broker.order(pause="abort")
    assert len(here.server.bodies) == 1
    assert here.broker.order().state == "up"
    reply = worker.hear(CallReply)
    assert (reply.params["model"], reply.model.version, reply.model.attempts) == ("m2", "v8", 1)
    assert [body["model"] for body in here.server.bodies] == ["m", "m2"]


def test_a_pause_that_waits(here: Scene) -> None:
    """What is in the air is answered, nothing more leaves, and the beat says when all is still."""
    first, second = here.worker(), here.worker()
    here.server.hold()
    first.ask()
    here.server.wait_request()
    second.ask(rollout="r:g:1:0")
    beat = here.broker.order(pause="wait")
    assert (beat.state, beat.running, beat.queued) == ("paused", 1, 1)
    here.server.let_go()
    assert first.hear(CallReply).model.version == "v7"
    here.beat(lambda beat: beat.running == 0)
    second.ask(rollout="r:g:1:0")
    second.hear(CallPending, lambda pending: pending.state == "paused")
    assert len(here.server.bodies) == 1
    here.broker.order()
    second.hear(CallReply)


def test_more_calls_at_once_than_the_proxy_began_with(here: Scene) -> None:
    """Two more leave at once; then one alone again. More than there are desktops is never needed."""
    workers = [here.worker() for _ in range(3)]
    here.server.hold()
    for n, worker in enumerate(workers):
        worker.ask(rollout=f"r:g:{n}:0")
    here.server.wait_request()
    here.broker.order(max_inflight=None)
    here.server.wait_request(2)
    here.broker.order(max_inflight=1)
    here.server.let_go()
    for worker in workers:
        worker.hear(CallReply)
    here.server.most = 0
    for n, worker in enumerate(workers):
        worker.ask(rollout=f"r:g:{n}:0", step=1, digest="e")
    for worker in workers:
        worker.hear(CallReply)
    assert here.server.most == 1


def test_an_order_that_could_not_be_carried_out_is_not_told_as_done(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no more threads: the beats tell the order before, until it has."""

    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        number = here.broker.push(max_inflight=3)
        here.beat(lambda _: here.proxy.faults.total > 0)
        heard = len(here.beats)
        here.beat(lambda _: len(here.beats) > heard + 2)
    assert {beat.order for beat in here.beats[heard:]} == {number - 1}
    assert here.broker.order(max_inflight=3).order == number + 1


def test_a_server_that_is_away_during_a_pause_is_paused_and_not_given_up() -> None:
    """Its trainer stops it and starts it anew; the beats say `paused` all along."""
    with scene(ModelServer(), {"server_wait": 0.5}) as here:
        worker = here.worker()
        here.server.stop()
        worker.ask()
        here.beat(lambda beat: beat.state == "down")
        here.broker.order(pause="abort")
        heard = len(here.beats)
        here.clock.ahead += 3600.0
        worker.ask()
        here.beat(lambda beat: len(here.beats) > heard + 2)
        assert {(beat.state, beat.gave_up) for beat in here.beats[heard:]} == {("paused", False)}
        here.server.start()
        here.broker.order()
        worker.ask()
        worker.hear(CallReply)


@pytest.fixture
def other() -> Iterator[ModelServer]:
    """Another server."""
    server = ModelServer()
    yield server
    server.let_go()
    server.stop()


@pytest.mark.parametrize("pause", ["wait", None])
def test_calls_go_to_another_server_once_all_is_still(other: ModelServer, pause: str | None) -> None:
    """Nothing more leaves, paused or not, before the last attempt at the old one has ended; the key goes along."""
    with scene(ModelServer(), origins=(origin(other.url),), max_inflight=1) as here:
        worker, behind = here.worker(), here.worker()
        here.server.hold()
        worker.ask()
        here.server.wait_request()
        behind.ask(rollout="r:g:1:0")
        behind.hear(CallPending)
        here.broker.policies = [run_policy("r", ("m", "v8"))]
        number = here.broker.push(url=other.url, pause=pause, max_inflight=1)
        beat = here.beat(lambda beat: beat.state == "paused")
        assert (beat.order < number, beat.message) == (True, "")
        here.server.let_go()
        assert worker.hear(CallReply).model.version == "v7"
        here.beat(lambda beat: beat.order == number)
        assert pause is None or other.bodies == []
        here.broker.order(url=other.url)
        assert behind.hear(CallReply).model.version == "v8"
        assert (len(here.server.bodies), len(other.bodies)) == (1, 1)
        assert other.headers[0]["Authorization"] == here.server.headers[0]["Authorization"]


def test_no_call_of_the_new_policy_goes_to_the_old_server(other: ModelServer) -> None:
    """A call waits for its run; the order that names the run names another server too, and is not paused."""
    server = ModelServer()
    with proxy_before(server.url, origins=(origin(other.url),), first={"policies": []}) as here:
        worker = here.worker()
        worker.ask()
        assert worker.hear(CallPending).state == "queued"
        here.broker.policies = [run_policy("r", ("m", "v8"))]
        here.broker.order(url=other.url)
        assert worker.hear(CallReply).model.version == "v8"
        assert (len(server.bodies), len(other.bodies)) == (0, 1)
    server.stop()


def test_a_proxy_that_has_just_started_takes_the_server_that_was_changed_to(other: ModelServer) -> None:
    """Its file names the one that the service began with; nothing is in the air, so no pause is needed."""
    server = ModelServer()
    with proxy_before(server.url, origins=(origin(other.url),), first={"url": other.url}) as here:
        worker = here.worker()
        worker.ask()
        worker.hear(CallReply)
        assert (len(server.bodies), len(other.bodies)) == (0, 1)
    server.stop()


@pytest.mark.parametrize("url", ["{other}", "http://127.0.0.1:1/v1", "ftp://127.0.0.1/v1", "http://127.0.0.1:x/v1"])
def test_the_key_goes_to_no_origin_that_is_not_allowed(here: Scene, other: ModelServer, url: str) -> None:
    """The order is refused whole, the beat says why, and calls go on where they went."""
    here.broker.push(url=url.format(other=other.url), pause="abort")
    beat = here.beat(lambda beat: beat.message != "")
    assert "url" in beat.message
    assert (beat.state, beat.order) == ("up", here.broker.number - 1)
    worker = here.worker()
    worker.ask()
    worker.hear(CallReply)
    assert other.headers == []
    assert here.broker.order().message == ""


def test_an_order_for_another_process_changes_nothing(here: Scene) -> None:
    """It was meant for the proxy before."""
    here.broker.push(boot="other", pause="abort", leave=True)
    worker = here.worker()
    worker.ask()
    worker.hear(CallReply)


def test_a_model_that_is_not_loaded_holds_up_the_run_that_names_it_alone() -> None:
    """The broker hears of whom, in the server's words; the other run's calls are answered, and this one's when it is loaded."""
    loaded = {"m"}

    def script(body: Body) -> Answer:
        missing = {"error": {"message": f"The model `{body['model']}` does not exist.", "type": "NotFoundError", "code": 404}}
        return (200, completion()) if body["model"] in loaded else (404, missing)

    with scene(ModelServer(script), {"retries": 0}, desktops=2) as here:
        here.broker.policies.append(run_policy("new", ("lora", "2"), retries=0))
        here.broker.order()
        waits, other = here.worker(), here.worker()
        waits.ask(rollout="new:g:0:0")
        (told,) = here.beat(lambda beat: bool(beat.without_model)).without_model
        assert (told.run, told.gave_up) == ("new", False)
        assert told.message.startswith("model 'lora': the server does not know the model (HTTP 404, 'The model `lora` does not")
        other.ask()
        other.hear(CallReply)
        loaded.add("lora")
        assert waits.hear(CallReply).params["model"] == "lora"
        assert here.beat(lambda beat: not beat.without_model).state == "up"
        assert {beat.state for beat in here.beats} == {"up"}
