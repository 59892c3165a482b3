"""What does the broker make of restarts, of processes that were replaced, and of a run that nobody works on any more?"""

from __future__ import annotations

import pytest
from broker_on_paper import beat, feed, holding, key, make_core, run_of

from legato_rl.broker.core import LIFELESS_S, RECONCILE_S
from legato_rl.broker.roster import MOST_REBUILDS, SILENCE_S, Roster
from legato_rl.broker.run import FAILURE_WINDOW, GRADING_GRACE_S
from legato_rl.records import Outcome, Status
from legato_rl.wire import Feed, FeedRow

STORED = [(key(0), Outcome.DESKTOP_FAILED, Status.RETRIED), (key(0, 1), Outcome.WORKER_LOST, Status.RETRIED)]


def test_a_broker_that_knows_no_rows_yet_takes_no_try_away() -> None:
    """After a restart a worker holds the third try of an attempt: it may go on, and is adopted when the rows are here."""
    core = make_core(restarted=True, env_retries=2)
    held = beat(ready=False, holds=holding(key(0, 2)))
    order = core.beat(held, 0.1)
    assert (order.held, order.stop, order.drop, order.assign) == (key(0, 2), None, False, None)
    rows = [FeedRow(n=n, key=k, outcome=o, status=s, reward=None) for n, (k, o, s) in enumerate(STORED, start=1)]
    core.feed(Feed(run="r", rows=rows[:1], last=2), 0.2)
    assert not core.beat(held, 0.3).drop, "half of the rows are not all"
    core.feed(Feed(run="r", rows=rows[1:], last=2), 0.4)
    order = core.beat(held, 0.5)
    assert (order.held, order.stop, order.drop) == (key(0, 2), None, False)
    feed(core, now=RECONCILE_S)
    assigned = core.beat(beat("w1"), RECONCILE_S).assign
    assert assigned is not None
    assert assigned.key == key(1), "what is held is handed out to nobody else"


def test_a_broker_that_knows_the_rows_drops_what_is_not_the_present_try() -> None:
    """The same worker, were its row stored meanwhile."""
    core = make_core(restarted=True, env_retries=2)
    feed(core, *STORED)
    assert core.beat(beat(ready=False, holds=holding(key(0, 1))), 0.5).drop


def test_beats_of_a_replaced_process_say_nothing() -> None:
    """They may come interleaved with the new one's: nothing is lost, nothing is rebuilt, and the old one is told to leave."""
    core = make_core()
    feed(core)
    core.beat(beat(boot="old"), 0.0)
    core.beat(beat(boot="new"), 1.0)
    core.beat(beat(boot="new", ready=False, holds=holding(key(1))), 1.1)
    owed = run_of(core).groups.owed()
    for n in range(8):
        late = core.beat(beat(boot="old", ready=False, built=0, build_failures=n, phase="booting"), 1.2)
        assert (late.boot, late.leave, late.assign, late.rebuild) == ("old", True, None, 0)
        order = core.beat(beat(boot="new", ready=False, holds=holding(key(1))), 1.3)
        assert (order.boot, order.held, order.drop, order.leave) == ("new", key(1), False, False)
    assert core.changes == []
    assert run_of(core).groups.owed() == owed == [(key(0), Outcome.WORKER_LOST)]
    assert core.roster.workers["w0"].heard_at == 1.3
    assert sum(core.ignored.values()) == 8


def test_an_older_process_never_replaces_a_newer_one() -> None:
    """A new broker reads the new process's beat first, and then a late one of the dead: the live one keeps its try."""
    core = make_core(restarted=True)
    feed(core)
    held = beat(boot="new", started=20.0, ready=False, holds=holding(key(1)))
    core.beat(held, 0.1)
    late = core.beat(beat(boot="old", started=10.0, ready=False, holds=holding(key(0))), 0.2)
    assert (late.boot, late.leave, late.drop) == ("old", True, False)
    order = core.beat(held, 0.3)
    assert (order.held, order.drop, order.leave) == (key(1), False, False)
    assert core.beat(beat(boot="newer", started=30.0), 0.4).leave is False
    assert run_of(core).groups.owed() == [(key(1), Outcome.WORKER_LOST)]
    assert core.changes == []


def test_beats_of_a_replaced_process_do_not_keep_a_worker_alive() -> None:
    """The new process fell silent: what it held is lost, whatever the old one goes on to say."""
    core = make_core()
    feed(core)
    core.beat(beat(boot="old"), 0.0)
    core.beat(beat(boot="new"), 0.0)
    core.beat(beat(boot="new", ready=False, holds=holding(key(1))), 0.0)
    core.beat(beat(boot="old", ready=False), SILENCE_S)
    core.tick(SILENCE_S + 1)
    assert (key(1), Outcome.WORKER_LOST) in run_of(core).groups.owed()


def test_a_broker_that_was_held_up_takes_nobody_for_silent() -> None:
    """Beats of more workers than a socket hands over at once wait for it: those that it has not read yet lose no try."""
    core = make_core()
    feed(core)
    for n in (0, 1):
        core.beat(beat(f"w{n}"), 0.0)
        core.beat(beat(f"w{n}", ready=False, holds=holding(key(n))), 0.0)
    core.tick(0.25)
    back = 10 * SILENCE_S
    assert not core.beat(beat("w0", ready=False, holds=holding(key(0))), back).drop
    core.tick(back)
    assert not core.beat(beat("w1", ready=False, holds=holding(key(1))), back + 0.25).drop
    assert run_of(core).groups.owed() == []
    for seconds in range(1, int(SILENCE_S) + 2):
        core.beat(beat("w0", ready=False, holds=holding(key(0))), back + seconds)
        core.tick(back + seconds)
    assert run_of(core).groups.owed() == [(key(1), Outcome.WORKER_LOST)], "who says nothing from then on is missed"


@pytest.mark.parametrize("heard", [True, False])
def test_a_run_that_no_worker_works_on_stops(heard: bool) -> None:
    """Whether they fell silent or never spoke: resumable, after minutes, and with a reason."""
    core = make_core()
    begun = 0.0
    if heard:
        begun = 50.0
        core.beat(beat(), begun)
    feed(core, now=begun)
    core.tick(begun + LIFELESS_S)
    assert run_of(core).state == "running"
    core.tick(begun + LIFELESS_S + 1)
    assert run_of(core).state in ("stopping", "stopped")
    assert run_of(core).reason == f"no worker was heard for {LIFELESS_S:.0f} s: see the workers' logs"
    assert all(outcome is Outcome.WORKER_LOST for _, outcome in run_of(core).groups.owed()), "nothing is skipped"


def test_a_run_with_one_worker_left_goes_on() -> None:
    """One beat of anybody is a sign of life."""
    core = make_core()
    feed(core)
    core.beat(beat("w0"), 0.0)
    core.beat(beat("w1"), 0.0)
    for now in range(0, 2 * int(LIFELESS_S), 10):
        core.beat(beat("w1", ready=False), float(now))
        core.tick(float(now))
    assert run_of(core).state == "running"


def test_a_stopping_run_whose_last_try_is_graded_is_finished() -> None:
    """What was asked for is all there: there is nothing to resume."""
    core = make_core(group=1)
    feed(core)
    core.beat(beat(), 0.0)
    held = beat(ready=False, holds=holding(key(0), past_actions=True))
    core.beat(held, 0.0)
    core.stop("asked", 1.0)
    core.tick(1.0)
    assert run_of(core).state == "stopping"
    feed(core, (key(0), Outcome.GRADED, Status.OK), now=2.0)
    assert run_of(core).state == "finished"
    core.tick(1.0 + GRADING_GRACE_S)
    assert run_of(core).state == "finished"
    assert core.beat(beat(stored=key(0)), 3.0).leave


def test_a_stopped_run_stays_stopped() -> None:
    """Workers were told to leave, and so were those who watch: a late row changes the counts alone."""
    core = make_core(group=1)
    feed(core)
    core.stop("asked", 1.0)
    core.tick(1.0)
    assert run_of(core).state == "stopped"
    feed(core, (key(0), Outcome.GRADED, Status.OK), now=2.0)
    assert (run_of(core).state, run_of(core).rows["ok"]) == ("stopped", 1)


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.NOT_STARTED])
def test_tries_that_were_not_run_to_their_end_say_nothing_of_the_desktops(outcome: Outcome) -> None:
    """Between 11 failures and 8 verdicts they neither hide the failures nor make up the twentieth try."""
    core = make_core(groups=60, group=1, env_retries=0, desktops=60)
    feed(core)
    status = Status.CANCELLED if outcome is Outcome.STOPPED else Status.SKIPPED
    for i in range(11):
        feed(core, (key(0, group=f"t{2 * i}"), Outcome.DESKTOP_FAILED, Status.ERROR))
        feed(core, (key(0, group=f"t{2 * i + 1}"), outcome, status))
    for i in range(30, 30 + FAILURE_WINDOW - 12):
        feed(core, (key(0, group=f"t{i}"), Outcome.GRADED, Status.OK))
    assert run_of(core).state == "running", "19 tries are no window yet"
    feed(core, (key(0, group="t59"), Outcome.GRADED, Status.OK))
    assert run_of(core).state == "stopping"
    assert run_of(core).reason == f"11 of the last {FAILURE_WINDOW} tries failed on the desktop"


def test_a_worker_whose_desktop_is_out_is_told_to_leave() -> None:
    """Not in the middle of a try; and it gets no other."""
    core = make_core()
    feed(core)
    core.lost_desktop("w0", "FATAL")
    assert core.beat(beat(), 0.0).leave
    core.beat(beat("w1"), 0.0)
    core.beat(beat("w1", ready=False, holds=holding(key(0))), 0.0)
    core.lost_desktop("w1", "FATAL")
    order = core.beat(beat("w1", ready=False, holds=holding(key(0))), 0.0)
    assert (order.leave, order.drop) == (False, True), "its row is the broker's to write"
    order = core.beat(beat("w1"), 0.0)
    assert (order.leave, order.assign) == (True, None)


def test_what_a_worker_holds_goes_before_what_it_was_given_by_an_older_beat() -> None:
    """A restarted broker heard it idle first, and has work for it: its try goes on, and the other one waits again."""
    core = make_core(restarted=True)
    feed(core)
    core.beat(beat(), RECONCILE_S - 1)
    (order,) = feed(core, now=RECONCILE_S)
    assert order.assign is not None
    assert order.assign.key == key(0)
    order = core.beat(beat(ready=False, holds=holding(key(1))), RECONCILE_S)
    assert (order.held, order.drop) == (key(1), False)
    assigned = core.beat(beat("w1"), RECONCILE_S).assign
    assert assigned is not None
    assert assigned.key == key(0)


def test_a_try_that_a_worker_gives_back_costs_nothing() -> None:
    """Its process is to end: the same try goes to another, no row is owed, and the next process lost nothing."""
    core = make_core()
    feed(core)
    core.beat(beat("w0"), 0.0)
    core.beat(beat("w0", holds=holding(key(0)), ready=False), 0.1)
    core.beat(beat("w0", dropped=key(0), ready=False), 0.2)
    core.beat(beat("w0", boot="w0-2", ready=False), 0.3)
    assert run_of(core).groups.owed() == []
    assigned = core.beat(beat("w1"), 0.4).assign
    assert assigned is not None
    assert assigned.key == key(0)


def test_a_desktop_that_was_out_begins_anew_with_a_new_process() -> None:
    """In a service, somebody mended it and started its worker: that is no failed boot, and what was counted is forgotten."""
    roster = Roster(revive=True)
    for n in range(MOST_REBUILDS + 2):
        worker, _, changes = roster.beat(beat(boot=f"b{n}", ready=False, phase="booting"), 0.0)
    assert [change.event for change in changes] == ["out"]
    worker, _, changes = roster.beat(beat(boot="mended", ready=False, phase="booting"), 1.0)
    assert (changes, worker.out, worker.rebuilds, worker.failures) == ([], None, 0, 0)
    _, _, changes = roster.beat(beat(boot="again", ready=False, phase="booting"), 2.0)
    assert [change.event for change in changes] == ["rebuilt"], "from here it counts as any other"


def test_a_desktop_that_is_out_leaves_once_each_time_that_somebody_starts_it() -> None:
    """Its boots take its process down: the last process is told to leave, whatever it says, and no other comes by itself.

    Where somebody starts one, it has as many boots again; one that passes its self-check is back for good.
    """
    core = make_core(desktops=1)
    core.roster.revive = True
    for start in range(3):
        told = [
            core.beat(beat(boot=f"{start}/{n}", ready=False, built=0, phase="booting"), 0.0) for n in range(MOST_REBUILDS + 2)
        ]
        assert [order.leave for order in told] == [False] * (MOST_REBUILDS + 1) + [True]
        last = beat(boot=f"{start}/{MOST_REBUILDS + 1}", ready=False, built=0, phase="closing")
        assert all(core.beat(last, float(n)).leave for n in range(3))
    assert [change.event for change in core.changes] == 3 * ([*["rebuilt"] * MOST_REBUILDS, "out"])
    for n in range(3):
        assert not core.beat(beat(boot=f"mended {n}"), 5.0).leave
    assert core.roster.counts() == {"idle": 1}
    assert core.roster.workers["w0"].rebuilds == 0


def test_a_desktop_that_its_supervisor_gave_up_begins_anew_after_a_restart_of_the_broker() -> None:
    """The new broker knows by its file alone that it is out; the worker that somebody started since owes it nothing."""
    roster = Roster(revive=True)
    roster.put_out("w0", "FATAL")
    worker, _, changes = roster.beat(beat(boot="mended", ready=False, phase="booting"), 1.0)
    assert (changes, worker.out, worker.rebuilds) == ([], None, 0)


def test_restarts_of_a_worker_without_a_desktop_say_nothing_of_one() -> None:
    """It is parked, whatever its process had come to; also where a desktop is asked of it just before the next one beats."""
    core = make_core(desktops=1)
    feed(core)
    for n, phase in enumerate(("booting", "parked", "closing", "parked", "booting", "parked")):
        assert core.beat(beat("w1", boot=f"b{n}", ready=False, built=0, phase=phase), float(n)).park
    core.desktops = 2
    assert not core.beat(beat("w1", boot="wanted", ready=False, built=0, phase="booting"), 9.0).park
    assert core.changes == []
    core.beat(beat("w1", boot="failed", ready=False, built=0, phase="booting"), 10.0)
    assert [change.event for change in core.changes] == ["rebuilt"]
