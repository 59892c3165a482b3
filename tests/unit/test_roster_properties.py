"""Does the roster lose no key, and count every desktop's failures, whatever beats, rows and silences come in whatever order?"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from legato_rl.broker.roster import FAILURES_TO_REBUILD, LOOK_S, MOST_REBUILDS, SILENCE_S, HealthChange, Roster, Worker
from legato_rl.records import DESKTOP_OUTCOMES, GRADED_OUTCOMES, Outcome, RolloutKey
from legato_rl.wire import Beat, Holding

EVENTS = 200
NAMES = ["worker-000", "worker-001", "worker-002"]


class Books:
    """A roster, and what should become of each key that it is told to expect."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.now = rng, 0.0
        self.roster = Roster(revive=rng.random() < 0.5)
        self.boots = dict.fromkeys(NAMES, 1)
        self.heard = dict.fromkeys(NAMES, 0)
        self.built = dict.fromkeys(NAMES, 1)
        self.failed = dict.fromkeys(NAMES, 0)
        self.given: set[RolloutKey] = set()
        self.lost: list[RolloutKey] = []
        self.stored: set[RolloutKey] = set()
        self.outs: list[tuple[str, str]] = []

    def beat(self, name: str, late: bool = False) -> None:
        """A beat; a late one is of a process before the one that was heard last, whether it was heard itself or not."""
        worker = self.roster.workers.get(name)
        number = self.rng.randint(1, self.heard[name] - 1) if late else self.boots[name]
        holds = worker.expected if worker is not None and not late and self.rng.random() < 0.7 else None
        said = Beat(
            worker=name,
            boot=f"{name}/{number}",
            started=float(number),
            ready=holds is None and self.rng.random() < 0.8,
            phase="act" if holds else "idle",
            holds=Holding(key=holds, lease=1, phase="act", step=0) if holds else None,
            stored=None,
            built=self.built[name],
            build_failures=self.failed[name],
        )
        assert self.roster.is_past(said) == late
        if late:
            return
        self.heard[name] = number
        _, lost, changes = self.roster.beat(said, self.now)
        self.lose([lost] if lost else [], changes)

    def give(self, name: str) -> None:
        """A worker that can take a try gets one."""
        worker = self.roster.workers.get(name)
        if worker is not None and worker.expected is None and not worker.silent and worker.out is None:
            key = RolloutKey(run="r", group="g", attempt=len(self.given), try_=0)
            self.given.add(key)
            self.roster.expect(worker, key)

    def store(self) -> None:
        """The row of a key is stored: also of one that was lost, or a second time."""
        if self.given:
            key = self.rng.choice(sorted(self.given, key=str))
            outcome = self.rng.choice([*DESKTOP_OUTCOMES, *DESKTOP_OUTCOMES, *GRADED_OUTCOMES, Outcome.POLICY_FAILED])
            name = self.roster.holders.get(key)
            self.lose([], self.roster.stored(key, outcome))
            self.stored.add(key)
            if name is not None and outcome in GRADED_OUTCOMES:
                assert self.roster.workers[name].failures == self.roster.workers[name].rebuilds == 0

    def lose(self, keys: list[RolloutKey], changes: list[HealthChange]) -> None:
        """What a call told."""
        self.lost += keys
        workers = self.roster.workers
        self.outs += [(out.desktop, workers[out.desktop].beat.boot) for out in changes if out.event == "out"]

    def event(self) -> None:
        """One, by lot."""
        name = self.rng.choice(NAMES)
        match self.rng.choices(
            ["beat", "late", "give", "store", "boot", "fail", "build", "wait", "stall", "out"], [9, 2, 6, 5, 1, 1, 2, 2, 1, 0.2]
        )[0]:
            case "beat":
                self.beat(name)
            case "late" if self.heard[name] > 1:
                self.beat(name, late=True)
            case "give":
                self.give(name)
            case "store":
                self.store()
            case "boot":
                self.boots[name] += 1
                self.built[name], self.failed[name] = 1, 0
            case "fail":
                self.failed[name] += 1
            case "build" if name in self.roster.workers:
                self.built[name] = max(self.built[name], self.roster.workers[name].rebuild)
            case "wait":
                for _ in range(self.rng.choice([1, int(SILENCE_S) + 1])):
                    self.now += 1.0
                    self.lose(self.roster.silences(self.now), [])
            case "stall":
                # Nobody listens for a while, and the beats of then are not read yet: it counts as one look's time.
                self.lose(self.roster.silences(self.now), [])
                near = self.now - SILENCE_S + LOOK_S
                heard = [one for one in self.roster.workers.values() if not one.silent and one.heard_at >= near]
                self.now += self.rng.choice([2.0, 10.0]) * SILENCE_S
                self.lose(self.roster.silences(self.now), [])
                assert not any(one.silent for one in heard)
            case "out":
                lost, changes = self.roster.put_out(name, "FATAL")
                self.lose([lost] if lost else [], changes)

    def check(self) -> None:
        """What is always true."""
        assert len(set(self.lost)) == len(self.lost), "what is lost is told once"
        assert len(set(self.outs)) == len(self.outs), "a process is put out once"
        expected = {worker.expected for worker in self.roster.workers.values() if worker.expected}
        assert expected == self.given - set(self.lost) - self.stored, "no key is forgotten"
        for worker in self.roster.workers.values():
            self.check_worker(worker)

    def check_worker(self, worker: Worker) -> None:
        """Counts stay in their bounds."""
        assert worker.failures < FAILURES_TO_REBUILD or worker.name in dict(self.outs)
        assert worker.rebuilds <= MOST_REBUILDS
        assert worker.rebuild <= worker.beat.built + 1, "a repeat orders no second rebuild"
        assert worker.expected is None or not worker.silent
        assert worker.beat.boot not in worker.past


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_no_key_is_forgotten_and_counts_stay_in_bounds(seed: int) -> None:
    """Over new processes, late beats, failed builds, silences, rows of lost tries, and supervisors that give up."""
    books = Books(Random(seed))
    for _ in range(EVENTS):
        books.event()
        books.check()
