"""How does a test have a file read slowly? Whoever reads it stands still until the test lets go."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0


@contextmanager
def held_up(path: Path) -> Iterator[None]:
    """Threads that begin meanwhile and read the file are held up; at the end it is as it was, and they have ended."""
    data, before = path.read_bytes(), set(threading.enumerate())
    path.unlink()
    os.mkfifo(path)
    try:
        yield
    finally:
        # For reading too, which waits for nobody; and before the pipe goes, so that whoever comes later finds the file.
        end = os.open(path, os.O_RDWR)
        whole = path.with_name("whole")
        whole.write_bytes(data)
        whole.replace(path)
        os.write(end, data)
        os.close(end)
        for thread in set(threading.enumerate()) - before:
            thread.join(PATIENCE_S)
