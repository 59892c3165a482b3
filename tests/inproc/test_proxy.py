"""Does the proxy's shell answer, wait, abort and survive, over real sockets and real HTTP?"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from io import BytesIO

import pytest
from model_server import ModelServer, completion
from PIL import Image
from proxy_scene import KEY, PARAMS, Scene, picture, proxy_before, scene, text

from legato_rl.broker.proxy.core import SILENCE_S
from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.fake.server import FakePolicyServer
from legato_rl.prompt_ids import rebuild
from legato_rl.wire import CallGone, CallNeeds, CallPending, CallReply, Refused, StatusAsk


def screen(shade: int) -> bytes:
    """A real PNG, unlike any of another shade."""
    png = BytesIO()
    Image.new("RGB", (64 + 32 * shade, 64), (shade, 0, 0)).save(png, "PNG")
    return png.getvalue()


@pytest.fixture
def here() -> Iterator[Scene]:
    """A proxy with two desktops before a server that answers everything."""
    with scene(ModelServer(), desktops=2) as found:
        yield found


def test_a_call_is_answered_with_what_was_sent_and_what_came(here: Scene) -> None:
    """The reply holds the server's ids, the body less its messages, and the hash of the body with images by name."""
    worker, png = here.worker(), b"\x89PNG one"
    messages = (text("system"), picture(png))
    worker.ask(messages=messages, blobs=(png, *messages))
    reply = worker.hear(CallReply)
    assert (reply.response.token_ids, reply.response.logprobs) == ([7, 8], [-0.5, -0.5])
    assert reply.params == {**PARAMS, "model": "m"}
    assert (reply.model.version, reply.model.attempts) == ("v7", 1)
    body = {**reply.params, "messages": [json.loads(message) for message in messages]}
    assert reply.body_sha256 == sha256_hex(canonical_json(body))
    sent = here.server.bodies[0]
    assert {name: value for name, value in sent.items() if name != "messages"} == reply.params
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    assert sent["messages"][1]["content"][0]["image_url"]["url"] == url
    assert here.server.headers[0]["X-Session-ID"] == "r:g:0:0"
    assert here.server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_a_repeat_gets_the_same_answer_without_a_second_request(here: Scene) -> None:
    """The reply is kept until the next step: a lost one is given again."""
    worker = here.worker()
    worker.ask()
    first = worker.hear(CallReply)
    worker.ask(blobs=())
    assert worker.hear(CallReply) == first
    assert len(here.server.bodies) == 1


def test_what_is_missing_is_asked_for_and_then_answered(here: Scene) -> None:
    """Messages first, then the images that they name."""
    worker, png = here.worker(), b"\x89PNG one"
    message = picture(png)
    worker.ask(messages=(message,), blobs=())
    assert worker.hear(CallNeeds).hashes == [sha256_hex(message)]
    worker.ask(messages=(message,), blobs=(message,))
    assert worker.hear(CallNeeds).hashes == [sha256_hex(png)]
    worker.ask(messages=(message,), blobs=(png,))
    worker.hear(CallReply)


def test_the_next_step_sends_its_new_message_alone_and_tells_its_prompt_as_a_difference() -> None:
    """Ids come as keep and add against the step before, and give back the server's prompt ids."""
    prompts = [[1, 2, 99, 99, 3], [1, 2, 99, 99, 3, 7, 8, 4]]
    server = ModelServer(lambda body: (200, completion(prompt=prompts[len(body["messages"]) - 1])))
    with scene(server) as here:
        worker, png = here.worker(), b"\x89PNG one"
        first, second = picture(png), text("next")
        worker.ask(messages=(first,), blobs=(png, first))
        one = worker.hear(CallReply).prompt
        worker.ask(step=1, digest="e", messages=(first, second), blobs=(second,))
        two = worker.hear(CallReply).prompt
        assert one is not None
        assert two is not None
        assert (one.keep, one.add, one.images) == (0, [1, 2, 99, 3], [(2, 2, sha256_hex(png))])
        assert (two.keep, two.add) == (7, [4])
        assert rebuild([*rebuild([], one), 7, 8], two) == prompts[1]


def test_a_prompt_after_an_answer_that_the_worker_never_used_is_told_whole() -> None:
    """The worker has [7, 9] of a proxy that is gone; this one sampled [7, 8] for its repeat, as the next prompt has it."""
    prompts = [[1, 2], [1, 2, 7, 8, 4]]
    server = ModelServer(lambda body: (200, completion(prompt=prompts[len(body["messages"]) - 1])))
    with scene(server) as here:
        worker = here.worker()
        worker.ask()
        lost = worker.hear(CallReply)
        response = lost.response.model_copy(update={"token_ids": [7, 9]})
        recorded = lost.model_copy(update={"response": response})
        worker.ask(step=1, digest="e", messages=(text("hi"), text("next")), previous=recorded.ids_hash())
        two = worker.hear(CallReply).prompt
        assert two is not None
        assert (two.keep, rebuild([*prompts[0], 7, 9], two)) == (0, prompts[1])


def test_a_cancel_closes_the_connection_and_is_answered_gone_each_time(here: Scene) -> None:
    """The server sees the hang-up at once; a repeated cancel is answered alike."""
    worker = here.worker()
    here.server.hold()
    call = worker.ask()
    here.server.wait_request()
    worker.cancel(call)
    assert worker.hear(CallGone).call == call
    assert here.server.hung_up.wait(20)
    worker.cancel(call)
    assert worker.hear(CallGone).call == call


def test_another_digest_aborts_and_gets_its_own_answer(here: Scene) -> None:
    """No reply is ever given to another prompt."""
    here.server.script = lambda body: (200, completion(text=body["messages"][0]["content"]))
    worker = here.worker()
    here.server.hold()
    worker.ask(digest="one", messages=(text("one"),))
    here.server.wait_request()
    second = worker.ask(digest="two", messages=(text("two"),))
    assert here.server.hung_up.wait(20)
    here.server.let_go()
    reply = worker.hear(CallReply)
    assert (reply.call, reply.response.content) == (second, "two")


def test_a_call_that_nobody_repeats_is_aborted(here: Scene) -> None:
    """After ten seconds of silence the server sees the hang-up; who then asks again is answered."""
    worker = here.worker()
    here.server.hold()
    worker.ask()
    here.server.wait_request()
    here.clock.ahead += SILENCE_S
    assert here.server.hung_up.wait(20)
    here.server.let_go()
    worker.hear(CallReply)


def test_max_inflight_holds_over_all_desktops() -> None:
    """Five workers, two slots: never more than two at the server, the others say that they are queued."""
    with scene(ModelServer(), desktops=5, max_inflight=2) as here:
        workers = [here.worker() for _ in range(5)]
        here.server.hold()
        for n, worker in enumerate(workers):
            worker.ask(rollout=f"r:g:{n}:0")
        here.server.wait_request(2)
        states = sorted(worker.hear(CallPending).state for worker in workers)
        assert states == ["queued"] * 3 + ["running"] * 2
        here.server.let_go()
        for worker in workers:
            worker.hear(CallReply)
        assert here.server.most == 2


def test_what_cannot_be_taken_is_refused_and_takes_nothing_down(here: Scene) -> None:
    """A bad blob, a bad header, a message for somebody else: one sentence each, and the proxy goes on."""
    worker = here.worker()
    call = worker.ask(rollout="r\nX: y")
    refused = worker.hear(Refused)
    assert (refused.about, refused.of, refused.again) == ("CallAsk", str(call), False), "its sender can tell it from others"
    assert "call.rollout" in refused.reason
    worker.ask(blobs=(b"{}",), messages=(text("a"),))
    worker.hear(CallNeeds)
    worker.socket.send(StatusAsk(id="x"))
    assert "StatusAsk" in worker.hear(Refused).reason
    assert here.proxy.faults.total == 2
    worker.ask(rollout="r:g:9:0")
    worker.hear(CallReply)


def test_a_rollout_on_the_bundled_server_tells_all_its_prompts() -> None:
    """Five steps that grow and then fold: each record gives back ids that have the hash of the server's own."""
    with FakePolicyServer() as url, proxy_before(url) as here:
        worker = here.worker()
        pngs = [screen(n) for n in range(5)]
        shots = [picture(png) for png in pngs]
        ids: list[int] = []
        for step, shot in enumerate(shots):
            prompt = (text("system"), *shots[max(0, step - 2) : step + 1])
            worker.ask(step=step, digest=str(step), messages=prompt, blobs=(pngs[step], shot, prompt[0]))
            reply = worker.hear(CallReply)
            assert reply.prompt is not None
            assert reply.response.token_ids is not None
            assert len(reply.prompt.images) == len(prompt) - 1
            assert (reply.prompt.keep > 0) == (step > 0)
            ids = rebuild(ids, reply.prompt) + reply.response.token_ids


def test_beats_come_without_being_asked(here: Scene) -> None:
    """The broker hears how the server is, and what is at it."""
    here.server.hold()
    here.worker().ask()
    beat = here.beat(lambda beat: beat.running == 1)
    assert (beat.state, beat.queued, beat.gave_up) == ("up", 0, False)
