"""What becomes of a try, whatever its desktop and its policy do? A real worker on real sockets, its peers scripted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from scripted_desktop import READY, SIZE, ScriptedDesktop, WordAgent, screen
from worker_scene import KEY, stage

from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.config import PolicyConfig
from legato_rl.desktop import ActResult, DesktopFailure, Ready
from legato_rl.policy.body import call_seed, canonical_body
from legato_rl.records import Draft, Status
from legato_rl.wire import CallFailed


def fail(type_: str = "gone") -> Callable[..., Any]:
    """What breaks the desktop."""

    def broken(*_: object) -> None:
        raise DesktopFailure(type_, "it broke")

    return broken


def test_a_graded_try() -> None:
    """Reset, (observe, policy, act)*, evaluate: everything is in the row, and the row is a valid one."""
    desktop = ScriptedDesktop(does={"act": lambda a: ActResult(3, "no such window " * 200, 0.5, Ready("capped", 0.25))})
    with stage(desktop) as scene:
        scene.give(meta={"k": [1]})
        scene.answer("click,WAIT", version="v1")
        scene.answer("DONE", version="v2", queued_s=1.5)
        row = scene.store()
        assert Draft.model_validate(row).key == KEY
        assert (row["outcome"], row["reward"], row["error"], row["n_steps"]) == ("graded", 1.0, None, 2)
        assert (row["meta"], row["desktop"], row["domain"]) == ({"k": [1]}, "worker-000", None)
        assert row["policy"] == {"model": "m", "version": "v1", "versions": ["v1", "v2"]}
        first, second = row["steps"]
        assert [action["action"] for action in first["actions"]] == ["click", "WAIT"]
        click, wait = first["actions"]
        assert (click["rc"], len(click["stderr"]), click["act_s"], click["wait_s"]) == (3, 2000, 0.5, 0.25)
        assert (click["ready"], click["ready_s"]) == ("capped", None)
        assert click["obs_s"] == 0.0 < wait["obs_s"], "one look a step, after its last action"
        assert (second["model"]["queued_s"], second["model"]["version"]) == (1.5, "v2")
        assert len(desktop.did("observe")) == 4, "the self-check, the start, and one a step"
        assert row["final_image"] in scene.blobs
        hashes = {sha256 for step in row["steps"] for sha256 in step["request"]["messages"]}
        assert hashes <= set(scene.blobs)
        assert all(sha256_hex(data) == sha256 for sha256, data in scene.blobs.items())
    assert desktop.calls[-1] == ("close",)


def test_the_desktop_is_told_of_its_try() -> None:
    """The task is the run's, with the rollout's name for folders and dice; what the desktop does to it stays there.

    What the desktop tells of its reset is in the row.
    """
    told: list[dict[str, Any]] = []

    def reset(task: dict[str, Any]) -> None:
        told.append(dict(task))
        task.clear()
        if len(told) == 2:
            desktop.reset_way = "fast"  # type: ignore[attr-defined]

    desktop = ScriptedDesktop(does={"reset": reset})
    ways = []
    with stage(desktop) as scene:
        for key in (KEY, KEY.next_try()):
            scene.give(key)
            scene.answer("DONE")
            ways.append(scene.store()["reset"])
    assert ways == [None, "fast"]
    assert [task["instruction"] for task in told] == ["do it", "do it"]
    name = {"group_id": "g1", "domain": None, "attempt": 0, "max_steps": 5}
    names = [{"rollout_id": f"r1:g1:0:{try_}", "try": try_, **name} for try_ in (0, 1)]
    assert [task["legato"] for task in told] == names


def test_the_body_is_sampled_as_the_run_says() -> None:
    """Every sampling key of the agent's payload is replaced; the body that is sent is this one, to the byte."""

    def meddling() -> WordAgent:
        agent = WordAgent()
        agent.extra = {"temperature": 0.0, "top_p": 0.1, "max_tokens": 1, "seed": 1, "top_k": 5, "n": 3, "logprobs": False}
        return agent

    policy = PolicyConfig("fake", "m", version="v1", seed=7, temperature=0.7, max_tokens=99, extra_body={"priority": 2})
    with stage(ScriptedDesktop(), meddling, policy=policy) as scene:
        scene.give()
        ask = scene.answer("DONE")
        messages = [scene.blobs[sha256] for sha256 in ask.messages]
        scene.store()
    image = {"type": "image_url", "image_url": {"url": f"legato-image://{sha256_hex(screen(4))}"}}
    shown = {"role": "user", "content": [image, {"type": "text", "text": "do it"}]}
    expected = {
        "model": "m",
        "messages": [shown],
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 99,
        "stream": False,
        "n": 1,
        "logprobs": True,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": False},
        "priority": 2,
        "seed": call_seed(7, "g1", 0, 0, 0),
    }
    assert canonical_body({**ask.params, "model": "m"}, messages) == canonical_json(expected)


@pytest.mark.parametrize(
    ("method", "phase", "n_steps"),
    [
        ("reset", "reset", 0),
        ("wait_after_reset", "wait_after_reset", 0),
        ("act", "act", 1),
        ("wait_before_eval", "wait_before_eval", 1),
        ("evaluate", "evaluate", 1),
    ],
)
def test_a_desktop_that_breaks(method: str, phase: str, n_steps: int) -> None:
    """In any phase: no reward, the phase and the cause in the error, and what was done before is kept."""
    with stage(ScriptedDesktop(does={method: fail("gone")})) as scene:
        scene.give(max_steps=1)
        if n_steps:
            scene.answer("click")
        row = scene.store(Status.RETRIED)
    assert (row["outcome"], row["reward"], row["n_steps"]) == ("desktop_failed", None, n_steps)
    assert row["error"] == {"kind": "env", "phase": phase, "type": "gone", "message": "it broke"}
    if method == "act":
        assert row["steps"][0]["actions"] == [], "an action whose answer is lost is no result"


def test_a_screenshot_that_is_lost_after_the_actions() -> None:
    """The step and its actions are kept; the try is the desktop's failure."""
    desktop = ScriptedDesktop()
    desktop.does["observe"] = lambda: b"torn" if desktop.did("act") else screen(1)
    with stage(desktop) as scene:
        scene.give()
        scene.answer("click")
        row = scene.store(Status.RETRIED)
    assert (row["outcome"], row["error"]["type"], row["error"]["phase"]) == ("desktop_failed", "screenshot", "observe")
    assert [action["action"] for action in row["steps"][0]["actions"]] == ["click"]


@pytest.mark.parametrize(("verdict", "type_"), [(None, "bad_verdict"), (2.0, "bad_verdict"), (float("nan"), "bad_verdict")])
def test_a_verdict_that_is_none(verdict: object, type_: str) -> None:
    """The evaluator failed: no reward, and no second try of it."""
    with stage(ScriptedDesktop(does={"evaluate": lambda: verdict})) as scene:
        scene.give()
        scene.answer("DONE")
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["reward"]) == ("evaluator_failed", None)
    assert (row["error"]["kind"], row["error"]["phase"], row["error"]["type"]) == ("env", "evaluate", type_)


def test_an_evaluator_that_raises() -> None:
    """Its own exception is the type."""
    with stage(ScriptedDesktop(does={"evaluate": lambda: 1 / 0})) as scene:
        scene.give()
        scene.answer("DONE")
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["error"]["type"]) == ("evaluator_failed", "ZeroDivisionError")


def test_a_policy_that_fails() -> None:
    """The proxy's cause is the error's type; the steps before are kept, and nothing is graded."""
    with stage(desktop := ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("click")
        ask, received = scene.call()
        scene.tell(received, CallFailed(call=ask.call, type="http_400", message="too long", queued_s=0.0))
        row = scene.store(Status.ERROR)
    assert (row["outcome"], row["reward"], row["n_steps"]) == ("policy_failed", None, 1)
    assert row["error"] == {"kind": "policy", "phase": "policy", "type": "http_400", "message": "too long"}
    assert desktop.did("evaluate") == []


def test_a_response_that_cannot_be_parsed_is_a_step_without_action() -> None:
    """And so is an immediate end of text: data, not failures."""
    with stage(desktop := ScriptedDesktop()) as scene:
        scene.give(max_steps=2)
        scene.answer("? what")
        scene.answer("")
        row = scene.store()
    assert row["outcome"] == "graded"
    assert [step["parse_error"] for step in row["steps"]] == ["no action in it", None]
    assert [step["actions"] for step in row["steps"]] == [[], []]
    assert desktop.did("act") == []


def test_nothing_is_done_after_the_end_of_an_episode() -> None:
    """Actions that follow DONE or FAIL in the same response are not run."""
    with stage(desktop := ScriptedDesktop()) as scene:
        scene.give()
        scene.answer("FAIL,click")
        row = scene.store()
    assert [action["action"] for action in row["steps"][0]["actions"]] == ["FAIL"]
    assert desktop.did("act") == [("FAIL",)]


def test_the_rollouts_time_is_checked_between_actions() -> None:
    """Time is up after the first action of three: the others are not run, and the try is graded as timed out."""

    def slow(_: str) -> ActResult:
        threading.Event().wait(2.2)
        return ActResult(0, "", 2.2, READY)

    with stage(ScriptedDesktop(does={"act": slow}), rollout_timeout=2.0) as scene:
        scene.give()
        ask = scene.answer("one,two,three")
        row = scene.store()
    assert ask.deadline_s is not None
    assert 0.0 < ask.deadline_s <= 2.0
    assert (row["outcome"], row["reward"]) == ("timed_out_graded", 1.0)
    assert [action["action"] for action in row["steps"][0]["actions"]] == ["one"]


@pytest.mark.parametrize("answered", [0, 1])
def test_a_call_that_the_rollouts_time_ends(answered: int) -> None:
    """After an answered call the try is graded; before any it is the policy's failure, and never graded."""
    with stage(ScriptedDesktop(), rollout_timeout=60.0) as scene:
        scene.give()
        for _ in range(answered):
            scene.answer("click")
        ask, received = scene.call()
        scene.tell(received, CallFailed(call=ask.call, type="rollout_timeout", message="time", queued_s=0.0))
        row = scene.store()
    assert row["n_steps"] == answered
    if answered:
        assert (row["outcome"], row["reward"], row["error"]) == ("timed_out_graded", 1.0, None)
    else:
        assert (row["outcome"], row["reward"]) == ("policy_failed", None)
        assert (row["error"]["kind"], row["error"]["type"]) == ("policy", "no_model_call")


def test_a_desktop_that_fails_its_self_check_takes_no_work() -> None:
    """It is built again, told in the beats, and only the one that shows a screen asks for work."""
    built: list[ScriptedDesktop] = []

    def build() -> ScriptedDesktop:
        wrong = screen(1, (SIZE[0] + 1, SIZE[1]))
        built.append(ScriptedDesktop(does={} if built else {"observe": lambda: wrong}))
        return built[-1]

    with stage(build) as scene:
        scene.until(lambda: scene.beats and scene.beats[-1].build_failures, "the failed build")
        assert "the screen is 321x240" in scene.beats[-1].message
        assert not any(beat.ready for beat in scene.beats)
        scene.give()
        scene.answer("DONE")
        scene.store()
        assert (scene.beats[-1].built, scene.beats[-1].build_failures) == (2, 1)
    assert [desktop.calls[-1] for desktop in built] == [("close",), ("close",)]
