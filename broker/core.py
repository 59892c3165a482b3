"""What should each worker do now? PURE: beats, stored rows, asks and time in; orders and owed rows out.

The one door for decisions: it joins the runs (run.py) with what they share, the desktops (roster.py, tokens.py), the
policies and the proxy. It hands nothing out while it is paused or drained, nor (after a restart of this process) before
the workers had time to say what they hold.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from legato_rl.broker.elsewhere import Elsewhere
from legato_rl.broker.policies import Policies
from legato_rl.broker.roster import HealthChange, Roster, Worker, number_of
from legato_rl.broker.run import Run
from legato_rl.broker.tokens import BootTokens
from legato_rl.records import Outcome, RolloutKey, Status, StopReason
from legato_rl.wire import Beat, Feed, Order, PolicyName, ProxyBeat

RECONCILE_S = 3.0
"""Seconds that a restarted broker listens to beats before it hands anything out."""
LIFELESS_S = 300.0
"""Seconds without a beat of any worker after which the runs stop."""


@dataclass
class Core:
    """The decisions of a service. `once`: of its single run, after which workers leave. `restarted`: not the first broker.

    `desktops` work, of those that there are the first by number; the others have none. `boots_at_once` may boot.
    """

    desktops: int
    boots_at_once: int | None
    default: PolicyName
    once: bool
    restarted: bool
    now: float
    runs: dict[str, Run] = field(default_factory=dict)
    """In the order in which they were submitted; those that are over until `forget`."""
    proxy: ProxyBeat | None = None
    holding: bool = False
    """Paused or drained: nothing new is begun."""
    closed: set[str] = field(default_factory=set)
    """Runs that are over, whose folder is closed and whose end is written."""
    leaving: bool = False
    """Everybody is to go once what is held has ended."""
    changes: list[HealthChange] = field(default_factory=list)
    """What became of desktops since the shell last took this list."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Events that the tables do not know, by what they were."""

    def __post_init__(self) -> None:
        self.roster = Roster(revive=not self.once)
        self.elsewhere = Elsewhere()
        self.tokens = BootTokens(self.boots_at_once)
        self.policies = Policies(self.default)
        self._open_at = self.now + (RECONCILE_S if self.restarted else 0.0)
        self._life_at = self.now
        self._last_out = ""

    # --- runs --------------------------------------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """A run is there. One that went on before under the same id is forgotten."""
        self.runs.pop(run.run_id, None)
        self.closed.discard(run.run_id)
        self.elsewhere.forget(run.run_id)
        self.runs[run.run_id] = run
        for worker in self.roster.workers.values():
            if worker.expected is not None and worker.expected.run == run.run_id:
                # What it still holds is adopted with its next beat.
                self._let_go(worker)
        policy = run.settings.policy
        self.policies.begin(run.run_id, PolicyName(model=policy.model, version=policy.version))

    def forget(self, run_id: str) -> None:
        """A run that is over may go. One that stopped keeps its policies: it may be resumed."""
        self.closed.discard(run_id)
        self.elsewhere.forget(run_id)
        run = self.runs.pop(run_id, None)
        if run is None or run.state == "finished":
            self.policies.end(run_id)

    def live(self) -> list[Run]:
        """The runs that are not over, in the order in which they get desktops: by priority, then as they came."""
        return sorted((run for run in self.runs.values() if not run.over), key=lambda run: -run.priority)

    def stop(self, reason: str, now: float) -> None:
        """Stop every run, resumable."""
        for run in self.live():
            run.stop(reason, now)

    # --- events ------------------------------------------------------------------------------------------------------

    def beat(self, beat: Beat, now: float) -> Order:
        """A worker beat: the order that answers it."""
        if self.roster.is_past(beat):
            # Old and new beats may come interleaved after this side was busy; the old process is gone, or should be.
            self.ignored["beat of a process that was replaced"] += 1
            return Order(boot=beat.boot, leave=True)
        self._life_at = now
        worker, lost, changes = self.roster.beat(beat, now, self.parked(beat.worker))
        self.tokens.ask(worker.name, beat.boot_ask)
        self._changed(changes)
        if lost is not None:
            self._lose(lost)
        holds = beat.holds.key if beat.holds else None
        if holds is None and worker.expected is not None:
            run = self.runs.get(worker.expected.run)
            given_back = beat.dropped == worker.expected or self.parked(worker.name)
            if run is None or run.state != "running" or given_back:
                self._take_back(worker.expected)
                self._let_go(worker)
        elif holds is not None and holds != worker.expected:
            run = self.runs.get(holds.run)
            if run is not None and run.groups.adopt(holds):
                # After a restart of this side it may have been given another one, by a beat of before it held this.
                self._take_back(worker.expected)
                self.roster.expect(worker, holds)
        self._assign(worker, now)
        return self.order(worker, now)

    def order(self, worker: Worker, now: float) -> Order:
        """What `worker` should hold, as its last beat and the runs stand, and whether it may boot."""
        granted, park = self.tokens.granted.get(worker.name, 0), self.parked(worker.name)
        return self._held(worker, now).model_copy(update={"may_boot": granted, "park": park})

    def _held(self, worker: Worker, now: float) -> Order:
        beat = worker.beat
        holding = beat.holds
        if holding is None:
            # A key that the worker saw stored is never assigned again, though the feed may not have told it yet.
            key = worker.expected if worker.expected != beat.stored else None
            run = self.runs.get(key.run) if key else None
            assignment = run.assignment(key, self.policies.number(key.run)) if run and key else None
            return Order(boot=beat.boot, assign=assignment, rebuild=worker.rebuild, leave=self._may_leave(worker))
        key, run = holding.key, self.runs.get(holding.key.run)
        if key != worker.expected and run is not None and not run.loaded:
            # Which try is the present one is not known yet.
            return Order(boot=beat.boot, held=key)
        if key != worker.expected or run is None:
            return Order(boot=beat.boot, held=key, drop=True, rebuild=worker.rebuild)
        if run.state != "running":
            graded_soon = holding.past_actions and run.in_grace(now)
            return Order(boot=beat.boot, held=key, drop=not graded_soon, rebuild=worker.rebuild)
        stop: StopReason | None = run.groups.stop_of(key)
        return Order(boot=beat.boot, held=key, stop=stop, rebuild=worker.rebuild)

    def feed(self, feed: Feed, now: float) -> list[Order]:
        """The sink told rows of a run: the orders that should leave at once.

        To workers whose group closed, and to idle ones for which there is work now.
        """
        run = self.runs.get(feed.run)
        if run is None:
            self.ignored["feed of a run that is over"] += 1
            return []
        closed_before = run.closed()
        run.feed(feed, now)
        for row in run.stored:
            if row.status is Status.RETRIED and row.key in self.roster.holders:
                self.elsewhere.failed(row.key, self.roster.holders[row.key], now)
            self._changed(self.roster.stored(row.key, row.outcome))
        run.stored.clear()
        newly_closed = run.closed() - closed_before
        told = []
        for worker in self.roster.workers.values():
            key = worker.expected
            stops = key is not None and key.run == run.run_id and key.group in newly_closed
            if stops or self._assign(worker, now):
                told.append(self.order(worker, now))
        return told

    def heard_proxy(self, beat: ProxyBeat, now: float, obeyed: bool = True) -> None:
        """The proxy beat. `obeyed`: it has carried the last order out, so what it says of a run is of that run as it is now."""
        self.proxy = beat
        if obeyed:
            without = {one.run: one for one in beat.without_model}
            for run in self.runs.values():
                run.without_model = without[run.run_id].message if run.run_id in without else ""
                if run.without_model and without[run.run_id].gave_up:
                    run.stop(run.without_model, now)
        if beat.gave_up:
            what = "is down" if beat.state == "down" else "only puts calls off"
            self.stop(f"the model server {what}: {beat.message}", now)

    def lost_desktop(self, name: str, reason: str) -> None:
        """The supervisor gave a worker up."""
        lost, changes = self.roster.put_out(name, reason)
        self.tokens.release(name)
        if lost is not None:
            self._lose(lost)
        self._changed(changes)

    def owed(self, now: float) -> list[tuple[RolloutKey, Outcome]]:
        """The rows that this side has to write now; none before the workers had time to say what they hold."""
        if not self.reconciled(now):
            return []
        open_runs = [run for run_id, run in self.runs.items() if run_id not in self.closed]
        return [row for run in open_runs if run.loaded for row in run.groups.owed()]

    def tick(self, now: float) -> None:
        """Time passed."""
        for key in self.roster.silences(now):
            self._lose(key)
        for worker in self.roster.workers.values():
            if worker.silent:
                self.tokens.release(worker.name)
        if now - self._life_at > LIFELESS_S:
            self.stop(f"no worker was heard for {LIFELESS_S:.0f} s: see the workers' logs", now)
        if self._out() >= self.desktops > 0:
            self.stop(f"no desktop is left: the last one is out since {self._last_out}; see desktops.jsonl", now)
        for run in self.live():
            run.tick(now, self.roster.grades(run.run_id) or not self.reconciled(now))

    # --- what follows ------------------------------------------------------------------------------------------------

    def reconciled(self, now: float) -> bool:
        """Whether the workers had time to say what they hold, since this process began."""
        return now >= self._open_at

    def parked(self, name: str) -> bool:
        """Whether a worker is one of those that have no desktop."""
        return number_of(name) >= self.desktops

    def _out(self) -> int:
        return sum(worker.out is not None and not self.parked(worker.name) for worker in self.roster.workers.values())

    def _take_back(self, key: RolloutKey | None) -> None:
        """Nobody works on `key`: it waits again."""
        run = self.runs.get(key.run) if key is not None else None
        if run is not None and key is not None:
            run.groups.drop(key)

    def _let_go(self, worker: Worker) -> None:
        if worker.expected is not None:
            self.roster.holders.pop(worker.expected, None)
        self.roster.expect(worker, None)

    def _lose(self, key: RolloutKey) -> None:
        run = self.runs.get(key.run)
        if run is not None:
            run.groups.lose(key)

    def _may_leave(self, worker: Worker) -> bool:
        over = self.once and bool(self.runs) and not self.live()
        return self.leaving or over or worker.out is not None

    def _changed(self, changes: list[HealthChange]) -> None:
        self.changes += changes
        for change in changes:
            if change.event == "out":
                self._last_out = change.reason

    def _assign(self, worker: Worker, now: float) -> bool:
        """Hand the next try to `worker` if it may take one; whether it got one."""
        if not self._may_assign(worker, now):
            return False
        may = partial(self.elsewhere.may_take, worker.name, others=partial(self._another_works, worker), now=now)
        for run in self.live():
            key = run.groups.take(may) if run.may_hand_out(now) else None
            if key is not None:
                self.elsewhere.taken(key)
                self.roster.expect(worker, key)
                return True
        return False

    def _another_works(self, worker: Worker) -> bool:
        return any(one is not worker and self._works(one) for one in self.roster.workers.values())

    def _works(self, worker: Worker) -> bool:
        """Whether a desktop takes tries, now or once it has ended what it does."""
        return not worker.silent and worker.out is None and not self.parked(worker.name)

    def _may_assign(self, worker: Worker, now: float) -> bool:
        return (
            not self.holding
            and not self.leaving
            and worker.expected is None
            and worker.beat.holds is None
            and self._works(worker)
            and self.reconciled(now)
            and worker.beat.ready
            and worker.rebuild <= worker.beat.built
        )
