"""Does a worker get its completions and hand over its rows, however the proxy and the sink answer? Real sockets."""

from __future__ import annotations

from scripted_desktop import READY, ScriptedDesktop
from worker_scene import KEY, reply, stage

from legato_rl.canonical import sha256_hex
from legato_rl.desktop import ActResult, DesktopFailure
from legato_rl.records import PromptRecord, RolloutKey, Status
from legato_rl.wire import BlobsNeeded, CallAsk, CallNeeds, CallPending, Refused

OTHER = RolloutKey(run="r1", group="g1", attempt=1, try_=0)


def test_a_call_is_asked_again_until_it_is_answered() -> None:
    """Without an answer, and while it is pending: the same id, without the blobs that were sent before."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        first, received = scene.call()
        assert [blob.type for blob in first.blobs] == ["image", "message"]
        assert [sha256_hex(data) for data in received.blobs] == [blob.sha256 for blob in first.blobs]
        pending = CallPending(call=first.call, state="queued", queued_s=1.0, running_s=0.0, down_s=0.0, paused_s=0.0)
        scene.tell(received, pending)
        second, received = scene.call()
        assert (second.call, second.messages, second.blobs) == (first.call, first.messages, [])
        scene.tell(received, CallNeeds(call=first.call, hashes=[first.blobs[0].sha256]))
        third, received = scene.call()
        assert (third.call, third.blobs) == (first.call, [first.blobs[0]])
        prompt = PromptRecord(keep=0, add=[1], images=[], sha256="a" * 64)
        answer = reply(third, "click").model_copy(update={"prompt": prompt})
        scene.tell(received, answer)
        later = scene.answer("DONE")
        assert (first.previous, later.previous) == ("", answer.ids_hash())
        assert (later.call.step, later.call.lease) == (1, first.call.lease)
        assert later.call.digest != first.call.digest
        assert later.messages[0] == first.messages[0]
        assert {blob.sha256 for blob in later.blobs}.isdisjoint(blob.sha256 for blob in first.blobs)
        scene.store()


def pending(ask: CallAsk, taken: str, running_s: float) -> CallPending:
    """The call is at the server."""
    waits = {"queued_s": 0.5, "down_s": 0.0, "paused_s": 0.0}
    return CallPending(call=ask.call, state="running", running_s=running_s, taken=taken, **waits)


def test_a_call_that_a_proxy_took_with_it_is_counted_and_gets_no_more_time() -> None:
    """Two proxies end with it: the third answers. What it ran before is taken off its time; the waits are added up."""
    with stage(ScriptedDesktop(), rollout_timeout=60.0) as scene:
        scene.give()
        deadlines = []
        for taken, running_s in (("a-1", 0.0), ("a-1", 7.0), ("b-1", 4.0)):
            ask, received = scene.call()
            deadlines.append(ask.deadline_s)
            scene.tell(received, pending(ask, taken, running_s))
        ask, received = scene.call()
        scene.tell(received, pending(ask, "c-1", 1.0))
        scene.tell(received, reply(ask, "click", queued_s=1.0))
        scene.answer("DONE")
        row = scene.store()
    first = deadlines[0]
    assert first is not None
    assert [first - left for left in (*deadlines, ask.deadline_s) if left is not None] == [0.0, 0.0, 7.0, 11.0]
    lost, kept = (step["model"] for step in row["steps"])
    assert (lost["resampled"], kept["resampled"]) == (2, 0)
    assert lost["queued_s"] >= 1.0
    assert kept["queued_s"] == 0.0


def test_an_answer_to_another_call_is_passed_over() -> None:
    """A late reply of an earlier step is no reply to this one."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        first = scene.answer("click")
        second, received = scene.call()
        scene.tell(received, reply(first, "FAIL"))
        scene.tell(received, reply(second, "DONE"))
        row = scene.store()
    assert [step["response"]["content"] for step in row["steps"]] == ["click", "DONE"]


def test_a_call_that_the_proxy_refuses_fails_the_attempt() -> None:
    """A refusal is a bug on one side: said in the row, not waited for."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        ask, received = scene.call()
        scene.tell(received, Refused(about="CallAsk", of="another call", reason="stale"))
        scene.tell(received, Refused(about="CallAsk", of=ask.ident(), reason="params hold messages"))
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["error"]["type"]) == ("policy_failed", "proxy_refused")


def test_the_sink_gets_what_it_asks_for() -> None:
    """Blobs that it lost are sent again, then the row; a duplicate's answer ends the try as any other."""
    with stage(ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("DONE")
        row, received = scene.row()
        lost = row["final_image"]
        del scene.blobs[lost]
        scene.rows.send(received.peer, BlobsNeeded(key=KEY, hashes=[lost]))
        assert scene.store(duplicate=True)["rollout_id"] == row["rollout_id"]
        assert lost in scene.blobs
        scene.give(OTHER)
        scene.answer("DONE")
        scene.store()


def test_a_row_that_is_refused_for_good_is_accounted_for() -> None:
    """The sink will never take it: a bare row tells that the verdict is lost, so that the attempt ends."""
    with stage(ScriptedDesktop()) as scene:
        scene.give(meta={"k": 1})
        scene.answer("DONE")
        refused, received = scene.row()
        scene.rows.send(received.peer, Refused(about="PutRow", of=refused["rollout_id"], reason="a step is odd"))
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["reward"], row["steps"], row["meta"]) == ("evaluator_failed", None, [], {"k": 1})
    assert row["error"] == {"kind": "env", "phase": "store", "type": "row_refused", "message": "a step is odd"}


def test_a_bare_row_that_is_refused_goes_without_its_meta() -> None:
    """The worker lives, and its row says what the sink said first."""
    with stage(ScriptedDesktop()) as scene:
        scene.give(meta={"k": 1})
        scene.answer("DONE")
        for reason in ("meta is odd", "it still is"):
            refused, received = scene.row()
            scene.rows.send(received.peer, Refused(about="PutRow", of=refused["rollout_id"], reason=reason))
        row = scene.store(Status.ERROR)
        assert (row["outcome"], row["steps"], row["meta"], row["error"]["message"]) == (
            "evaluator_failed",
            [],
            None,
            "meta is odd",
        )
        scene.give(OTHER)
        scene.answer("DONE")
        assert scene.store()["outcome"] == "graded"


def test_a_failed_try_is_not_mixed_into_the_next() -> None:
    """A call that failed leaves no screenshot without its response in the next try's prompt."""
    broken = iter([True, False])

    def act(_: str) -> ActResult:
        if next(broken, False):
            raise DesktopFailure("gone", "it broke")
        return ActResult(0, "", 0.0, READY)

    with stage(ScriptedDesktop(does={"act": act})) as scene:
        scene.give()
        scene.answer("click")
        scene.store(Status.RETRIED)
        scene.give(KEY.next_try())
        ask = scene.answer("DONE")
        assert len(ask.messages) == 1
        assert ask.call.step == 0
        scene.store()


def test_calls_carry_only_their_own_blobs() -> None:
    """Over many steps each image and message travels once to the proxy and once to the sink."""
    sent: list[str] = []
    with stage(ScriptedDesktop()) as scene:
        scene.give(max_steps=6)
        asks: list[CallAsk] = [scene.answer("click") for _ in range(6)]
        row = scene.store()
        sent = [blob.sha256 for ask in asks for blob in ask.blobs]
    assert len(sent) == len(set(sent))
    assert set(sent) | {row["final_image"]} == set(scene.blobs)
    assert len(asks[-1].messages) == 11
