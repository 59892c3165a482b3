"""The broker's decisions: beats, rows and time in, orders out; no socket, no clock."""

from __future__ import annotations

from broker_on_paper import beat, feed, holding, key, make_core, run_of

from legato_rl.broker.core import RECONCILE_S
from legato_rl.broker.roster import SILENCE_S
from legato_rl.broker.run import GRADING_GRACE_S, SINK_SILENT_S
from legato_rl.records import Outcome, Status
from legato_rl.wire import Feed, FeedRow, ProxyBeat


def test_nothing_is_handed_out_before_the_sink_was_heard() -> None:
    """A silent sink stops assignment, at the start and later."""
    core = make_core()
    assert core.beat(beat(), 0.0).assign is None
    feed(core, now=1.0)
    assigned = core.beat(beat(), 1.0).assign
    assert assigned is not None
    assert assigned.key == key(0)
    assert core.beat(beat("w1"), 1.0 + SINK_SILENT_S).assign is None
    feed(core, now=2.0 + SINK_SILENT_S)
    assert core.beat(beat("w1"), 2.0 + SINK_SILENT_S).assign is not None


def test_an_assignment_is_repeated_until_it_is_held_and_never_after_it_is_stored() -> None:
    """The order repeats the same try; once the worker saw it stored it gets another one."""
    core = make_core()
    feed(core)
    for _ in range(3):
        assigned = core.beat(beat(), 0.0).assign
        assert assigned is not None
        assert assigned.key == key(0)
    order = core.beat(beat(ready=False, holds=holding(key(0))), 0.0)
    assert (order.assign, order.held, order.stop, order.drop) == (None, key(0), None, False)
    # The worker saw it stored, the feed has not told yet: what it says decides about the desktop's health, so wait for it.
    assert core.beat(beat(stored=key(0)), 0.0).assign is None
    (order,) = feed(core, (key(0), Outcome.GRADED, Status.OK))
    assert order.assign is not None
    assert order.assign.key == key(1)


def test_an_idle_worker_hears_of_new_work_at_once() -> None:
    """A try that is queued again goes to whoever is idle when its row comes, without waiting for a beat."""
    core = make_core(group=1)
    feed(core)
    core.beat(beat("w0"), 0.0)
    core.beat(beat("w1"), 0.0)
    core.beat(beat("w0", ready=False, holds=holding(key(0))), 0.0)
    (order,) = feed(core, (key(0), Outcome.DESKTOP_FAILED, Status.RETRIED))
    assert (order.boot, order.assign.key) == ("w1-1", key(0, 1))


def test_a_new_boot_and_silence_lose_what_was_held() -> None:
    """Either way a worker_lost row is owed, and the try after it is queued only when that row is stored."""
    core = make_core()
    feed(core)
    core.beat(beat(), 0.0)
    core.beat(beat("w1"), 0.0)
    core.beat(beat(boot="w0-2", ready=False), 1.0)
    assert run_of(core).groups.owed() == [(key(0), Outcome.WORKER_LOST)]
    core.tick(SILENCE_S + 0.5)
    assert [k for k, _ in run_of(core).groups.owed()] == [key(0), key(1)]
    assert core.beat(beat(boot="w0-2"), 1.0).assign is None
    feed(core, (key(0), Outcome.WORKER_LOST, Status.RETRIED), now=SILENCE_S)
    assigned = core.beat(beat(boot="w0-2"), SILENCE_S).assign
    assert assigned is not None
    assert assigned.key == key(0, 1)
    # The silent one comes back and works on what is no longer its own.
    assert core.beat(beat("w1", ready=False, holds=holding(key(1))), SILENCE_S + 2).drop


def test_closing_a_group_stops_the_others_and_skips_the_queued() -> None:
    """With the G-th graded row the runner is told to stop at once, and queued attempts owe a row."""
    core = make_core(oversample=1.0)
    feed(core)
    for i, name in enumerate(("w0", "w1", "w2")):
        core.beat(beat(name), 0.0)
        core.beat(beat(name, ready=False, holds=holding(key(i))), 0.0)
    orders = feed(core, (key(0), Outcome.GRADED, Status.OK), (key(1), Outcome.GRADED, Status.OK))
    assert [(order.held, order.stop) for order in orders] == [(key(2), "group_closed")]
    assert run_of(core).groups.owed() == [(key(3), Outcome.NOT_STARTED)]
    feed(core, (key(3), Outcome.NOT_STARTED, Status.SKIPPED), (key(2), Outcome.STOPPED, Status.CANCELLED))
    assert run_of(core).state == "finished"
    assert core.beat(beat(), 0.0).leave


def test_close_all_waits_for_every_attempt() -> None:
    """Under close=all nobody is stopped, and the group is closed when it has ended."""
    core = make_core(oversample=0.5, close="all")
    feed(core)
    feed(core, (key(0), Outcome.GRADED, Status.OK), (key(1), Outcome.GRADED, Status.OK))
    assert run_of(core).group_counts().open == 1
    feed(core, (key(2), Outcome.EVALUATOR_FAILED, Status.ERROR))
    assert (run_of(core).state, run_of(core).group_counts().closed) == ("finished", 1)


def test_a_restarted_broker_adopts_tries_in_progress() -> None:
    """It listens first; a try that a worker holds goes on and is not handed out a second time."""
    core = make_core(restarted=True)
    feed(core, (key(0), Outcome.DESKTOP_FAILED, Status.RETRIED))
    assert core.beat(beat(), 0.1).assign is None
    order = core.beat(beat("w1", ready=False, holds=holding(key(0, 1))), 0.2)
    assert (order.held, order.drop) == (key(0, 1), False)
    feed(core, now=RECONCILE_S)
    assigned = core.beat(beat(), RECONCILE_S).assign
    assert assigned is not None
    assert assigned.key == key(1)


def test_a_desktop_that_keeps_failing_is_rebuilt_and_then_out() -> None:
    """Two failures in a row order a rebuild; three rebuilds without a graded row, and it is out; then the run stops."""
    core = make_core(groups=9, group=1, env_retries=0, desktops=1)
    feed(core)
    rebuilds = []
    for i in range(8):
        worker_beat = beat(built=len(rebuilds) + 1)
        assigned = core.beat(worker_beat, 0.0).assign
        assert assigned is not None
        assert assigned.key.group == f"t{i}"
        feed(core, (assigned.key, Outcome.DESKTOP_FAILED, Status.ERROR))
        order = core.beat(beat(built=len(rebuilds) + 1, stored=assigned.key), 0.0)
        if i % 2 == 1 and i < 7:
            assert order.assign is None
            assert order.rebuild == len(rebuilds) + 2
            rebuilds.append(order.rebuild)
    assert [change.event for change in core.changes] == ["rebuilt", "rebuilt", "rebuilt", "out"]
    assert core.beat(beat(built=4), 0.0).assign is None
    core.tick(0.0)
    assert run_of(core).state in ("stopping", "stopped")
    assert "no desktop is left" in run_of(core).reason


def test_a_graded_row_forgives_failures() -> None:
    """Failures in a row count; a graded try between them starts the count anew."""
    core = make_core(groups=6, group=1, env_retries=0)
    feed(core)
    for outcome in (Outcome.DESKTOP_FAILED, Outcome.GRADED, Outcome.DESKTOP_FAILED):
        assigned = core.beat(beat(), 0.0).assign
        assert assigned is not None
        feed(core, (assigned.key, outcome, Status.OK if outcome is Outcome.GRADED else Status.ERROR))
    assert core.changes == []


def test_builds_that_fail_put_a_desktop_out() -> None:
    """The first build and three rebuilds may fail their self-check; a repeat of the same beat counts nothing."""
    core = make_core()
    feed(core)
    for failures in (1, 1, 2, 3, 4, 4):
        core.beat(beat(ready=False, built=failures, build_failures=failures, message="no screen"), 0.0)
    assert [change.event for change in core.changes] == ["rebuilt", "rebuilt", "rebuilt", "out"]


def test_boots_that_end_the_process_put_a_desktop_out() -> None:
    """A boot that takes its process down is a failed build too; then the worker is told to leave."""
    core = make_core()
    feed(core)
    for i in range(6):
        order = core.beat(beat(boot=f"boot-{i}", ready=False, built=0, phase="booting"), float(i))
    assert [change.event for change in core.changes] == ["rebuilt", "rebuilt", "rebuilt", "out"]
    assert order.leave


def test_a_full_disk_pauses_the_handing_out() -> None:
    """While the sink says that it cannot write, nobody gets a new try; then work goes on at once."""
    core = make_core()
    core.feed(Feed(run="r", rows=[], last=0, trouble="full"), 0.0)
    assert core.beat(beat(), 0.0).assign is None
    (order,) = feed(core)
    assert order.assign is not None


def test_the_run_stops_when_most_tries_fail_on_the_desktop() -> None:
    """More than half of the last 20 tries: stopped, resumable, with the figure in the reason."""
    core = make_core(groups=40, group=1, env_retries=0, desktops=40)
    feed(core)
    for i in range(20):
        bad = i % 2 == 0 or i > 16
        outcome = Outcome.DESKTOP_FAILED if bad else Outcome.GRADED
        feed(core, (key(0, group=f"t{i}"), outcome, Status.ERROR if bad else Status.OK))
    assert run_of(core).state == "stopping"
    assert "12 of the last 20" in run_of(core).reason or "11 of the last 20" in run_of(core).reason


def test_a_resumable_stop_lets_grading_finish() -> None:
    """What is past its last action keeps its try within the grace; everything else is dropped."""
    core = make_core()
    feed(core)
    for i, name in enumerate(("w0", "w1")):
        core.beat(beat(name), 0.0)
        core.beat(beat(name, ready=False, holds=holding(key(i), past_actions=i == 0)), 0.0)
    core.stop("asked", 1.0)
    core.stop("asked again", 2.0)
    assert run_of(core).reason == "asked"
    assert not core.beat(beat("w0", ready=False, holds=holding(key(0), past_actions=True)), 1.0).drop
    assert core.beat(beat("w1", ready=False, holds=holding(key(1))), 1.0).drop
    core.tick(1.0)
    assert run_of(core).state == "stopping"
    core.beat(beat("w1"), 1.1)
    assert core.beat(beat("w0", ready=False, holds=holding(key(0), past_actions=True)), 1.0 + GRADING_GRACE_S).drop
    core.tick(1.0 + GRADING_GRACE_S)
    assert run_of(core).state == "stopped"
    assert run_of(core).groups.owed() == []


def test_a_server_that_stays_down_stops_the_run() -> None:
    """The proxy gave up: nothing is skipped, and the reason is the server's."""
    core = make_core()
    feed(core)
    core.heard_proxy(ProxyBeat(boot="p", state="down", queued=0, running=0, down_s=601, message="refused", gave_up=True), 0.0)
    core.tick(0.0)
    assert run_of(core).state == "stopped"
    assert "refused" in run_of(core).reason
    assert run_of(core).groups.owed() == []


def test_late_rows_are_ignored_and_counted() -> None:
    """A row that no table entry knows takes nothing down."""
    core = make_core()
    feed(core, (key(0, 3), Outcome.GRADED, Status.OK))
    assert sum(run_of(core).ignored.values()) == 1
    assert run_of(core).feed_last == 1


def test_a_gap_in_the_feed_changes_nothing() -> None:
    """Rows are taken in order only; the shell asks again from where the core stands."""
    core = make_core()
    row = FeedRow(n=5, key=key(0), outcome=Outcome.GRADED, status=Status.OK, reward=1.0)
    core.feed(Feed(run="r", rows=[row], last=5), 0.0)
    assert run_of(core).feed_last == 0
    assert run_of(core).rows == {}


def test_a_worker_that_its_supervisor_gave_up_is_out() -> None:
    """Its try is lost and its desktop out, once."""
    core = make_core()
    feed(core)
    core.beat(beat(), 0.0)
    core.lost_desktop("w0", "FATAL")
    core.lost_desktop("w0", "FATAL")
    core.lost_desktop("w9", "FATAL")
    assert [(change.desktop, change.event) for change in core.changes] == [("w0", "out"), ("w9", "out")]
    assert run_of(core).groups.owed() == [(key(0), Outcome.WORKER_LOST)]


def test_a_restarted_broker_owes_nothing_before_workers_were_heard() -> None:
    """An attempt that ran while its group closed is not written off as never started; it is taken back and finishes."""
    core = make_core(restarted=True, group=1, oversample=1.0)
    feed(core, (key(0), Outcome.GRADED, Status.OK))
    assert core.owed(0.0) == []
    order = core.beat(beat("w1", ready=False, holds=holding(key(1))), 0.5)
    assert (order.held, order.drop, order.stop) == (key(1), False, "group_closed")
    assert core.owed(RECONCILE_S) == []
    feed(core, (key(1), Outcome.GRADED, Status.SURPLUS), now=RECONCILE_S)
    assert run_of(core).state == "finished"
