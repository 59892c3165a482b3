"""What can go wrong, named by the boundary that was crossed, and the exit codes that say so.

Every message is one sentence that names the field and the value, and says what to do.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of all programs of this project (documented in docs/operating.md)."""

    DONE = 0
    """Everything asked for was delivered."""
    SHORT = 1
    """The work ended, but delivered less than asked; or a probe found something missing."""
    BAD_INPUT = 2
    """An option, file or setting is wrong; nothing was started. Do not restart unchanged."""
    STOPPED = 3
    """The run stopped early, resumable: server down too long, desktops failing, a process that keeps dying."""
    DEADLINE = 4
    """A worker ended itself: its desktop did not answer within the phase's deadline. Restart it."""
    ORPHANED = 5
    """A process ended itself because its parent is gone."""
    DAMAGED = 6
    """A run's folder, or a service's, holds what is not as its record says. Starting again does not mend it."""
    BUG = 70
    """An exception that nobody expected. The log has it."""
    INTERRUPTED = 130
    """Ctrl-C."""
    UNREAD = 141
    """Nobody reads what the command prints, as after `| head`; a shell says the same of a program that SIGPIPE ended."""
    TERMINATED = 143
    """SIGTERM: the command line ends as after Ctrl-C, a process of a service hands its work back. Restart that."""


class LegatoError(Exception):
    """The root of the tree. Catch it at the edge of a program, print it, use its exit code."""

    exit_code: ExitCode = ExitCode.BUG


class ConfigError(LegatoError):
    """The caller's input is wrong. Remedy: change the named field. Nothing was started."""

    exit_code = ExitCode.BAD_INPUT


class TaskError(ConfigError):
    """A task, or the tasks file, is wrong. Remedy: change the named task."""


class WireError(LegatoError):
    """A message that does not follow the protocol. Remedy: answer with an error, count it, go on."""


class PolicyError(LegatoError):
    """A model call ended without a usable completion. `type` names the cause; the attempt is `policy_failed`."""

    exit_code = ExitCode.STOPPED

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type


class SinkError(LegatoError):
    """The sink cannot store. Remedy: make space or repair the folder; nothing acknowledged is lost."""

    exit_code = ExitCode.STOPPED


class RecordError(LegatoError):
    """A run folder holds something that is not what its record says. Remedy: none; the named file is damaged."""

    exit_code = ExitCode.DAMAGED


class ControlError(LegatoError):
    """A broker refused what was asked of it, or did not do it in time. Nothing that was refused was done."""

    exit_code = ExitCode.BAD_INPUT


class NoAnswer(ControlError):
    """A broker did not answer in time, or what it granted has not come about. Remedy: ask again; what was asked may hold."""

    exit_code = ExitCode.STOPPED


class Terminated(KeyboardInterrupt):
    """SIGTERM to the command line: everything that Ctrl-C does, under another exit code."""


class RunStopped(LegatoError):
    """A run ended early; the message says why. What is stored is whole."""

    exit_code = ExitCode.STOPPED
