"""What becomes of a try whose agent errs, or catches what is not its own? A real worker on real sockets, its peers scripted."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import pytest
from PIL import Image
from scripted_desktop import SIZE, ScriptedDesktop, WordAgent, screen
from worker_scene import KEY, reply, stage

from legato_rl.records import Status
from legato_rl.wire import CallFailed
from legato_rl.workers.agent import Observation


class Greedy(WordAgent):
    """An agent that takes every exception for a fault of its own, and goes on with an action."""

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        try:
            return super().predict(instruction, obs)
        except Exception:
            return "", ["click"]


class Late(WordAgent):
    """An agent that fails on its second response."""

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        response, actions = super().predict(instruction, obs)
        if len(self.messages) > 2:
            raise RuntimeError("no such tool")
        return response, actions


class Looking(WordAgent):
    """An agent that decodes each screenshot before it asks."""

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        with Image.open(io.BytesIO(obs["screenshot"])) as image:
            image.load()
        return super().predict(instruction, obs)


class Failing(WordAgent):
    """An agent that fails before it asks."""

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        raise RuntimeError("no template")


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def undecodable() -> bytes:
    """A PNG of the right size whose chunks are whole and whose pixels are none."""
    header = struct.pack(">IIBBBBB", *SIZE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"no deflate") + chunk(b"IEND", b"")


def test_an_agent_that_fails_after_the_answer_keeps_the_step() -> None:
    """What the policy said is known: the step is in the row, without an action, and the attempt is the policy's failure."""
    with stage(desktop := ScriptedDesktop(), Late) as scene:
        scene.give()
        scene.answer("click")
        scene.answer("tool")
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["reward"], row["n_steps"]) == ("policy_failed", None, 2)
    assert row["error"] == {"kind": "policy", "phase": "policy", "type": "agent_error", "message": "RuntimeError: no such tool"}
    assert [step["response"]["content"] for step in row["steps"]] == ["click", "tool"]
    assert row["steps"][1]["actions"] == []
    assert desktop.did("evaluate") == []


def test_an_agent_that_fails_on_a_good_screen_is_no_failure_of_the_desktop() -> None:
    """Nothing was asked, so there is no step."""
    with stage(ScriptedDesktop(), Failing) as scene:
        scene.give()
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["n_steps"], row["error"]["type"]) == ("policy_failed", 0, "agent_error")


def test_a_screenshot_that_nobody_can_decode_is_a_failure_of_the_desktop() -> None:
    """Its frame is whole, so only the agent notices: the policy did nothing wrong, and the attempt gets another try."""
    desktop = ScriptedDesktop()
    desktop.does["observe"] = lambda: undecodable() if desktop.did("reset") else screen(1)
    with stage(desktop, Looking) as scene:
        scene.give()
        row = scene.store(Status.RETRIED)
    assert (row["outcome"], row["reward"], row["n_steps"]) == ("desktop_failed", None, 0)
    assert (row["error"]["kind"], row["error"]["type"]) == ("env", "screenshot")
    assert "cannot be decoded" in row["error"]["message"]


@pytest.mark.parametrize("order", [{"stop": "group_closed"}, {"drop": True}])
def test_an_agent_cannot_swallow_an_order(order: dict[str, object]) -> None:
    """A stop or drop that comes while it waits for its answer ends the try, whatever its handlers catch."""
    with stage(desktop := ScriptedDesktop(), Greedy) as scene:
        scene.give()
        scene.call()
        scene.push(held=KEY, **order)
        if "stop" in order:
            assert scene.store(Status.CANCELLED)["outcome"] == "stopped"
        else:
            scene.until(lambda: scene.beats[-1].holds is None and scene.beats[-1].ready, "the ready beat")
            assert scene.drafts == []
    assert desktop.did("act") == []


def test_an_agent_cannot_swallow_the_end_of_its_process() -> None:
    """The worker leaves while the agent waits, and no row is made up."""
    with stage(desktop := ScriptedDesktop(), Greedy) as scene:
        scene.give()
        scene.call()
        scene.link.quit_.ask()
        scene.until(lambda: desktop.did("close"), "the end")
        assert scene.drafts == []
    assert desktop.did("act") == []


@pytest.mark.parametrize(
    ("type_", "outcome", "status"),
    [("rollout_timeout", "timed_out_graded", Status.TRUNCATED), ("context_length", "policy_failed", Status.ERROR)],
)
@pytest.mark.parametrize("build", [WordAgent, Greedy])
def test_an_agent_cannot_swallow_the_end_of_its_call(
    type_: str, outcome: str, status: Status, build: Callable[[], WordAgent]
) -> None:
    """The rollout's time-out is graded, and any other failure is the policy's, whatever the agent catches."""
    with stage(desktop := ScriptedDesktop(), build, rollout_timeout=60.0) as scene:
        scene.give()
        scene.answer("click")
        ask, received = scene.call()
        scene.tell(received, CallFailed(call=ask.call, type=type_, message="it ended", queued_s=0.0))
        row = scene.store(status)
    assert (row["outcome"], row["n_steps"]) == (outcome, 1)
    assert row["error"] is None or row["error"]["type"] == type_
    assert desktop.did("act") == [("click",)]


def test_an_agent_that_never_asks_is_named() -> None:
    """Its actions are none of the policy's: no step, nothing is run, nothing is graded."""

    class Silent(WordAgent):
        def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
            return "", ["DONE"]

    with stage(desktop := ScriptedDesktop(), Silent) as scene:
        scene.give()
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["n_steps"], row["error"]["type"]) == ("policy_failed", 0, "agent_made_no_call")
    assert desktop.did("act") == desktop.did("evaluate") == []


def test_an_agent_error_of_any_length_and_alphabet_is_kept_short() -> None:
    """A parser may quote a whole response, and half of a surrogate pair is no UTF-8."""

    class Verbose(WordAgent):
        def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
            super().predict(instruction, obs)
            raise ValueError("\udc80 and on " * 10_000)

    with stage(ScriptedDesktop(), Verbose) as scene:
        scene.give()
        ask, received = scene.call()
        scene.tell(received, reply(ask, "click"))
        row = scene.store(Status.ERROR)
    assert row["error"]["type"] == "agent_error"
    assert 0 < len(row["error"]["message"]) <= 2000
