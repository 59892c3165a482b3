"""How is what runs watched to its end? Asks the broker where it stands, and supervisord whether its processes do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from legato_rl.clock import Clock
from legato_rl.control import ControlClient
from legato_rl.errors import ControlError, RunStopped
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.run.processes import Supervisor, log_tail
from legato_rl.run.watch import Watch
from legato_rl.wire import RunStatus

log = logging.getLogger("legato_rl")

LOOK_S = 0.5
"""Seconds between two looks."""
STOP_S = 60.0
"""Seconds that a stop may take: the broker's grace for what is being graded, and some more."""
LAST_WORD_S = 5.0
"""Seconds to ask the broker once more, before a run is given up for its processes."""
SILENT_S = 120.0
"""Seconds without a word of the broker after which the run is given up."""
QUIET_S = 5.0
"""Seconds without a word of a service after which that is told, and after which a stop of its run is given up."""
OVER = ("finished", "stopped")
"""States of a run that has ended."""

Hear = Callable[[RunStatus], None]


def follow(
    supervisor: Supervisor, control: ControlClient, logs: Path, clock: Clock, hear: Hear, stop: str | None = None
) -> RunStatus:
    """Watch a run of its own until the broker says that it finished or stopped; `hear` gets every status.

    With `stop`, each look also asks for that, for STOP_S at most. RunStopped, with the last log lines, where supervisord
    or a process without which nothing goes on is gone.
    """
    house = _House(supervisor, control, logs, clock)
    ask = _asker(control, "", stop)
    began, seen = clock.monotonic(), INTERRUPTS.count
    while True:
        INTERRUPTS.check(seen)
        status = ask(LOOK_S)
        _check_time(clock.monotonic() - began, stop)
        if _is_over(status, hear):
            return _given(status)
        try:
            house.look(status)
        except RunStopped:
            # Workers leave when the run is over; the broker may have said so since it was asked.
            status = control.status(wait_s=LAST_WORD_S)
            if _is_over(status, hear):
                return _given(status)
            raise
        if status is not None:
            clock.sleep(LOOK_S)


def follow_service(
    supervisor: Supervisor, control: ControlClient, logs: Path, clock: Clock, hear: Hear, give_up_s: float | None = None
) -> None:
    """Watch a service until it was shut down; `hear` gets every status. RunStopped as `follow`, and after `give_up_s`."""
    house = _House(supervisor, control, logs, clock, may_leave=True)
    began, seen = clock.monotonic(), INTERRUPTS.count
    while not house.watch.left:
        INTERRUPTS.check(seen)
        try:
            status = control.status(wait_s=LOOK_S)
        except ControlError as error:
            # What one question comes to ends no service.
            log.error("the broker refused to say where it stands: %s", error)
            status = None
        if status is not None:
            hear(status)
        house.look(status)
        if give_up_s is not None and clock.monotonic() - began > give_up_s:
            raise RunStopped(f"the service did not end within {give_up_s:.0f} s of being told to")
        if not house.watch.left:
            clock.sleep(LOOK_S)


def follow_run(control: ControlClient, run: str, clock: Clock, hear: Hear, stop: str | None = None) -> RunStatus:
    """Watch a run of a service, whose processes are somebody else's, until it finished or stopped. As `follow` else.

    A service that does not answer is waited for, SILENT_S at most, and that is told once; for a stop it is not waited for.
    """
    ask = _asker(control, run, stop)
    heard = began = clock.monotonic()
    seen, told = INTERRUPTS.count, False
    while True:
        INTERRUPTS.check(seen)
        status = ask(LOOK_S)
        _check_time(clock.monotonic() - began, stop)
        if _is_over(status, hear):
            return _given(status)
        silent = clock.monotonic() - heard
        if status is not None:
            if told:
                log.warning("the service answers again")
            heard, told = clock.monotonic(), False
            clock.sleep(LOOK_S)
        elif silent > (SILENT_S if stop is None else QUIET_S):
            # Whoever stops has had an answer, and what was answered is kept, also over a restart.
            then = f"the run {run} {'stops when it answers again' if stop else 'goes on when the service does'}"
            raise RunStopped(f"the service has not answered for {silent:.0f} s; {then}")
        elif silent > QUIET_S and not told:
            log.warning("the service does not answer: it is waited for; Ctrl-C leaves the run to it")
            told = True


class _House:
    """Looks after the processes, and tells the broker of workers that do not stay up."""

    def __init__(
        self, supervisor: Supervisor, control: ControlClient, logs: Path, clock: Clock, may_leave: bool = False
    ) -> None:
        self._supervisor = supervisor
        self._control = control
        self._logs = logs
        self._clock = clock
        self._heard = clock.monotonic()
        self.watch = Watch(logs, may_leave)

    def look(self, status: RunStatus | None) -> None:
        """After a word of the broker, or none. RunStopped where nothing can go on."""
        now = self._clock.monotonic()
        states = self._supervisor.states()
        if states is not None:
            for name, reason in self.watch.look(states, now).items():
                if self._control.desktop_out(name, reason) is None:
                    self.watch.out.discard(name)
        elif not self._supervisor.alive():
            raise RunStopped(f"supervisord is gone: its log ends with:\n{log_tail(self._logs / 'supervisord.log')}")
        if status is not None:
            self._heard = now
        elif now - self._heard > SILENT_S and not self.watch.left:
            raise RunStopped(
                f"the broker has not answered for {SILENT_S:.0f} s: its log ends with:\n{log_tail(self._logs / 'broker.log')}"
            )


def _asker(control: ControlClient, run: str, stop: str | None) -> Callable[[float], RunStatus | None]:
    if stop is None:
        return lambda wait_s: control.status(run, wait_s)
    return lambda wait_s: control.stop(stop, run, wait_s)


def _check_time(seconds: float, stop: str | None) -> None:
    if stop is not None and seconds > STOP_S:
        raise RunStopped(f"the run did not come to its stop within {STOP_S:.0f} s")


def _is_over(status: RunStatus | None, hear: Hear) -> bool:
    if status is None:
        return False
    hear(status)
    return status.state in OVER


def _given(status: RunStatus | None) -> RunStatus:
    assert status is not None
    return status
