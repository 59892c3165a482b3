"""When does a run go on although processes die, and when not? supervisord's states in, verdicts out."""

from __future__ import annotations

from pathlib import Path

import pytest

from legato_rl.errors import RunStopped
from legato_rl.run.processes import ProcessState
from legato_rl.run.watch import LEAVE_S, MOST_RESTARTS, RESTARTS_S, Watch

RUNNING = ("RUNNING", 0)


def states(**given: tuple[str, int]) -> dict[str, ProcessState]:
    """The states of a run of two workers, all RUNNING but for those given as (state, exit code)."""
    names = {"sink": "sink", "proxy": "proxy", "broker": "broker", "w0": "worker-000", "w1": "worker-001"}
    found = {}
    for pid, (short, name) in enumerate(names.items(), start=100):
        state, code = given.get(short, RUNNING)
        found[name] = ProcessState(name, state, pid if state == "RUNNING" else 0, code)
    return found


def test_a_healthy_run_has_no_news(tmp_path: Path) -> None:
    """All RUNNING, again and again."""
    watch = Watch(tmp_path)
    assert [watch.look(states(), 0.0) for _ in range(3)] == [{}, {}, {}]


@pytest.mark.parametrize("code", [-1, 4, 70, 143])
def test_a_worker_that_is_about_to_be_restarted_is_not_out(tmp_path: Path, code: int) -> None:
    """EXITED with an unexpected code lasts until supervisord's next look: a crash is no verdict on the desktop."""
    watch = Watch(tmp_path)
    assert watch.look(states(w0=("EXITED", code)), 0.0) == {}
    assert watch.look(states(w0=("EXITED", code), w1=("EXITED", code)), 0.0) == {}


def test_an_essential_process_that_is_about_to_be_restarted_ends_nothing(tmp_path: Path) -> None:
    """The same for the sink, the proxy and the broker."""
    assert Watch(tmp_path).look(states(sink=("EXITED", -1), proxy=("BACKOFF", 0), broker=("STARTING", 0)), 0.0) == {}


@pytest.mark.parametrize(("state", "code"), [("FATAL", 1), ("EXITED", 2)])
def test_a_worker_that_stays_down_is_told_once(tmp_path: Path, state: str, code: int) -> None:
    """FATAL, or an exit for wrong input: the desktop is out, and the others go on."""
    watch = Watch(tmp_path)
    assert watch.look(states(w1=(state, code)), 0.0) == {"worker-001": f"its process is {state}, exit code {code}"}
    assert watch.look(states(w1=(state, code)), 0.0) == {}
    assert watch.out == {"worker-001"}


def test_a_worker_that_was_started_since_may_be_given_up_once_more(tmp_path: Path) -> None:
    """The broker counts its desktop again from that on, and is told again where it does not stay up."""
    watch = Watch(tmp_path)
    told = [watch.look(states(w1=state), 0.0) for state in (("FATAL", 1), ("STARTING", 1), RUNNING, ("FATAL", 1))]
    assert [list(news) for news in told] == [["worker-001"], [], [], ["worker-001"]]


def test_a_worker_that_left_is_not_out(tmp_path: Path) -> None:
    """Exit code 0 is a worker that was told that the run is over."""
    watch = Watch(tmp_path)
    assert watch.look(states(w0=("EXITED", 0)), 0.0) == {}
    assert watch.out == set()


@pytest.mark.parametrize("codes", [(0, 0), (2, 2), (0, 2)])
def test_a_run_without_workers_stops(tmp_path: Path, codes: tuple[int, int]) -> None:
    """Whatever they left for, and with the last log lines."""
    (tmp_path / "worker-000.log").write_text("a\nb\nc\nd\ne\nthe cause\n")
    with pytest.raises(RunStopped, match=r"(?s)no worker is left: its log ends with:\nb\n.*the cause"):
        Watch(tmp_path).look(states(w0=("EXITED", codes[0]), w1=("EXITED", codes[1])), 0.0)


@pytest.mark.parametrize("name", ["sink", "proxy", "broker"])
@pytest.mark.parametrize("dead", [("FATAL", 1), ("EXITED", 0), ("EXITED", 2), ("UNKNOWN", 0)])
def test_a_run_stops_without_an_essential_process(tmp_path: Path, name: str, dead: tuple[str, int]) -> None:
    """The message names the process, and says so where its log is empty."""
    with pytest.raises(RunStopped, match=f"the {name} is {dead[0]}: its log is empty"):
        Watch(tmp_path).look(states(**{name: dead}), 0.0)


def test_a_process_that_restarts_again_and_again_ends_the_run(tmp_path: Path) -> None:
    """One start and MOST_RESTARTS - 1 more are borne; a worker may restart as often as it likes."""
    watch = Watch(tmp_path)
    for pid in range(1, MOST_RESTARTS + 1):
        now = states()
        watch.look({**now, "proxy": ProcessState("proxy", "RUNNING", pid, 0)}, 0.0)
    with pytest.raises(RunStopped, match=f"the proxy was started {MOST_RESTARTS + 1} times"):
        watch.look({**states(), "proxy": ProcessState("proxy", "RUNNING", 99, 0)}, 0.0)
    watch = Watch(tmp_path)
    for pid in range(1, 20):
        assert watch.look({**states(), "worker-000": ProcessState("worker-000", "RUNNING", pid, 0)}, 0.0) == {}


def test_restarts_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    """A service lives for months: what counts is how often a process starts within a while."""
    watch = Watch(tmp_path)
    for pid in range(1, 50):
        now = pid * RESTARTS_S / (MOST_RESTARTS - 1)
        assert watch.look({**states(), "proxy": ProcessState("proxy", "RUNNING", pid, 0)}, now) == {}


def test_a_service_may_be_shut_down(tmp_path: Path) -> None:
    """Its processes leave one after the other, each with exit code 0; it is over when the broker has left."""
    watch = Watch(tmp_path, may_leave=True)
    gone = {"w0": ("EXITED", 0), "w1": ("EXITED", 0)}
    assert watch.look(states(**gone), 0.0) == {}
    assert watch.look(states(**gone, proxy=("EXITED", 0)), 0.0) == {}
    assert not watch.left
    assert watch.look(states(**gone, proxy=("EXITED", 0), broker=("EXITED", 0), sink=("EXITED", 0)), 0.0) == {}
    assert watch.left


@pytest.mark.parametrize("dead", [("FATAL", 1), ("EXITED", 2)])
def test_a_service_ends_without_an_essential_process_too(tmp_path: Path, dead: tuple[str, int]) -> None:
    """Only leaving well is leaving."""
    with pytest.raises(RunStopped, match=f"the proxy is {dead[0]}"):
        Watch(tmp_path, may_leave=True).look(states(proxy=dead), 0.0)
    with pytest.raises(RunStopped, match="no worker is left"):
        Watch(tmp_path, may_leave=True).look(states(w0=dead, w1=dead), 0.0)


@pytest.mark.parametrize("name", ["sink", "proxy"])
def test_a_service_does_not_wait_for_what_left_without_it(tmp_path: Path, name: str) -> None:
    """They leave some seconds before the broker does; where that stays, nobody starts them again, and nothing can go on."""
    watch, gone = Watch(tmp_path, may_leave=True), {name: ("EXITED", 0)}
    assert [watch.look(states(**gone), now) for now in (100.0, 100.0 + LEAVE_S)] == [{}, {}]
    with pytest.raises(RunStopped, match=f"the {name} left, and the broker did not: its log is empty"):
        watch.look(states(**gone), 101.0 + LEAVE_S)


def test_a_service_that_was_shut_down_is_over_however_late_that_is_seen(tmp_path: Path) -> None:
    """Whoever looks was held up meanwhile."""
    watch, gone = Watch(tmp_path, may_leave=True), {"proxy": ("EXITED", 0)}
    assert watch.look(states(**gone), 0.0) == {}
    assert watch.look(states(**gone, broker=("EXITED", 0)), 10 * LEAVE_S) == {}
    assert watch.left
