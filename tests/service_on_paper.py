"""What surrounds the broker's core when anything may happen? Workers, a sink and the ways between them, on paper and by lot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from legato_rl.broker.core import Core
from legato_rl.broker.groups import State
from legato_rl.broker.run import Run
from legato_rl.config import PolicyConfig, Settings
from legato_rl.records import GRADED_OUTCOMES, FeedRow, Outcome, RolloutKey, Status
from legato_rl.rundir import TaskSpec
from legato_rl.status import decide
from legato_rl.wire import Beat, Feed, Holding, Order, PolicyName

ENDS = [
    *([Outcome.GRADED] * 6),
    *(Outcome.TIMED_OUT_GRADED, Outcome.DESKTOP_FAILED, Outcome.EVALUATOR_FAILED, Outcome.POLICY_FAILED),
]


@dataclass
class PaperSink:
    """A run's rows, and what it was made with: what survives every process."""

    run_id: str
    settings: Settings
    tasks: list[TaskSpec]
    priority: int
    rows: list[FeedRow] = field(default_factory=list)
    cancelled: set[tuple[str, int]] = field(default_factory=set)

    def store(self, key: RolloutKey, outcome: Outcome) -> None:
        """Append a row, unless the key has one."""
        if any(row.key == key for row in self.rows):
            return
        graded = sum(row.key.group == key.group and row.outcome in GRADED_OUTCOMES for row in self.rows)
        status = decide(outcome, key.try_, graded, self.settings.closing, self.settings.env_retries)
        reward = 1.0 if outcome in GRADED_OUTCOMES else None
        self.rows.append(FeedRow(n=len(self.rows) + 1, key=key, outcome=outcome, status=status, reward=reward))

    def open(self) -> Run:
        """The run as a broker finds it, its rows still to come."""
        run = Run(self.run_id, self.settings, self.tasks, priority=self.priority)
        for group, number in sorted(self.cancelled):
            run.groups.cancel(group, number)
        return run


@dataclass
class PaperWorker:
    """A worker's process. `putting`: the row that it sends to the sink until that is stored."""

    name: str
    boot: str
    holds: RolloutKey | None = None
    putting: Outcome | None = None
    stored: RolloutKey | None = None
    built: int = 1
    parked: bool = False
    alive: bool = True

    def beat(self) -> Beat:
        """How it is now."""
        held = (
            Holding(key=self.holds, lease=1, phase="act", step=1, past_actions=self.putting is not None) if self.holds else None
        )
        return Beat(
            worker=self.name,
            boot=self.boot,
            ready=held is None and not self.parked,
            phase="act" if held else "idle",
            holds=held,
            stored=self.stored,
            built=self.built,
            build_failures=0,
        )

    def obey(self, order: Order) -> None:
        """Do what the broker says, where it is said to this process and of what it holds."""
        if not self.alive or order.boot != self.boot:
            return
        if self.holds is None:
            self.alive = not order.leave
            self.parked = order.park
            self.built = max(self.built, order.rebuild)
            if self.alive and not self.parked and order.assign is not None and order.assign.key != self.stored:
                self.holds = order.assign.key
        elif order.held == self.holds and order.drop:
            self.holds = self.putting = None
        elif order.held == self.holds and order.stop is not None and self.putting is None:
            self.putting = Outcome.STOPPED


class World:
    """A service on paper. Every method is one event, and checks what must be true after it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.desktops, self.holding, self.boots = 3, False, 0
        self.sinks: dict[str, PaperSink] = {}
        self.workers = {f"worker-00{n}": self._process(f"worker-00{n}") for n in range(4)}
        self.heard: dict[str, list[str]] = {}
        """The boots of each worker, in the order in which the present broker heard them."""
        self.beats: list[Beat] = []
        self.orders: list[Order] = []
        self.feeds: list[Feed] = []
        self.puts: list[tuple[RolloutKey, Outcome]] = []
        self.core = self._core(restarted=False)

    def _process(self, name: str) -> PaperWorker:
        self.boots += 1
        return PaperWorker(name, f"boot-{self.boots}")

    def _core(self, restarted: bool) -> Core:
        core = Core(self.desktops, None, PolicyName(model="m", version="0"), False, restarted, self.now)
        core.holding = self.holding
        for sink in self.sinks.values():
            core.begin(sink.open())
        return core

    # --- what may happen ---------------------------------------------------------------------------------------------

    def submit(self) -> None:
        """One more run, of some size and priority."""
        rng, run_id = self.rng, f"r{len(self.sinks)}"
        made = {
            **{"group": rng.randint(1, 3), "oversample": rng.choice([0.0, 0.5, 1.0]), "env_retries": rng.randint(0, 2)},
            **{"close": rng.choice(["first", "all"]), "stop_failure_share": 1.0, "desktops": 4},
        }
        names = [f"g{n}" for n in range(rng.randint(1, 2))]
        tasks = [TaskSpec(task_id=n, group_id=n, domain=None, config={"id": n}, max_steps=5) for n in names]
        settings = Settings(policy=PolicyConfig("fake", "m"), **made)
        self.sinks[run_id] = PaperSink(run_id, settings, tasks, rng.randint(0, 2))
        self.core.begin(self.sinks[run_id].open())

    def say(self, worker: PaperWorker) -> None:
        """A worker beats; the beat may take its time, or come twice."""
        if worker.alive:
            self.beats += [worker.beat()] * self.rng.choice([1, 1, 1, 2])

    def hear(self, place: int = 0) -> None:
        """A beat reaches the broker, whose answer may take its time or be lost."""
        if self.beats:
            beat = self.beats.pop(place)
            known = self.core.roster.workers.get(beat.worker)
            replaced = self.heard.get(beat.worker, []).count(beat.boot) and self.heard[beat.worker][-1] != beat.boot
            before = known.expected if known else None
            with self.checked():
                order = self.core.beat(beat, self.now)
            if replaced:
                assert (order.leave, order.assign) == (True, None), "a process that was replaced has no say"
                assert self.core.roster.workers[beat.worker].expected == before
            else:
                self.heard.setdefault(beat.worker, []).append(beat.boot)
                self.check_order(beat, order)
            self._reply(order)

    def _reply(self, *orders: Order) -> None:
        for order in orders:
            self.orders += [order] * self.rng.choice([0, 1, 1, 1, 2])

    def obey(self, place: int = 0) -> None:
        """An order reaches its worker, if that process is still there."""
        if self.orders:
            order = self.orders.pop(place)
            for worker in self.workers.values():
                worker.obey(order)

    def work(self, worker: PaperWorker) -> None:
        """A worker comes to the end of what it holds, or hears that its row is stored."""
        if worker.alive and worker.holds is not None:
            if worker.putting is None:
                worker.putting = self.rng.choice(ENDS)
            else:
                self.sinks[worker.holds.run].store(worker.holds, worker.putting)
                worker.stored, worker.holds, worker.putting = worker.holds, None, None

    def ask(self, sink: PaperSink) -> None:
        """The sink tells some of the rows after the last one that the broker has; that may take its time."""
        run = self.core.runs.get(sink.run_id)
        if run is not None:
            first = max(0, run.feed_last - self.rng.choice([0, 0, 1]))
            rows = sink.rows[first : first + self.rng.choice([1, 3, 500])]
            self.feeds += [Feed(run=sink.run_id, rows=rows, last=len(sink.rows))] * self.rng.choice([1, 1, 2])

    def learn(self, place: int = 0) -> None:
        """What the sink told reaches the broker."""
        if self.feeds:
            with self.checked():
                self._reply(*self.core.feed(self.feeds.pop(place), self.now))

    def owe(self) -> None:
        """The broker sends the rows that it owes."""
        self.puts += self.core.owed(self.now)

    def put(self, place: int = 0) -> None:
        """One of them is stored."""
        if self.puts:
            key, outcome = self.puts.pop(place)
            self.sinks[key.run].store(key, outcome)

    def die(self, worker: PaperWorker) -> None:
        """A worker's process is replaced; what it had sent may still come."""
        self.workers[worker.name] = self._process(worker.name)

    def restart(self) -> None:
        """The broker's process is replaced; what the sink told the old one is lost."""
        self.feeds.clear()
        self.heard.clear()
        self.core = self._core(restarted=True)

    def steer(self) -> None:
        """A trainer pauses or resumes, parks or unparks, or cancels an attempt."""
        choice = self.rng.randrange(5)
        if choice < 3:
            self.holding = self.core.holding = choice == 0 and not self.holding
        elif choice == 3:
            self.desktops = self.core.desktops = self.rng.randint(1, 4)
        elif self.sinks:
            sink = self.rng.choice(list(self.sinks.values()))
            group, number = self.rng.choice(sink.tasks).group_id, self.rng.randrange(sink.settings.attempts)
            sink.cancelled.add((group, number))
            if sink.run_id in self.core.runs:
                self.core.runs[sink.run_id].groups.cancel(group, number)

    def wait(self, seconds: float) -> None:
        """Time passes, and the broker looks each second at least."""
        with self.checked():
            for _ in range(looks := max(1, int(seconds))):
                self.now += seconds / looks
                self.core.tick(self.now)

    def resume(self) -> None:
        """Runs that were stopped (no desktop was left, nobody beat) go on."""
        for run_id, run in list(self.core.runs.items()):
            if run.state == "stopped":
                self.core.runs.pop(run_id)
                self.core.begin(self.sinks[run_id].open())

    # --- what must be true -------------------------------------------------------------------------------------------

    @contextmanager
    def checked(self) -> Iterator[None]:
        """One call of the core: what it handed out meanwhile, and how everything stands after it."""
        before = {worker.name: worker.expected for worker in self.core.roster.workers.values()}
        yield
        for worker in self.core.roster.workers.values():
            key, holds = worker.expected, worker.beat.holds
            if key is None or key == before.get(worker.name) or (holds is not None and holds.key == key):
                continue
            run = self.core.runs[key.run]
            known = {row.key: row for row in self.sinks[key.run].rows[: run.feed_last]}
            assert not self.core.holding, "nothing is handed out while paused or drained"
            assert not self.core.parked(worker.name)
            assert worker.out is None
            assert key not in known, "a key that is stored is never handed out again"
            assert key.try_ == 0 or known[key.model_copy(update={"try_": key.try_ - 1})].status is Status.RETRIED
            assert (key.group, key.attempt) not in self.sinks[key.run].cancelled, "what was cancelled is not begun"
            closing = self.sinks[key.run].settings.close == "first"
            graded = sum(k.group == key.group and row.outcome in GRADED_OUTCOMES for k, row in known.items())
            assert not closing or graded < run.settings.group, "a closed group gets no more"
            higher = [other for other in self.core.live() if other.priority > run.priority and other.may_hand_out(self.now)]
            waits = [g.attempts[n].key for other in higher for g in other.groups.groups.values() for n in g.queue]
            assert not [one for one in waits if self.core.elsewhere.avoided.get(one, ("",))[0] != worker.name]
        self.check()

    def check_order(self, beat: Beat, order: Order) -> None:
        """What a worker that holds something is told: to go on where it can, and to stop where it should."""
        run = self.core.runs.get(beat.holds.key.run) if beat.holds else None
        if beat.holds is None or run is None or run.state != "running" or not run.loaded:
            return
        key = beat.holds.key
        attempt, mine = run.groups.attempt(key), self.core.roster.workers[beat.worker].expected == key
        elsewhere = attempt is not None and attempt.state is State.HELD and not mine
        if order.drop:
            assert not mine
            assert attempt is None or elsewhere or attempt.state in (State.LOST, State.ENDED), "what could go on goes on"
        elif run.groups.is_closed(key.group):
            assert order.stop == "group_closed"
        else:
            assert order.stop == ("asked" if (key.group, key.attempt) in self.sinks[key.run].cancelled else None)

    def check(self) -> None:
        """How everything stands."""
        expected = [worker.expected for worker in self.core.roster.workers.values() if worker.expected is not None]
        assert len(set(expected)) == len(expected), "no two live workers should hold the same"
        assert all(not worker.silent for worker in self.core.roster.workers.values() if worker.expected is not None)
        held = set()
        for run in self.core.runs.values():
            assert run.ignored == {}, "the tables know every row"
            for group in run.groups.groups.values():
                queued = [n for n, attempt in enumerate(group.attempts) if attempt.state is State.QUEUED]
                assert sorted(group.queue) == queued
                held |= {attempt.key for attempt in group.attempts if attempt.state is State.HELD}
        assert held == set(expected), "what is held, somebody should hold"
