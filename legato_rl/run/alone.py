"""How is a run with processes of its own carried through, once its folder is ready? To its end, and to its summary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK, iso
from legato_rl.config import PolicyConfig
from legato_rl.control import ControlClient
from legato_rl.errors import LegatoError, RunStopped, SinkError
from legato_rl.export.profile import write_summary
from legato_rl.run.audience import Audience
from legato_rl.run.follow import Hear, follow
from legato_rl.run.processes import Supervisor, end
from legato_rl.run.stored_groups import has_finished
from legato_rl.rundir import RunDir, RunFile
from legato_rl.wire import RunStatus

log = logging.getLogger("legato_rl")

STOP_ANSWER_S = 15.0
"""Seconds that the broker has to answer Ctrl-C, which it writes down first, on a disk that may stall; one that does not is
ended with the rest."""

ITS_LOG = ": its log "
"""What a RunStopped about a process goes on with is the end of that process's log, which the folder has."""

OnStatus = Callable[[RunStatus], None]
OnGroup = Callable[[dict[str, Any]], None]


def carry_out(
    folder: RunDir, run: RunFile, policy: PolicyConfig, on_status: OnStatus | None, on_group: OnGroup | None
) -> dict[str, Any]:
    """Start the processes, follow them to the run's end, end them, and sum up. `policy` has the key.

    RunStopped says why the run ended early, with an attempt that has no final row; KeyboardInterrupt stops it, resumable.
    """
    with ControlClient(folder.root) as control:
        audience = Audience(control, on_status, on_group)
        try:
            _run(folder, run, policy, control, audience.hear)
        finally:
            audience.tell_rest(folder)
    return close(folder)


def close(folder: RunDir) -> dict[str, Any]:
    """Say that a run has finished, where that is not said yet, and sum it up; the summary."""
    try:
        end = folder.load_end()
        if end is None or end["state"] != "finished":
            folder.write_end("finished", "", iso(SYSTEM_CLOCK.wall()))
        return write_summary(folder.root)
    except OSError as error:
        raise SinkError(
            f"{folder.summary} cannot be written ({error.strerror}): make space there, then resume the run"
        ) from None


def _run(folder: RunDir, run: RunFile, policy: PolicyConfig, control: ControlClient, hear: Hear) -> None:
    supervisor = Supervisor(folder.supervisord_conf, run.sockets, folder.logs, SYSTEM_CLOCK)
    with _summed_up(folder):
        try:
            supervisor.start(policy.key())
            status = follow(supervisor, control, folder.logs, SYSTEM_CLOCK, hear)
        except KeyboardInterrupt:
            _interrupt(supervisor, control, folder, hear)
            raise
        except RunStopped as stopped:
            supervisor.stop()
            if has_finished(folder):
                # Workers leave, and much may end, when the run is over; the broker did not come to say that it is.
                log.warning("the run has finished, every attempt has its row, though nobody said so: %s", stopped)
                return
            raise
        finally:
            end(supervisor)
    if status.state == "stopped":
        _sum_up(folder, "stopped", status.reason)
        raise RunStopped(f"the run stopped early: {status.reason}")


def _interrupt(supervisor: Supervisor, control: ControlClient, folder: RunDir, hear: Hear) -> None:
    """The first Ctrl-C: let what is past its last action be graded and stored. A second one lets nothing."""
    try:
        if control.stop("interrupted", wait_s=STOP_ANSWER_S) is not None:
            follow(supervisor, control, folder.logs, SYSTEM_CLOCK, hear, stop="interrupted")
    except RunStopped as stopped:
        log.error("%s", stopped)
    except KeyboardInterrupt:
        supervisor.kill()


@contextmanager
def _summed_up(folder: RunDir) -> Iterator[None]:
    """Whatever ends early what is done here, also while its processes are ended, is told in the folder."""
    try:
        yield
    except KeyboardInterrupt:
        _sum_up(folder, "interrupted", "")
        raise
    except RunStopped as stopped:
        _sum_up(folder, "stopped", str(stopped).partition(ITS_LOG)[0])
        raise


def _sum_up(folder: RunDir, state: str, reason: str) -> None:
    """How a run ended early, and its summary; where they cannot be written, that must not hide why the run ended.

    Of a large run that takes its seconds. Ctrl-C meanwhile leaves a run that was cut, rather than one of which half is told.
    """
    try:
        folder.write_end(state, reason, iso(SYSTEM_CLOCK.wall()))
        write_summary(folder.root)
    except (LegatoError, OSError) as error:
        log.error("summary.json cannot be written: %s", error)
    except KeyboardInterrupt:
        folder.end.unlink(missing_ok=True)
        raise
