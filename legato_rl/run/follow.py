"""How is a running run watched to its end? Asks the broker where it stands, and supervisord whether its processes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from legato_rl.clock import Clock
from legato_rl.control import ControlClient
from legato_rl.errors import ExitCode, RunStopped
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.run.processes import ProcessState, Supervisor, log_tail
from legato_rl.supervisord import EXPECTED_EXITS
from legato_rl.wire import RunStatus

LOOK_S = 0.5
"""Seconds between two looks."""
STOP_S = 60.0
"""Seconds that a stop may take: the broker's grace for what is being graded, and some more."""
LAST_WORD_S = 5.0
"""Seconds to ask the broker once more, before a run is given up for its processes."""
SILENT_S = 120.0
"""Seconds without a word of the broker after which the run is given up."""
MOST_RESTARTS = 5
"""Starts of the broker, the proxy or the sink after which the run is given up."""
DEAD = ("FATAL", "UNKNOWN")
"""supervisord's states of a process that it will not start again, beside EXITED with an expected code."""
ESSENTIAL = ("sink", "proxy", "broker")


class Watch:
    """Looks at a run's processes. Pure but for the log tails: states in, verdicts out."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._pids: dict[str, int] = {}
        self._starts: Counter[str] = Counter()
        self.out: set[str] = set()
        """Workers that were given up."""

    def look(self, states: dict[str, ProcessState]) -> dict[str, str]:
        """Workers given up since the last look, with the reason. RunStopped where the run cannot go on."""
        for state in states.values():
            if state.pid and state.pid != self._pids.get(state.name):
                self._pids[state.name] = state.pid
                self._starts[state.name] += 1
        for name in ESSENTIAL:
            essential = states.get(name)
            if essential is not None and _is_dead(essential):
                raise RunStopped(f"the {name} is {essential.state}: {self._last_words(name)}")
            if self._starts[name] > MOST_RESTARTS:
                raise RunStopped(f"the {name} was started {self._starts[name]} times: {self._last_words(name)}")
        workers = {name: state for name, state in states.items() if name not in ESSENTIAL}
        dead = {name: state for name, state in workers.items() if _is_dead(state)}
        if workers and len(dead) == len(workers):
            raise RunStopped(f"no worker is left: {self._last_words(min(workers))}")
        # A worker that ended well left because the run is over: its desktop is not out.
        gone = [state for name, state in dead.items() if name not in self.out and not _ended_well(state)]
        self.out.update(state.name for state in gone)
        return {state.name: f"its process is {state.state}, exit code {state.exit_code}" for state in gone}

    def _last_words(self, name: str) -> str:
        tail = log_tail(self._logs / f"{name}.log")
        return f"its log ends with:\n{tail}" if tail else "its log is empty"


def _is_dead(state: ProcessState) -> bool:
    # A process that exited unexpectedly is EXITED only until supervisord looks again and restarts it.
    return state.state in DEAD or (state.state == "EXITED" and state.exit_code in EXPECTED_EXITS)


def _ended_well(state: ProcessState) -> bool:
    return state.state == "EXITED" and state.exit_code == ExitCode.DONE


def follow(
    supervisor: Supervisor,
    control: ControlClient,
    logs: Path,
    clock: Clock,
    show: Callable[[RunStatus], None],
    stop: str | None = None,
) -> RunStatus:
    """Watch until the broker says that the run finished or stopped; `show` gets every status.

    With `stop`, each look also asks for that (a broker that restarts has forgotten it), for STOP_S at most. RunStopped,
    with the last log lines, where supervisord or a process without which nothing goes on is gone.
    """
    watch = Watch(logs)
    heard = began = clock.monotonic()
    interrupts = INTERRUPTS.count
    while True:
        INTERRUPTS.check(interrupts)
        status = control.status(wait_s=LOOK_S) if stop is None else control.stop(stop, wait_s=LOOK_S)
        if stop is not None and clock.monotonic() - began > STOP_S:
            raise RunStopped(f"the run did not come to its stop within {STOP_S:.0f} s")
        if status is not None:
            heard = clock.monotonic()
            show(status)
            if status.state in ("finished", "stopped"):
                return status
        states = supervisor.states()
        if states is not None:
            try:
                gone = watch.look(states)
            except RunStopped:
                # Workers leave when the run is over; the broker may have said so since it was asked.
                status = control.status(wait_s=LAST_WORD_S)
                if status is not None and status.state in ("finished", "stopped"):
                    show(status)
                    return status
                raise
            for name, reason in gone.items():
                if control.desktop_out(name, reason) is None:
                    watch.out.discard(name)
        elif not supervisor.alive():
            raise RunStopped(f"supervisord is gone: its log ends with:\n{log_tail(logs / 'supervisord.log')}")
        if status is not None:
            clock.sleep(LOOK_S)
        elif clock.monotonic() - heard > SILENT_S:
            raise RunStopped(
                f"the broker has not answered for {SILENT_S:.0f} s: its log ends with:\n{log_tail(logs / 'broker.log')}"
            )
