"""Does the broker's shell bring a run to its end, whatever its peers repeat, forget or keep silent about? Real sockets."""

from __future__ import annotations

import pytest
from broker_scene import Scene, beat, holding, key, scene

from legato_rl.broker.core import RECONCILE_S
from legato_rl.broker.roster import SILENCE_S
from legato_rl.broker.run import GRADING_GRACE_S
from legato_rl.records import Draft, Outcome, RolloutKey
from legato_rl.wire import (
    Accepted,
    DesktopOut,
    Message,
    Order,
    PauseAsk,
    ProxyBeat,
    ProxyOrder,
    PutRow,
    Refused,
    RunStatus,
    StatusAsk,
    StopAsk,
)


def assigned(order: Order) -> RolloutKey | None:
    """The key that an order hands out."""
    return order.assign.key if order.assign else None


def test_a_group_from_its_first_beat_to_its_end() -> None:
    """Attempts go out in order; the G-th graded row closes the group, skips what is queued, and lets the workers go."""
    with scene(group=2, oversample=0.5) as run:
        run.loaded()
        assert assigned(run.beat("w0")) == key(0)
        assert assigned(run.beat("w1")) == key(1)
        assert assigned(run.beat("w0")) == key(0), "repeated until it is held"
        run.beat("w0", holds=holding(key(0)))
        run.beat("w1", holds=holding(key(1)))
        run.sink.append(key(0), Outcome.GRADED, 1.0)
        run.sink.append(key(1), Outcome.TIMED_OUT_GRADED, 0.0)
        run.sink.push()
        run.until(lambda: run.run.state == "finished", "the end")
        assert [(row.key, row.outcome, row.status) for row in run.sink.rows[2:]] == [(key(2), "not_started", "skipped")]
        assert run.beat("w0", stored=key(0)).leave
        status = run.status()
    assert (status.state, status.attempts_ended, status.attempts_total) == ("finished", 3, 3)
    assert (status.groups.closed, status.groups.short, status.groups.open) == (1, 0, 0)
    assert status.rows == {"ok": 1, "truncated": 1, "skipped": 1}


def test_a_closed_group_stops_its_workers_at_once() -> None:
    """The order is pushed, not left to the next beat."""
    with scene(group=1, oversample=1.0) as run:
        run.loaded()
        run.beat("w0"), run.beat("w1")
        run.beat("w0", holds=holding(key(0)))
        run.beat("w1", holds=holding(key(1)))
        run.sink.append(key(0), Outcome.GRADED, 1.0)
        run.sink.push()
        order = run.hear(run.client("w1"), Order)
    assert (order.held, order.stop, order.drop) == (key(1), "group_closed", False)


def test_a_late_beat_of_a_replaced_process_diverts_no_order() -> None:
    """It is told to leave; what is pushed goes to the process that took its place."""
    with scene(group=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0)))
        gone = run.client("the process before")
        gone.send(beat("w1", boot="old"))
        assert not run.hear(gone, Order).leave
        run.beat("w1", boot="new")
        gone.send(beat("w1", boot="old"))
        assert run.hear(gone, Order).leave
        run.sink.append(key(0), Outcome.DESKTOP_FAILED)
        run.sink.push()
        assert assigned(run.hear(run.client("w1"), Order)) == key(0, 1)


def test_an_idle_worker_hears_of_new_work_at_once() -> None:
    """A try that is queued again is pushed to a worker that has nothing to do."""
    with scene(group=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0)))
        assert assigned(run.beat("w1")) is None
        run.sink.append(key(0), Outcome.DESKTOP_FAILED)
        run.sink.push()
        order = run.hear(run.client("w1"), Order)
    assert assigned(order) == key(0, 1)


def test_a_row_that_the_broker_owes_is_sent_until_it_is_stored() -> None:
    """A sink that takes in and answers nothing gets it again and again; one row comes of it, with its desktop's name."""
    with scene(group=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0)))
        run.sink.mute = True
        run.beat("w0", boot="another")
        for _ in range(3):
            sent = len(run.sink.puts)
            run.clock.ahead += 1.1
            run.until(lambda sent=sent: len(run.sink.puts) > sent, "the owed row")  # type: ignore[misc]
        assert run.sink.rows == []
        run.sink.mute = False
        run.clock.ahead += 1.1
        run.until(lambda: run.sink.rows, "the stored row")
        draft = Draft.model_validate(run.sink.puts[-1])
        assert (draft.key, draft.outcome, draft.desktop, draft.steps) == (key(0), Outcome.WORKER_LOST, "w0", [])
        assert draft.error is not None
        assert (draft.error.kind, draft.error.type) == ("env", "worker_lost")
        run.loaded()
        sent = len(run.sink.puts)
        run.clock.ahead += 1.1
        assert assigned(run.beat("w0", boot="another")) == key(0, 1)
        assert len(run.sink.puts) == sent
    assert [(row.key, row.status) for row in run.sink.rows] == [(key(0), "retried")]


def test_a_worker_that_falls_silent_is_lost() -> None:
    """Its row is written after the silence; the next try goes to another worker."""
    with scene(group=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0)))
        for _ in range(int(SILENCE_S) + 1):
            run.clock.ahead += 1.0
            run.turn()
        run.until(lambda: run.sink.rows, "the lost worker's row")
        run.loaded()
        assert assigned(run.beat("w1")) == key(0, 1)
        late = run.beat("w0", holds=holding(key(0)))
    assert (late.held, late.drop) == (key(0), True), "what comes back too late leaves no row"


def restarted(run: Scene) -> None:
    """The broker starts anew and loads the sink's rows."""
    run.start(restarted=True)
    run.loaded()


def test_a_broker_that_restarts_goes_on_where_it_was() -> None:
    """The feed tells what is stored, the beats what is held; nothing is handed out before both had time to speak."""
    with scene(group=3) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w1")
        run.sink.append(key(0), Outcome.GRADED, 1.0)
        restarted(run)
        assert assigned(run.beat("w0", stored=key(0))) is None
        order = run.beat("w1", holds=holding(key(1)))
        assert (order.held, order.drop, order.stop) == (key(1), False, None)
        run.clock.ahead += RECONCILE_S
        run.until(lambda: run.clock.monotonic() - run.run._sink_heard < 1.0, "the sink")
        assert assigned(run.beat("w0", stored=key(0))) == key(2)
        run.beat("w0", holds=holding(key(2)))
        for attempt in (1, 2):
            run.sink.append(key(attempt), Outcome.GRADED, 0.0)
        run.until(lambda: run.run.state == "finished", "the end")


def test_a_restarted_broker_drops_what_is_stored() -> None:
    """A worker that holds a try whose row is there (its answer was lost) is not adopted."""
    with scene(group=2) as run:
        run.sink.append(key(0), Outcome.GRADED, 1.0)
        restarted(run)
        order = run.beat("w0", holds=holding(key(0)))
    assert (order.held, order.drop) == (key(0), True)


def test_stop_is_resumable() -> None:
    """Nothing more is handed out, what is before its grading is dropped, and no row is written for the rest."""
    with scene(group=2) as run:
        run.loaded()
        run.beat("w0"), run.beat("w1")
        run.beat("w0", holds=holding(key(0)))
        run.beat("w1", holds=holding(key(1), past_actions=True))
        status = run.ask(StopAsk(id="x", reason="enough"), RunStatus)
        assert (status.id, status.state, status.reason) == ("x", "stopping", "enough")
        order = run.beat("w0", holds=holding(key(0)))
        assert (order.held, order.drop, order.stop) == (key(0), True, None)
        assert not run.beat("w1", holds=holding(key(1), past_actions=True)).drop
        assert run.ask(StopAsk(id="y", reason="again"), RunStatus).reason == "enough"
        run.sink.append(key(1), Outcome.GRADED, 1.0)
        run.beat("w0")
        run.beat("w1", stored=key(1))
        run.until(lambda: run.run.state == "stopped", "the stop")
        assert run.beat("w0").leave
    assert [row.key for row in run.sink.rows] == [key(1)]


def test_a_stop_does_not_wait_for_a_grading_for_ever() -> None:
    """After the grace the run is stopped, and the try is dropped."""
    with scene(group=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0), past_actions=True))
        run.ask(StopAsk(id="x", reason="enough"), RunStatus)
        run.clock.ahead += GRADING_GRACE_S
        assert run.beat("w0", holds=holding(key(0), past_actions=True)).drop
        run.until(lambda: run.run.state == "stopped", "the stop")


def test_a_model_server_that_stays_away_stops_the_run() -> None:
    """The proxy says so in its beat, which is answered as any other."""
    with scene() as run:
        run.loaded()
        proxy = run.client("proxy")
        down = ProxyBeat(boot="p", state="down", queued=1, running=0, down_s=9.0, message="refused", gave_up=True)
        proxy.send(down)
        assert run.hear(proxy, ProxyOrder).boot == "p"
        status = run.status()
    assert status.state == "stopped"
    assert status.reason == "the model server is down: refused"
    assert (status.policy, status.policy_message, status.queued) == ("down", "refused", 1)


def test_a_desktop_that_is_out_is_told_to_the_sink_until_it_is_stored() -> None:
    """The supervisor's word on a worker; what it held is lost, and without any desktop the run stops."""
    with scene(group=1, desktops=1) as run:
        run.loaded()
        run.beat("w0")
        run.beat("w0", holds=holding(key(0)))
        run.sink.mute = True
        out = DesktopOut(id="o", desktop="w0", reason="its process is FATAL")
        run.ask(out, RunStatus)
        run.ask(out, RunStatus)
        run.clock.ahead += 1.1
        run.until(lambda: len(run.sink.events) >= 2, "the event, again")
        run.sink.mute = False
        run.clock.ahead += 1.1
        run.until(lambda: run.sink.rows and not run.broker._events, "the stored event and row")
        assert len({event.id for event in run.sink.events}) == 1
        event = run.sink.events[0]
        assert (event.desktop, event.event, event.reason) == ("w0", "out", "its process is FATAL")
        assert run.sink.rows[0].outcome == "worker_lost"
        status = run.status()
    assert status.state in ("stopping", "stopped")
    assert status.desktops == {"out": 1}


@pytest.mark.parametrize("message", [PutRow(row={"rollout_id": "r1:g0:0:0"}), Order(boot="x"), ProxyOrder(boot="x")])
def test_a_message_that_is_not_the_brokers_is_refused(message: Message) -> None:
    """With a sentence, counted, and the next one is answered."""
    with scene() as run:
        refused = run.ask(message, Refused)
        assert (refused.about, refused.of) == (type(message).__name__, message.ident())
        assert "the broker takes no" in refused.reason
        assert run.broker.faults.total == 1
        assert run.status().state == "running"


def test_whoever_asks_on_a_full_disk_is_told_to_ask_again() -> None:
    """It is no fault of the broker's, and the same ask is carried out when there is room."""
    with scene() as run:
        state = run.broker.control_desk.root.state
        state.mkdir()
        ask = PauseAsk(id="p", mode="abort")
        refused = run.ask(ask, Refused)
        assert (refused.about, refused.of, refused.again) == ("PauseAsk", "p", True)
        assert "make space there" in refused.reason
        assert (run.status().paused, run.broker.faults.total) == (None, 0)
        state.rmdir()
        assert run.ask(ask, Accepted).id == "p"
        assert run.status().paused == "abort"


def test_a_row_of_another_run_is_counted_and_changes_nothing() -> None:
    """A feed that tells what the tables do not know takes nothing down."""
    with scene() as run:
        run.sink.append(RolloutKey(run="other", group="g0", attempt=0, try_=0), Outcome.GRADED, 1.0)
        run.loaded()
        assert sum(run.run.ignored.values()) == 1
        assert assigned(run.beat("w0")) == key(0)
        assert run.ask(StatusAsk(id="z"), RunStatus).attempts_ended == 0


def test_a_silent_sink_gets_no_new_work() -> None:
    """Until it answers again nothing is handed out."""
    with scene() as run:
        run.loaded()
        run.sink.mute = True
        run.clock.ahead += 6.0
        assert assigned(run.beat("w0")) is None
        run.sink.mute = False
        run.clock.ahead += 1.1
        run.until(lambda: run.clock.monotonic() - run.run._sink_heard < 1.0, "the sink")
        assert assigned(run.beat("w0")) == key(0)
