"""Who is the one writer of a folder? DISK: a file that its sink keeps locked (flock)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from legato_rl.errors import ConfigError


class FolderLock:
    """Holds the lock file `path` of a folder until closed, or until its process is gone, however that went."""

    def __init__(self, path: Path) -> None:
        """ConfigError where another sink holds it, OSError where the file cannot be made."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise ConfigError(f"{path.parent} is locked by another sink: end that one, or use another folder") from None
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Release it."""
        os.close(self._fd)
