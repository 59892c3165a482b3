"""Does the broker do once what trainers ask of the whole service, and does its successor know of it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from control_scene import Service

from legato_rl.errors import LegatoError
from legato_rl.records import FeedRow, Outcome, Status
from legato_rl.wire import (
    Accepted,
    CancelAsk,
    DesktopOut,
    DesktopsAsk,
    DrainAsk,
    EventsAsk,
    InflightAsk,
    Order,
    PauseAsk,
    PolicyAsk,
    PolicyName,
    ProxyBeat,
    ResumeAsk,
    ShutdownAsk,
    StatusAsk,
    StopAsk,
)


@pytest.fixture
def one(tmp_path: Path) -> Service:
    """A service without runs."""
    return Service(tmp_path)


def test_a_pause_holds_everything_and_a_late_repeat_holds_nothing(one: Service) -> None:
    """Nothing is begun, the proxy is told; after a resume the first ask, sent again, changes nothing. All of it survives."""
    one.submit(name="r")
    one.load("r")
    assert one.ask(PauseAsk(id="p", mode="wait")) == Accepted(id="p")
    assert one.beat("worker-000").assign is None
    assert one.control.proxy_order("x").pause == "wait"
    assert one.again().control.proxy_order("x").pause == "wait"
    assert one.ask(StatusAsk(id="x")).paused == "wait"
    one.ask(ResumeAsk(id="q"))
    assert one.ask(PauseAsk(id="p", mode="wait")) == Accepted(id="p")
    assert one.control.proxy_order("x").pause is None
    assert one.beat("worker-000").assign is not None


def test_a_drain_ends_with_a_resume(one: Service) -> None:
    """Nothing new meanwhile, also from a broker that comes after; model calls go on."""
    one.submit(name="r")
    one.load("r")
    one.ask(DrainAsk(id="d"))
    assert one.beat("worker-000").assign is None
    assert one.control.proxy_order("x").pause is None
    assert one.again().core.holding
    one.ask(ResumeAsk(id="q"))
    assert one.beat("worker-000").assign is not None


def test_new_weights_need_a_pause(one: Service) -> None:
    """Refused while calls may run; then every try and every later run gets the new version, and a restart keeps it."""
    one.submit(name="r")
    one.proxy("up")
    with pytest.raises(ValueError, match="do not stand still"):
        one.ask(PolicyAsk(id="v", version="v2"))
    one.ask(PauseAsk(id="p"))
    one.core.heard_proxy(ProxyBeat(boot="p", state="paused", queued=0, running=0, down_s=0.0, order=0), 0.0)
    with pytest.raises(ValueError, match="do not stand still"):
        one.ask(PolicyAsk(id="v", version="v2"))
    one.proxy("paused", running=1)
    with pytest.raises(ValueError, match="do not stand still"):
        one.ask(PolicyAsk(id="v", version="v2"))
    one.proxy("paused")
    one.ask(PolicyAsk(id="v", version="v2"))
    (told,) = one.control.proxy_order("x").policies
    assert (told.run, told.names) == ("r", [PolicyName(model="m", version="v2")])
    one.submit(id_="t", name="later")
    stands = one.ask(StatusAsk(id="x", run="later"))
    assert (stands.version, stands.model, stands.url) == ("v2", "m", one.control.proxy_order("x").url)
    after = one.again()
    assert {p.run: p.names[-1].version for p in after.control.proxy_order("x").policies} == {"r": "v2", "later": "v2"}


def test_another_model_for_new_tries_only(one: Service) -> None:
    """No pause is needed; the next try has the next number."""
    one.submit(name="r")
    one.load("r")
    before = one.beat("worker-000").assign
    one.ask(PolicyAsk(id="v", run="r", model="lora", version="v2", when="new"))
    after = one.beat("worker-001").assign
    assert before is not None
    assert after is not None
    assert (before.policy, after.policy) == (0, 1)
    (told,) = one.control.proxy_order("x").policies
    assert told.names == [PolicyName(model="m", version="v1"), PolicyName(model="lora", version="v2")]
    assert one.ask(StatusAsk(id="x", run="r")).model == "lora"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "all empty"),
        ({"url": "http://evil.example/v1"}, "may only call http://127.0.0.1:8000"),
        ({"url": "http://127.0.0.1:9000/other"}, "must end in /v1"),
        ({"url": "http://127.0.0.1:9000/v1", "when": "new"}, "only change while the service is paused"),
        ({"run": "none", "version": "v2"}, "run is 'none'"),
        ({"url": "nonsense/v1"}, "policy-url is 'nonsense/v1'"),
        ({"url": "http://u:p@127.0.0.1:9000/v1"}, "no user or password"),
        ({"url": "http://127.0.0.1:9000/?q=/v1"}, "policy-url is"),
        ({"url": "fake"}, "may only call"),
        ({"url": "http://[/v1"}, "policy-url is"),
    ],
)
def test_a_policy_that_is_refused(one: Service, fields: dict[str, Any], says: str) -> None:
    """One sentence, and nothing has changed."""
    one.submit(name="r")
    one.ask(PauseAsk(id="p"))
    one.proxy("paused")
    before = one.control.proxy_order("x")
    with pytest.raises((ValueError, LegatoError), match=says):
        one.ask(PolicyAsk(id="v", **fields))
    assert one.control.proxy_order("x") == before


def test_another_server_of_an_allowed_origin(one: Service) -> None:
    """The proxy is told, also by the next broker."""
    one.ask(PauseAsk(id="p"))
    one.proxy("paused")
    one.ask(PolicyAsk(id="v", url="http://127.0.0.1:9000/v1"))
    assert one.control.proxy_order("x").url == one.again().control.proxy_order("x").url == "http://127.0.0.1:9000/v1"


def test_orders_to_the_proxy_are_numbered_by_what_they_say(one: Service) -> None:
    """The same order keeps its number, so that its echo means that it is carried out."""
    first = one.control.proxy_order("x")
    assert one.control.proxy_order("x") == first
    one.ask(InflightAsk(id="i", max_inflight=3))
    second = one.control.proxy_order("x")
    assert (second.number, second.max_inflight) == (first.number + 1, 3)
    one.ask(InflightAsk(id="j", max_inflight=None))
    assert one.again().control.proxy_order("x").max_inflight is None


def test_more_and_fewer_desktops(one: Service) -> None:
    """Those beyond the number are parked; more than there are processes, or less than none, is refused."""
    one.submit(name="r")
    one.load("r")
    assert (one.beat("worker-002").park, one.beat("worker-002").assign) == (True, None)
    one.ask(DesktopsAsk(id="d", change=1))
    one.ask(DesktopsAsk(id="d", change=1))
    assert one.beat("worker-002").assign is not None
    with pytest.raises(
        ValueError, match=r"^1 more cannot be had: 3 desktops work, and the service has processes for 3 at most"
    ):
        one.ask(DesktopsAsk(id="e", change=1))
    with pytest.raises(ValueError, match=r"^4 fewer cannot be had: only 3 desktops work"):
        one.ask(DesktopsAsk(id="f", change=-4))
    one.ask(DesktopsAsk(id="g", change=-3))
    assert one.beat("worker-000").park
    assert one.again().core.desktops == 0


def test_events_are_told_by_number(one: Service) -> None:
    """Those after a number, and how many there are."""
    one.submit(name="r")
    key = one.core.runs["r"].groups.groups["a"].attempts[0].key
    one.load("r", FeedRow(n=1, key=key, outcome=Outcome.GRADED, status=Status.OK, reward=1.0))
    said = one.ask(EventsAsk(id="e", run="r"))
    assert ([event.kind for event in said.events], said.last) == (["rollout"], 1)
    assert one.ask(EventsAsk(id="e", run="r", after=1)).events == []


def test_a_shutdown_takes_no_run_any_more(one: Service) -> None:
    """Every run stops, resumable."""
    one.submit(name="r")
    one.ask(ShutdownAsk(id="x"))
    assert one.core.runs["r"].state == "stopping"
    with pytest.raises(LegatoError, match="shutting down"):
        one.submit(id_="t")


def test_what_is_no_ask_raises(one: Service) -> None:
    """A message of another socket is a fault."""
    with pytest.raises(TypeError, match="takes no Order"):
        one.ask(Order(boot="x"))


@pytest.mark.parametrize(
    "ask",
    [
        PauseAsk(id="x", mode="abort"),
        ResumeAsk(id="x"),
        InflightAsk(id="x", max_inflight=3),
        DesktopsAsk(id="x", change=1),
        PolicyAsk(id="x", model="lora", version="v2", when="new"),
        PolicyAsk(id="x", version="v2", url="http://127.0.0.1:9000/v1"),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_what_the_next_broker_must_know_is_not_done_where_it_cannot_be_saved(one: Service, ask: Any) -> None:
    """A full disk: all is as it was, for this broker and the next; the same ask is carried out when there is room."""
    one.submit(name="r")
    one.ask(PauseAsk(id="p", mode="wait"))
    one.proxy("paused")

    def stands(broker: Service) -> tuple[Any, ...]:
        order, status = broker.control.proxy_order("x"), broker.ask(StatusAsk(id="s", run="r"))
        policies, default = [one.names for one in order.policies], broker.core.policies.default
        what = order.url, order.pause, order.max_inflight, policies, default
        return *what, status.version, status.paused, broker.core.desktops, broker.core.holding

    before, number, state = stands(one), one.control.proxy_order("x").number, one.root / "state.json"
    assert stands(one.again()) == before
    state.unlink()
    state.mkdir()
    for _ in range(2):
        with pytest.raises(LegatoError, match=r"state.json cannot be written, so this was not done: make space there"):
            one.ask(ask)
        assert (stands(one), one.control.proxy_order("x").number, one.control.unsaved) == (before, number, True)
    state.rmdir()
    one.control.save()
    assert (stands(one.again()), one.control.unsaved) == (before, False)
    assert one.ask(ask) == Accepted(id="x")
    after = stands(one)
    assert after != before
    assert stands(one.again()) == after


@pytest.mark.parametrize(
    "ask",
    [CancelAsk(id="x", run="r"), DrainAsk(id="x"), ShutdownAsk(id="x"), StopAsk(id="x", run="r", reason="enough")],
    ids=lambda ask: type(ask).__name__,
)
def test_what_only_ends_work_holds_and_is_saved_later(one: Service, ask: Any) -> None:
    """A full disk keeps nobody from it; the next broker knows of it once there was room."""
    one.submit(name="r")
    one.load("r")
    state = one.root / "state.json"
    state.unlink()
    state.mkdir()
    one.ask(ask)
    assert one.control.unsaved
    assert one.beat("worker-000").assign is None
    state.rmdir()
    one.control.save()
    assert not one.control.unsaved
    after = one.again()
    after.load("r")
    assert after.beat("worker-000").assign is None
    assert after.control.told == one.control.told


def test_a_worker_that_is_parked_before_it_holds_gives_its_try_to_another(one: Service) -> None:
    """It drops what it was handed, so somebody else must get it."""
    one.submit(name="r", settings={"group": 1})
    one.load("r")
    assert one.beat("worker-000").assign is not None
    handed = one.beat("worker-001").assign
    one.ask(DesktopsAsk(id="d", change=-1))
    assert one.beat("worker-001").assign is None
    assert handed is not None
    run = one.core.runs["r"]
    assert run.groups.take() == handed.key


@pytest.mark.parametrize("name", ["bogus", "worker-003", "worker-1", "../x"])
def test_a_desktop_that_is_not_ours_is_not_out(one: Service, name: str) -> None:
    """Whoever names one is told which there are."""
    with pytest.raises(ValueError, match="this service has worker-000 to 002"):
        one.ask(DesktopOut(id="o", desktop=name, reason="x"))
    one.ask(DesktopOut(id="p", desktop="worker-002", reason="x"))
    assert one.core.roster.out == 1
