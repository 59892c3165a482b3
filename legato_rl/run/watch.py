"""What do the states of its processes say of a service? supervisord's words in, verdicts out. Reads log tails, no clock."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from legato_rl.errors import ExitCode, RunStopped
from legato_rl.run.processes import ProcessState, log_tail
from legato_rl.supervisord import EXPECTED_EXITS

MOST_RESTARTS = 5
"""Starts of the broker, the proxy or the sink within RESTARTS_S seconds that are borne."""
RESTARTS_S = 600.0
"""Seconds over which starts are counted."""
LEAVE_S = 60.0
"""Seconds that the broker may stay after the proxy or the sink left well; it takes some five."""
DEAD = ("FATAL", "UNKNOWN")
"""supervisord's states of a process that it will not start again, beside EXITED with an expected code."""
ESSENTIAL = ("sink", "proxy", "broker")


class Watch:
    """Looks at processes. `may_leave`: they end by themselves when a service is shut down."""

    def __init__(self, logs: Path, may_leave: bool = False) -> None:
        self._logs = logs
        self._may_leave = may_leave
        self._pids: dict[str, int] = {}
        self._starts: dict[str, deque[float]] = {name: deque() for name in ESSENTIAL}
        self._left_at: dict[str, float] = {}
        """When an essential process was first seen to have ended well."""
        self.out: set[str] = set()
        """Workers that were given up."""
        self.left = False
        """Whether the broker ended well, which it does when a service was shut down."""

    def look(self, states: dict[str, ProcessState], now: float) -> dict[str, str]:
        """Workers given up since the last look, with the reason. RunStopped where nothing can go on."""
        self.left |= self._may_leave and "broker" in states and _ended_well(states["broker"])
        for name in ESSENTIAL:
            if name in states:
                self._look_at(states[name], now)
        workers = {name: state for name, state in states.items() if name not in ESSENTIAL}
        dead = {name: state for name, state in workers.items() if _is_dead(state)}
        if workers and len(dead) == len(workers) and not (self._may_leave and any(map(_ended_well, dead.values()))):
            raise RunStopped(f"no worker is left: {self._last_words(min(workers))}")
        # One that somebody started since may be given up once more.
        self.out &= dead.keys()
        # A worker that ended well left because the run is over: its desktop is not out.
        gone = [state for name, state in dead.items() if name not in self.out and not _ended_well(state)]
        self.out.update(state.name for state in gone)
        return {state.name: f"its process is {state.state}, exit code {state.exit_code}" for state in gone}

    def _look_at(self, state: ProcessState, now: float) -> None:
        name, starts = state.name, self._starts[state.name]
        if state.pid and state.pid != self._pids.get(name):
            self._pids[name] = state.pid
            starts.append(now)
        while starts and starts[0] <= now - RESTARTS_S:
            starts.popleft()
        if self._may_leave and _ended_well(state):
            # Nobody starts it again: where the broker stays after all, a service would wait for it for ever.
            if not self.left and now - self._left_at.setdefault(name, now) > LEAVE_S:
                raise RunStopped(f"the {name} left, and the broker did not: {self._last_words(name)}")
            return
        self._left_at.pop(name, None)
        if _is_dead(state):
            raise RunStopped(f"the {name} is {state.state}: {self._last_words(name)}")
        if len(starts) > MOST_RESTARTS:
            raise RunStopped(f"the {name} was started {len(starts)} times in {RESTARTS_S:.0f} s: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        tail = log_tail(self._logs / f"{name}.log")
        return f"its log ends with:\n{tail}" if tail else "its log is empty"


def _is_dead(state: ProcessState) -> bool:
    # A process that exited unexpectedly is EXITED only until supervisord looks again and restarts it.
    return state.state in DEAD or (state.state == "EXITED" and state.exit_code in EXPECTED_EXITS)


def _ended_well(state: ProcessState) -> bool:
    return state.state == "EXITED" and state.exit_code == ExitCode.DONE
