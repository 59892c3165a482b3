"""Does a try that follows a failure begin on another desktop where there is one, and does it begin in any case?"""

from __future__ import annotations

from broker_on_paper import beat, feed, holding, key, make_core
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.broker.core import Core
from legato_rl.broker.elsewhere import ELSEWHERE_S
from legato_rl.broker.roster import SILENCE_S
from legato_rl.records import Outcome, RolloutKey, Status
from legato_rl.wire import Beat


def failed_on_w0(workers: int = 2, **settings: object) -> Core:
    """One attempt, whose first try failed on w0 while the other workers hold something else or boot."""
    core = make_core(group=1, **settings)
    feed(core)
    taken = core.beat(beat("w0"), 0.0).assign
    assert taken is not None
    assert taken.key == key(0)
    for n in range(1, workers):
        core.beat(beat(f"w{n}", ready=False, phase="booting"), 0.0)
    core.beat(beat("w0", ready=False, holds=holding(key(0))), 0.0)
    feed(core, (key(0), Outcome.DESKTOP_FAILED, Status.RETRIED))
    return core


def takes(core: Core, said: Beat, now: float) -> RolloutKey | None:
    """What a beat is answered to begin."""
    order = core.beat(said, now)
    return order.assign.key if order.assign else None


def test_a_try_goes_to_another_desktop_than_the_one_before_failed_on() -> None:
    """The desktop that failed is the first to be free, and is left idle for it."""
    core = failed_on_w0()
    assert takes(core, beat("w0", stored=key(0)), 1.0) is None
    assert takes(core, beat("w1"), 2.0) == key(0, 1)


def test_it_goes_to_the_same_desktop_where_there_is_no_other() -> None:
    """Alone from the start; or the others fell silent, are out, or have no desktop."""
    assert takes(failed_on_w0(workers=1), beat("w0", stored=key(0)), 1.0) == key(0, 1)
    silent = failed_on_w0()
    silent.beat(beat("w0", stored=key(0)), SILENCE_S)
    silent.tick(SILENCE_S + 1)
    feed(silent, now=SILENCE_S + 1)
    assert takes(silent, beat("w0", stored=key(0)), SILENCE_S + 1) == key(0, 1)
    out = failed_on_w0()
    out.lost_desktop("w1", "FATAL")
    assert takes(out, beat("w0", stored=key(0)), 1.0) == key(0, 1)
    parked = failed_on_w0()
    parked.desktops = 1
    assert takes(parked, beat("w0", stored=key(0)), 1.0) == key(0, 1)


def test_it_waits_for_another_desktop_for_so_long_and_no_longer() -> None:
    """The others may be at work for an hour, or for a run that goes first."""
    core = failed_on_w0()
    feed(core, now=ELSEWHERE_S)
    assert takes(core, beat("w0", stored=key(0)), ELSEWHERE_S - 0.1) is None
    assert takes(core, beat("w0", stored=key(0)), ELSEWHERE_S) == key(0, 1)


def test_the_desktop_that_failed_takes_other_work_meanwhile() -> None:
    """The next one in line that is not avoided."""
    core = failed_on_w0(groups=2)
    assert takes(core, beat("w0", stored=key(0)), 1.0) == key(0, group="t1")
    assert takes(core, beat("w1"), 1.0) == key(0, 1)


NAMES = ["w0", "w1", "w2"]


class Books:
    """A run in which every try fails, and who holds what and failed at what when."""

    def __init__(self) -> None:
        self.core = make_core(groups=2, desktops=3, env_retries=100, stop_failure_share=1.0)
        self.now = 0.0
        self.live: set[str] = set()
        self.held: dict[str, RolloutKey] = {}
        self.failed: dict[RolloutKey, tuple[str, float]] = {}

    def is_in(self, name: str) -> bool:
        """Whether a desktop was not given up."""
        worker = self.core.roster.workers.get(name)
        return worker is None or worker.out is None

    def may(self, name: str) -> set[RolloutKey]:
        """What a worker may begin: all that nobody holds, but what it failed at a moment ago and another could do."""
        groups = self.core.runs["r"].groups.groups.values()
        free = {attempt.key for group in groups for attempt in group.attempts} - set(self.held.values())
        if not self.live - {name}:
            return free
        spared = {one for one, (where, at) in self.failed.items() if where == name and self.now - at < ELSEWHERE_S}
        return free - spared

    def free(self, name: str) -> None:
        """A worker has nothing to do, and says so."""
        self.live.add(name)
        feed(self.core, now=self.now)
        may, taken = self.may(name), takes(self.core, beat(name, built=self.built(name)), self.now)
        assert (taken is None) == (not may)
        if taken is not None:
            self.take(name, taken, may)

    def take(self, name: str, taken: RolloutKey, may: set[RolloutKey]) -> None:
        """A worker holds what it was given."""
        assert taken in may
        self.held[name] = taken
        self.core.beat(beat(name, built=self.built(name), ready=False, holds=holding(taken)), self.now)

    def built(self, name: str) -> int:
        """How many desktops a worker has built, which is as many as it was told to."""
        worker = self.core.roster.workers.get(name)
        return max(1, worker.rebuild) if worker else 1

    def fail(self, name: str) -> None:
        """What a worker holds ends, and whoever stands idle hears of it at once."""
        lost = self.held.pop(name)
        self.failed[lost.next_try()] = name, self.now
        orders = feed(self.core, (lost, Outcome.DESKTOP_FAILED, Status.RETRIED), now=self.now)
        self.live = set(filter(self.is_in, self.live))
        for order in orders:
            assert order.assign is not None
            other = order.boot.removesuffix("-1")
            self.take(other, order.assign.key, self.may(other))


@given(st.data())
def test_a_try_is_avoided_for_a_while_and_by_one_desktop_alone(data: st.DataObject) -> None:
    """Whatever fails where and when: a desktop that asks stands idle only where all that is left failed on it just now."""
    books = Books()
    for _ in range(data.draw(st.integers(1, 50))):
        name = data.draw(st.sampled_from(NAMES))
        match data.draw(st.sampled_from(["free", "free", "fail", "wait"])):
            case "free" if name not in books.held and books.is_in(name):
                books.free(name)
            case "fail" if name in books.held:
                books.fail(name)
            case "wait":
                books.now += data.draw(st.sampled_from([1.0, 20.0]))
