"""Does the broker take runs in, stop, cancel and resume them as trainers ask, and does its successor know of it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from control_scene import URL, Service
from held_up import held_up

from legato_rl.broker.again import Again, StillReading
from legato_rl.config import Settings
from legato_rl.errors import LegatoError
from legato_rl.records import FeedRow, Outcome, Status
from legato_rl.rundir import RunDir
from legato_rl.wire import (
    CancelAsk,
    Feed,
    Holding,
    PauseAsk,
    PolicyAsk,
    StatusAsk,
    StopAsk,
)


@pytest.fixture
def one(tmp_path: Path) -> Service:
    """A service without runs."""
    return Service(tmp_path)


def test_a_submitted_run_has_its_folder_and_its_settings(one: Service) -> None:
    """What it chose over what the service has; the rest of the service is its own."""
    policy = {"version": "v2", "temperature": 0.5}
    said = one.submit(name="step-2", priority=3, settings={"group": 4, "max_steps": 5, "policy": policy})
    assert (said.run, said.folder) == ("step-2", str(one.root / "runs" / "step-2"))
    run = json.loads((one.root / "runs" / "step-2" / "run.json").read_bytes())
    asked = run["settings"]
    assert (asked["group"], asked["max_steps"], asked["desktops"], asked["desktop"]["backend"]) == (4, 5, 2, "fake")
    assert (asked["policy"]["version"], asked["policy"]["temperature"], asked["policy"]["url"]) == ("v2", 0.5, URL)
    assert (run["run_id"], run["priority"], run["submitted"]) == ("step-2", 3, "s")
    status = one.ask(StatusAsk(id="x"))
    assert (status.run, status.state, status.groups.total, status.attempts_total, status.version) == (
        "step-2",
        "running",
        2,
        8,
        "v2",
    )
    assert (one.root / "runs" / "step-2").stat().st_mode & 0o777 == 0o700


def test_the_same_ask_makes_no_second_run(one: Service) -> None:
    """Nor after a restart of the broker; another ask under that name is refused."""
    for name in ("", "named"):
        first = one.submit(id_=f"id-{name}", name=name)
        assert one.submit(id_=f"id-{name}", name=name).run == first.run
        assert one.again().submit(id_=f"id-{name}", name=name).run == first.run
    with pytest.raises(LegatoError, match="the service has a run of that name"):
        one.submit(id_="other", name="named")
    assert len(list((one.root / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tasks": []}, "tasks is an empty list"),
        ({"tasks": [{"task_id": "../x", "config": {}}]}, "task_id"),
        ({"name": "../outside"}, "run is '../outside'"),
        ({"name": "a/b"}, "run is 'a/b'"),
        ({"name": "."}, "run is '.'"),
        ({"settings": {"group": 0}}, "group is 0"),
        ({"settings": {"desktops": 9}}, "settings.desktops is not a run's to choose"),
        ({"settings": {"desktop": {"backend": "osworld"}}}, "settings.desktop is not a run's to choose"),
        ({"settings": {"policy": {"url": "http://evil/v1"}}}, "settings.policy.url is not a run's to choose"),
        ({"settings": {"policy": {"api_key": "k"}}}, "settings.policy.api_key is not a run's to choose"),
        ({"settings": {"policy": 3}}, "settings.policy is 3"),
        ({"settings": {"policy": {"temperature": "hot"}}}, "temperature is 'hot'"),
        ({"name": "gone", "resume": True}, "the service has no run of that name"),
    ],
)
def test_a_run_that_cannot_be_is_refused_and_leaves_nothing(one: Service, fields: dict[str, Any], says: str) -> None:
    """One sentence that names the field."""
    with pytest.raises(LegatoError, match=says.replace("[", r"\[")):
        one.submit(**fields)
    assert not (one.root / "runs").exists() or not list((one.root / "runs").iterdir())
    assert one.ask(StatusAsk(id="x")).state == "none"


def test_runs_get_desktops_by_priority_then_as_they_came(one: Service) -> None:
    """And a try says whose settings are its own."""
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5)):
        one.submit(id_=name, name=name, priority=priority, settings={"group": 1})
        one.load(name)
    assert [brief.run for brief in one.ask(StatusAsk(id="x")).runs] == ["urgent", "first", "second"]
    got = [one.beat(worker).assign for worker in ("worker-000", "worker-001")]
    assert [assign.key.run for assign in got if assign] == ["urgent", "urgent"]
    assert all(assign is not None and Settings(**assign.settings).group == 1 for assign in got)


@pytest.mark.parametrize(
    ("fields", "left"),
    [({}, []), ({"group": "a"}, ["b", "b"]), ({"task": "b"}, ["a", "a"]), ({"group": "a", "attempt": 0}, ["a", "b", "b"])],
)
def test_what_is_cancelled_is_not_begun(one: Service, fields: dict[str, Any], left: list[str]) -> None:
    """A run, a group, a task or an attempt; owed as skipped, and also known to the next broker."""
    one.submit(name="r")
    one.load("r")
    one.ask(CancelAsk(id="c", run="r", **fields))
    for broker in (one, one.again()):
        broker.load("r")
        run = broker.core.runs["r"]
        taken = iter(run.groups.take, None)
        assert len(run.groups.owed()) == 4 - len(left)
        assert [key.group for key in taken if key] == left


def test_cancelling_what_is_not_there_is_refused(one: Service) -> None:
    """By name."""
    one.submit(name="r")
    with pytest.raises(ValueError, match="no attempt with group 'z'"):
        one.ask(CancelAsk(id="c", run="r", group="z"))
    with pytest.raises(ValueError, match="run is 'z'"):
        one.ask(CancelAsk(id="d", run="z"))


def test_a_stop_survives_the_broker(one: Service) -> None:
    """With its reason; every run by `*`; a run that is resumed forgets it."""
    for name in ("a", "b"):
        one.submit(id_=name, name=name)
    assert one.ask(StopAsk(id="s", reason="enough", run="a")).state == "stopping"
    after = one.again()
    assert {name: run.reason for name, run in after.core.runs.items()} == {"a": "enough", "b": ""}
    after.ask(StopAsk(id="t", reason="all", run="*"))
    assert {run.state for run in after.core.runs.values()} == {"stopping"}
    after.core.tick(100.0)
    after.submit(id_="again", name="a", resume=True)
    assert (after.core.runs["a"].state, after.again().core.runs["a"].state) == ("running", "running")


def test_errors_are_tried_again_where_that_is_asked(one: Service) -> None:
    """Those of kind env in groups that did not close; their rows stand."""
    one.submit(name="r", settings={"env_retries": 0})
    folder = one.root / "runs" / "r"
    told = [
        ("a", 0, "ok", 1.0, "graded"),
        ("a", 1, "ok", 1.0, "graded"),
        ("b", 0, "error", None, "evaluator_failed"),
        ("b", 1, "error", None, "policy_failed"),
    ]
    lines = [
        {
            **{"group_id": group, "attempt": number, "try": 0, "rollout_id": f"r:{group}:{number}:0"},
            **{"outcome": outcome, "status": status, "reward": reward, "policy": {"versions": []}},
        }
        for group, number, status, reward, outcome in told
    ]
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn')
    one.ask(StopAsk(id="s", reason="enough"))
    one.core.tick(100.0)
    for _ in range(2):
        one.submit(id_="again", name="r", resume=True, retry_errors=True)
        assert one.core.runs["r"].again == {"r:b:0:0"}
    assert one.again().core.runs["r"].again == {"r:b:0:0"}
    assert RunDir(folder).load_run().again == ["r:b:0:0"]
    run = one.core.runs["r"]
    key = run.groups.groups["b"].attempts[0].key
    row = FeedRow(n=1, key=key, outcome=Outcome.EVALUATOR_FAILED, status=Status.ERROR, reward=None, error_kind="env")
    one.core.feed(Feed(run="r", rows=[row], last=1), 0.0)
    assert run.groups.groups["b"].attempts[0].key == key.next_try()


def test_a_large_run_is_read_beside_the_others(one: Service) -> None:
    """Whoever asks is told to ask again, other runs' workers get orders meanwhile, and in the end it goes on."""
    one.submit(id_="o", name="other")
    one.load("other")
    one.submit(name="r")
    rows = one.root / "runs" / "r" / "rollouts.jsonl"
    one.ask(StopAsk(id="s", reason="enough", run="r"))
    one.core.tick(0.0)
    error = {"group_id": "b", "attempt": 0, "try": 0, "rollout_id": "r:b:0:0", "outcome": "evaluator_failed", "status": "error"}
    rows.write_text(json.dumps({**error, "reward": None, "policy": {"versions": []}}) + "\n")
    one.control.again = Again(at_once=0)
    with held_up(rows.with_name("tasks.jsonl")):
        for _ in range(3):
            with pytest.raises(StillReading, match="run 'r' are still being read"):
                one.submit(id_="again", name="r", resume=True, retry_errors=True)
            assert one.core.runs["r"].state == "stopped"
        assert one.beat("worker-000").assign is not None
    one.submit(id_="again", name="r", resume=True, retry_errors=True)
    assert (one.core.runs["r"].state, one.core.runs["r"].again) == ("running", {"r:b:0:0"})


def test_a_run_that_stopped_is_resumed_with_the_policy_in_force(one: Service) -> None:
    """Also by a later broker: other weights than before are behind the server, and its tries must say so."""
    one.submit(name="r")
    one.ask(StopAsk(id="s", reason="enough"))
    one.core.tick(100_000.0)
    folder = RunDir(one.root / "runs" / "r")
    folder.write_end("stopped", "enough", "now")
    folder.summary.write_text("{}")
    one.ask(PauseAsk(id="p"))
    one.proxy("paused")
    one.ask(PolicyAsk(id="v", version="v2"))
    after = one.again()
    assert "r" not in after.core.runs
    after.submit(id_="again", name="r", resume=True)
    assert after.ask(StatusAsk(id="x", run="r")).version == "v2"
    assert not folder.end.exists()
    assert not folder.summary.exists(), "it is of an end that was none"


def test_a_run_that_is_stopping_is_not_resumed_yet(one: Service) -> None:
    """The asker is told, instead of being promised what does not come."""
    one.submit(name="r")
    one.ask(StopAsk(id="s", reason="enough"))
    with pytest.raises(LegatoError, match="still stopping"):
        one.submit(id_="again", name="r", resume=True)


def test_a_stop_that_comes_again_stops_nothing_that_was_resumed(one: Service) -> None:
    """Under its id it was heard before."""
    one.submit(name="r")
    stop = StopAsk(id="s", reason="enough", run="r")
    one.ask(stop)
    one.core.tick(100_000.0)
    one.submit(id_="again", name="r", resume=True)
    assert one.ask(stop).state == "running"


def test_a_folder_that_cannot_be_read_keeps_no_other_run_down(one: Service) -> None:
    """It is left alone, and said in the log."""
    for name in ("whole", "torn", "renamed", "bare"):
        one.submit(id_=name, name=name)
    runs = one.root / "runs"
    (runs / "torn" / "run.json").write_text("{")
    (runs / "bare" / "tasks.jsonl").unlink()
    (runs / "renamed").rename(runs / "other")
    assert list(one.again().core.runs) == ["whole"]


def test_a_run_that_ended_before_the_broker_began_is_told_to_have(one: Service) -> None:
    """Whoever followed it hears the end."""
    one.submit(name="r")
    RunDir(one.root / "runs" / "r").write_end("finished", "", "now")
    status = one.again().ask(StatusAsk(id="x", run="r"))
    assert (status.run, status.state) == ("r", "finished")


def test_a_run_whose_model_the_server_does_not_know_stands_alone(one: Service) -> None:
    """It is told so and begins nothing, and stops, resumable, when the proxy gave up; the other run goes on meanwhile."""
    for name in ("wrong", "right"):
        one.submit(id_=name, name=name)
        one.load(name)
    one.lacks_model("wrong")
    status = {name: one.ask(StatusAsk(id="x", run=name)) for name in ("wrong", "right")}
    assert (status["wrong"].policy, status["wrong"].policy_message) == ("down", "model 'x': not there")
    assert (status["right"].policy, status["right"].policy_message) == ("up", "")
    given = one.beat("worker-000").assign
    assert given is not None
    assert given.key.run == "right", "desktops go to the run that can use them"
    one.lacks_model()
    other = one.beat("worker-001").assign
    assert other is not None
    assert other.key.run == "wrong", "it is there again"
    one.lacks_model("wrong", gave_up=True)
    runs = one.core.runs
    assert (runs["wrong"].state, runs["wrong"].reason, runs["right"].state) == ("stopping", "model 'x': not there", "running")


def test_what_the_proxy_says_of_a_run_as_it_was_stops_no_run_that_goes_on(one: Service) -> None:
    """Its beats of before it carried the last order out are of the run before it was resumed."""
    one.submit(name="r")
    one.lacks_model("r", gave_up=True)
    one.core.tick(100_000.0)
    one.submit(id_="again", name="r", resume=True)
    one.lacks_model("r", gave_up=True, obeyed=False)
    assert one.core.runs["r"].state == "running"


def test_what_a_worker_holds_of_a_resumed_run_is_handed_to_nobody_else(one: Service) -> None:
    """It was told to drop it, and may still be in a long reset."""
    one.submit(name="r", settings={"group": 1})
    one.load("r")
    given = one.beat("worker-000").assign
    assert given is not None
    held = Holding(key=given.key, lease=1, phase="reset", step=0)
    one.beat("worker-000", holds=held)
    one.ask(StopAsk(id="s", reason="enough"))
    one.core.tick(100_000.0)
    one.submit(id_="again", name="r", resume=True)
    one.load("r")
    one.beat("worker-000", holds=held)
    other = one.beat("worker-001").assign
    assert other is not None
    assert other.key != given.key
