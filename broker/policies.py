"""Which policy does a call ask for, and what is its step stamped with? PURE: names by run and number.

A try is handed out with the number of its run's newest policy. `set` gives every number another name (the weights behind
them all have changed, and calls stood still meanwhile); `add` makes a new number (tries that run keep theirs).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from legato_rl.config import Settings
from legato_rl.wire import PolicyName, RunPolicy

EVERY = "*"
"""The `run` that means all runs, and those to come."""


@dataclass
class Policies:
    """The policies of all runs. `default` is what a run gets that names none."""

    default: PolicyName
    names: dict[str, list[PolicyName]] = field(default_factory=dict)

    def begin(self, run: str, name: PolicyName) -> None:
        """A run begins with `name`; one that is known keeps what it has."""
        self.names.setdefault(run, [name])

    def end(self, run: str) -> None:
        """A run is over."""
        self.names.pop(run, None)

    def number(self, run: str) -> int:
        """The number of the run's newest policy."""
        return len(self.names[run]) - 1

    def current(self, run: str) -> PolicyName:
        """The run's newest policy."""
        return self.names[run][-1]

    def set(self, run: str, model: str, version: str, only_new: bool) -> None:
        """Another model or version (what is empty stays): of `run`, or of all with `EVERY`."""
        for name in self.names if run == EVERY else [run]:
            changed = _changed(self.names[name][-1], model, version)
            if not only_new:
                self.names[name] = [changed] * len(self.names[name])
            elif changed != self.names[name][-1]:
                self.names[name].append(changed)
        if run == EVERY:
            self.default = _changed(self.default, model, version)

    def told(self, settings: dict[str, Settings]) -> list[RunPolicy]:
        """What the proxy needs to know of each run, by the runs' settings."""
        return [
            RunPolicy(
                run=run,
                names=self.names[run],
                step_timeout=one.policy.step_timeout,
                retries=one.policy.retries,
            )
            for run, one in settings.items()
        ]


def _changed(name: PolicyName, model: str, version: str) -> PolicyName:
    return PolicyName(model=model or name.model, version=version or name.version)
