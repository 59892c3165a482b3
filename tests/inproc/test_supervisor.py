"""What does a run make of a supervisord that does not answer? A real client; sometimes a server that misbehaves."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.run.processes import Supervisor, log_tail
from legato_rl.supervisord import control_socket


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A socket folder of a short name."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder:
        yield Path(folder)


def test_a_supervisord_that_is_not_up_yet_has_no_states(tmp_path: Path, sockets: Path) -> None:
    """Asked before its socket is there, again and again: no states, and no error."""
    supervisor = Supervisor(tmp_path / "conf", sockets, tmp_path, SYSTEM_CLOCK)
    assert [supervisor.states() for _ in range(3)] == [None, None, None]
    assert not supervisor.alive()
    supervisor.stop()
    supervisor.kill()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<?xml", b"nonsense\r\n\r\n"])
def test_a_supervisord_that_hangs_up_has_no_states(tmp_path: Path, sockets: Path, answer: bytes) -> None:
    """It ends in the middle of an answer: no states, and the next question is a fresh one."""
    supervisor = Supervisor(tmp_path / "conf", sockets, tmp_path, SYSTEM_CLOCK)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control_socket(sockets)))
        listener.listen()

        def hang_up() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                connection.recv(4096)
                connection.sendall(answer)
                connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert supervisor.states() is None
        assert supervisor.states() is None
        thread.join(10)


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    """Its last lines, whatever is in it; nothing where there is none."""
    log = tmp_path / "log"
    assert log_tail(log) == ""
    log.write_bytes(b"x" * 10_000 + b"\n" + b"\xff\n".join(b"%d" % n for n in range(9)))
    assert log_tail(log, 2) == "7\ufffd\n8"
