"""What was the broker told, that its successor must know? DISK: `state.json`, written whole with every ask that changes it.

No outcome is in it: those are the sink's rows. A broker that restarts reads this, the runs' files and the rows, and hears
the workers' beats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from legato_rl.bad_input import one_sentence
from legato_rl.errors import LegatoError, RecordError
from legato_rl.parts import PauseMode
from legato_rl.rundir import write_file
from legato_rl.wire import PolicyName

MOST_ANSWERED = 1000
"""Ids of asks that are remembered, so that one that comes again does nothing more."""


class NotSaved(LegatoError):
    """What was asked for could not be kept for the next broker, so it was not done; it may be asked for again."""


class Told(BaseModel):
    """What asks have changed since the service first started; by run where it is of one."""

    model_config = ConfigDict(extra="forbid")

    desktops: int | None = None
    max_inflight: int | None = None
    bounded: bool = False
    """Whether `max_inflight` was asked for; it stands in place of the settings' then, None too."""
    pause: PauseMode | None = None
    draining: bool = False
    leaving: bool = False
    url: str = ""
    default: PolicyName | None = None
    policies: dict[str, list[PolicyName]] = Field(default_factory=dict)
    cancelled: dict[str, list[tuple[str, int]]] = Field(default_factory=dict)
    """Attempts that were cancelled, by group and number."""
    stopping: dict[str, str] = Field(default_factory=dict)
    """Why a run is to stop."""
    out: dict[str, str] = Field(default_factory=dict)
    """Why a desktop is out."""
    answered: list[str] = Field(default_factory=list)

    def set(self, **fields: Any) -> None:
        """Change fields by name."""
        for name, value in fields.items():
            setattr(self, name, value)

    def answer(self, ask: str) -> None:
        """The ask of this id was carried out."""
        self.answered = [*self.answered, ask][-MOST_ANSWERED:]

    def forget(self, run: str) -> None:
        """A run is over."""
        self.cancelled.pop(run, None)
        self.stopping.pop(run, None)
        self.policies.pop(run, None)

    def resumed(self) -> Told:
        """What holds when a run of its own is resumed: its policies, and what was cancelled. A stop, a pause, a bound and
        the like were for the processes that were there."""
        return Told(default=self.default, policies=self.policies, cancelled=self.cancelled)

    @classmethod
    def load(cls, path: Path) -> Told:
        """What is in `path`; nothing was told where it is not there. RecordError for a damaged file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise RecordError(f"{path}: {one_sentence(error)}") from None

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        write_file(path, self.model_dump_json(indent=1).encode() + b"\n")
