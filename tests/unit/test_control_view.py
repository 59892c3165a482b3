"""What does a person see of a service's status? Every run in its order, how the others go on, and what all runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legato_rl.cli.control_view import MOST_NAMED, lines
from legato_rl.run.stored_runs import StoredRun
from legato_rl.rundir import RunDir
from legato_rl.wire import GroupCounts, RunBrief, RunStatus

COUNTS = GroupCounts(total=4, closed=1, short=1, open=2)
RUNS = [
    RunBrief(run="one", state="running", priority=5, version="v1", groups=COUNTS),
    RunBrief(run="second", state="stopping", priority=0, version="v12", groups=COUNTS.model_copy(update={"short": 0})),
]


def status(**changes: Any) -> RunStatus:
    """Where a service stands."""
    fields: dict[str, Any] = {
        "id": "x",
        "run": "one",
        "state": "running",
        "reason": "",
        "groups": COUNTS,
        "rows": {"ok": 4, "retried": 1},
        "attempts_total": 16,
        "attempts_ended": 5,
        "desktops": {"act": 2, "out": 1},
        "policy": "up",
        "policy_message": "",
        "sink_message": "",
        "queued": 2,
        "running": 1,
        "version": "v1",
        "model": "m",
        "url": "http://h/v1",
        "events": 7,
    }
    return RunStatus(**(fields | changes))


def stored(*names: str) -> list[StoredRun]:
    """Runs that stopped."""
    return [StoredRun(RunDir(Path("/d/runs") / name), "stopped", "interrupted", "") for name in names]


def test_a_service_with_runs() -> None:
    """Columns below each other; what stands still says how it goes on."""
    told = lines(status(runs=RUNS, paused="wait", policy="paused"), stored("old"), "my d", None, of_one=False)
    assert told == [
        "runs       one     running   version v1   priority 5  groups 1 of 4 closed, 1 short",
        "           second  stopping  version v12  priority 0  groups 1 of 4 closed",
        "resumable  old (interrupted)",
        "           go on with: legato-rl control resume-run 'my d' RUN",
        "desktops   2 act, 1 out",
        "policy     paused",
        "server     http://h/v1, model m",
        "calls      1 running, 2 queued",
        "paused     wait; go on with: legato-rl control resume 'my d'",
    ]


def test_a_service_without_runs() -> None:
    """No run, and what is there; keys are part of what is typed."""
    told = lines(status(run="", state="none", draining=True, desktops={}), [], "tcp://h:1", Path("k"), of_one=False)
    assert told == [
        "runs      none",
        "desktops  none yet",
        "policy    up, 1 running, 2 queued",
        "server    http://h/v1, model m",
        "draining  no further try is begun; go on with: legato-rl control resume tcp://h:1 --keys k",
    ]


def test_one_run_is_told_in_full() -> None:
    """Before what all share; of one that ended long ago only that."""
    told = lines(status(state="stopping", reason="enough", sink_message="no space"), [], "d", None, of_one=True)
    assert told[:9] == [
        "run       one",
        "state     stopping (enough)",
        "groups    1 of 4 closed, 1 short",
        "attempts  5 of 16 ended",
        "rollouts  4 ok, 1 retried",
        "version   v1",
        "events    7",
        "storage   waiting: no space",
        "",
    ]
    old = lines(status(state="finished", attempts_total=0), [], "d", None, of_one=True)
    assert old[:4] == ["run       one", "state     finished", "", "runs      none"]


def test_desktops_that_are_out() -> None:
    """Each with its reason below their number; of many the first; none where the broker counts none."""
    why = {f"worker-{n:03}": "its process is FATAL, exit code 2" for n in range(MOST_NAMED + 2)}
    told = lines(status(), [], "d", None, of_one=False, out=why)
    at = told.index("desktops  2 act, 1 out") + 1
    assert told[at] == "          worker-000 is out: its process is FATAL, exit code 2"
    assert told[at + MOST_NAMED : at + MOST_NAMED + 2] == [
        "          and 2 more",
        "          one comes back with a new process of its worker (docs/operating.md)",
    ]
    assert lines(status(desktops={"act": 2}), [], "d", None, of_one=False, out=why)[1] == "desktops  2 act"
    assert not any("process" in line for line in lines(status(), [], "d", None, of_one=False))


def test_many_runs_that_stopped() -> None:
    """As many as fit, and the number of the others."""
    told = lines(status(), stored(*(f"r{n}" for n in range(MOST_NAMED + 2))), "d", None, of_one=False)
    assert "           and 2 more; go on with: legato-rl control resume-run d RUN" in told
    assert sum(line.endswith("(interrupted)") for line in told) == MOST_NAMED
