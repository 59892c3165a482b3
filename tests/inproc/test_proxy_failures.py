"""What does the proxy's shell do about a server that is full, slow, broken or gone?"""

from __future__ import annotations

import pytest
from bad.policy_server import BadServer, answer, half_an_answer
from model_server import Answer, Body, ModelServer, completion
from proxy_scene import KEY, proxy_before, scene, text

from legato_rl.wire import CallFailed, CallPending, CallReply

FULL = (503, {"error": {"message": "queue full", "type": "Service Unavailable"}})
BROKEN = (500, {"error": {"message": "boom", "type": "InternalServerError"}})


def test_a_full_queue_lets_others_go_on_and_spends_no_retry() -> None:
    """503 beside a healthy /health: asked again until there is room."""
    refusals = iter([FULL, FULL])

    def script(body: Body) -> Answer:
        busy = body["messages"][0]["content"] == "busy"
        return next(refusals, (200, completion())) if busy else (200, completion())

    with scene(ModelServer(script), {"retries": 0}, desktops=1) as here:
        one, two = here.worker(), here.worker()
        one.ask(messages=(text("busy"),))
        here.server.wait_request()
        two.ask(rollout="r:g:1:0")
        two.hear(CallReply)
        reply = one.hear(CallReply)
        assert reply.model.attempts == 3
        assert reply.model.queued_s >= 1.5


def test_an_order_that_cannot_be_carried_out_costs_its_call_alone() -> None:
    """A fault of the proxy's own: the call fails by name, its slot is free again, and what waits behind it goes on."""
    with scene(ModelServer(), {"retries": 0}, desktops=3, max_inflight=1) as here:
        first, broken, behind = (here.worker() for _ in range(3))
        here.server.hold()
        first.ask(rollout="r:g:0:0")
        here.server.wait_request()
        broken.ask(rollout="r:g:1:0")
        broken.hear(CallPending)
        behind.ask(rollout="r:g:2:0", messages=(text("behind"),))
        behind.hear(CallPending)
        here.proxy._fragments.forget("r:g:1:0")  # its prompt is lost: there is nothing to send
        here.server.let_go()
        first.hear(CallReply)
        assert broken.hear(CallFailed).type == "proxy_fault"
        behind.hear(CallReply)
        assert here.proxy.faults.total == 1


@pytest.mark.parametrize("retries", [0, 1])
def test_a_call_that_a_healthy_server_cuts_spends_a_retry(retries: int) -> None:
    """A gateway that cuts every long answer would else be asked for ever."""
    with (
        BadServer([half_an_answer], {"/health": answer(200, b"")}) as server,
        proxy_before(server.url, {"retries": retries}) as here,
    ):
        worker = here.worker()
        worker.ask()
        failed = worker.hear(CallFailed)
        assert failed.type == "cut"
        assert len(server.posts()) == retries + 1
        assert {beat.state for beat in here.beats} <= {"up"}


def test_a_server_that_goes_down_is_waited_for() -> None:
    """Refused connections: the proxy says so, asks again when it is back, and spends no retry."""
    with scene(ModelServer(), {"retries": 0}) as here:
        worker = here.worker()
        here.server.stop()
        worker.ask()
        beat = here.beat(lambda beat: beat.state == "down")
        assert "refuse" in beat.message.lower()
        worker.ask()
        assert worker.hear(CallPending, lambda pending: pending.state == "down").running_s < 5
        here.server.start()
        assert here.beat(lambda beat: beat.state == "up").message == ""
        assert worker.hear(CallReply).model.attempts >= 2


def test_a_connection_cut_in_the_middle_is_no_answer_and_no_retry() -> None:
    """A server that dies under a call and comes back answers that call after all."""
    with scene(ModelServer(), {"retries": 0}) as here:
        worker = here.worker()
        here.server.hold()
        worker.ask()
        here.server.wait_request()
        here.server.stop()
        here.beat(lambda beat: beat.state == "down")
        here.server.let_go()
        here.server.start()
        worker.hear(CallReply)


def test_a_server_that_stays_down_is_given_up() -> None:
    """After --server-wait the beat says so; the call itself stays, for a run that is resumed or not."""
    with scene(ModelServer(), {"server_wait": 0.5}) as here:
        here.server.stop()
        here.worker().ask()
        assert here.beat(lambda beat: beat.gave_up).state == "down"


@pytest.mark.parametrize("retries", [0, 1])
def test_failures_of_a_healthy_server_spend_retries(retries: int) -> None:
    """--retries 1 is two attempts, then the cause is told."""
    with scene(ModelServer(lambda body: BROKEN), {"retries": retries}) as here:
        worker = here.worker()
        worker.ask()
        failed = worker.hear(CallFailed)
        assert failed.type == "server_error"
        assert len(here.server.bodies) == retries + 1


def test_an_attempt_that_takes_too_long_is_ended_and_counts_as_a_retry() -> None:
    """--step-timeout bounds one attempt."""
    with scene(ModelServer(), {"retries": 0, "step_timeout": 0.3}) as here:
        worker = here.worker()
        here.server.hold()
        worker.ask()
        assert worker.hear(CallFailed).type == "timeout"
        assert here.server.hung_up.wait(20)


def test_a_rollout_out_of_time_has_its_running_call_ended() -> None:
    """The call fails with the rollout's time-out, and the server sees the hang-up."""
    with scene(ModelServer()) as here:
        worker = here.worker()
        here.server.hold()
        worker.ask(deadline_s=0.3)
        assert worker.hear(CallFailed).type == "rollout_timeout"
        assert here.server.hung_up.wait(20)


def test_a_server_that_refuses_ids_is_asked_without_and_remembered() -> None:
    """Logprobs and tokens alone are kept then; later calls do not ask for ids again."""

    def script(body: Body) -> Answer:
        if "return_token_ids" in body:
            return 400, {"object": "error", "message": "return_token_ids: Extra inputs are not permitted", "code": 400}
        answer = completion()
        del answer["choices"][0]["token_ids"], answer["prompt_token_ids"]
        return 200, answer

    with scene(ModelServer(script)) as here:
        worker = here.worker()
        worker.ask()
        reply = worker.hear(CallReply)
        assert (reply.prompt, reply.response.token_ids, reply.response.tokens) == (None, None, ["t7", "t8"])
        assert "return_token_ids" not in reply.params
        worker.ask(step=1, digest="e")
        worker.hear(CallReply)
        assert ["return_token_ids" in body for body in here.server.bodies] == [True, False, False]


def test_a_key_refused_in_mid_run_fails_no_attempt_and_is_not_told() -> None:
    """A 401 would meet every call: the server counts as down. One that quotes the key back is not passed on."""
    with scene(ModelServer(lambda body: (401, {"error": f"bad key {KEY}"})), {"server_wait": 0.0}) as here:
        worker = here.worker()
        worker.ask()
        beat = here.beat(lambda beat: beat.gave_up)
        assert "refuses the key" in beat.message
        assert KEY not in beat.message
        assert not any(isinstance(message, CallFailed) for message in worker.seen)
