"""Which errors of a run that stopped are tried again? SHELL: reads its rows, those of a large run beside the broker's loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from legato_rl.beside import AT_ONCE_BYTES, Beside
from legato_rl.config import Settings
from legato_rl.errors import LegatoError
from legato_rl.export.groups import env_errors
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.rundir import RunDir


class StillReading(LegatoError):
    """A run's rows are being read; whoever asks again is told in the end."""


@dataclass
class Again:
    """The errors of kind env of runs that stopped. `at_once`: bytes of rows for which no thread is begun."""

    at_once: int = AT_ONCE_BYTES
    _reading: dict[str, tuple[int, Beside[list[str]]]] = field(default_factory=dict)
    """By run: the bytes of its rows, and the thread that reads them."""

    def of(self, folder: RunDir, settings: Settings) -> list[str]:
        """The rollouts of a run that ended their attempts as errors of kind env, in groups that are not closed.

        StillReading until they are known, RecordError where the folder is damaged.
        """
        name = folder.root.name
        size = folder.rollouts.stat().st_size if folder.rollouts.exists() else 0
        if size <= self.at_once:
            return errors(folder, settings)
        if self._reading.get(name, (-1, None))[0] != size:
            # Never read, or rows have come since.
            self._reading[name] = size, Beside(lambda: errors(folder, settings), f"errors of {name}")
        reading = self._reading[name][1]
        if not reading.done:
            raise StillReading(f"the {size // 2**20} MiB of rows of run {name!r} are still being read: ask again")
        del self._reading[name]
        return reading.result()


def errors(folder: RunDir, settings: Settings) -> list[str]:
    """As `Again.of`, here and now."""
    with RowFile(folder) as file:
        return env_errors(list(file.facts()), settings, load_group_ids(folder))
