"""Does a client tell at once that nobody is there, and wait for a broker that is only away? Sockets of this machine."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from control_scene import service
from worker_scene import run_file

from legato_rl.clock import SystemClock
from legato_rl.control import ANSWER_S, DOWN_S, ControlClient
from legato_rl.endpoints import ENDPOINTS, address
from legato_rl.errors import ConfigError, NoAnswer
from legato_rl.run.connect import find_service, refuse_down
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context
from legato_rl.up import is_up


class Fast(SystemClock):
    """A clock on which `seconds` pass in one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def monotonic(self) -> float:
        return super().monotonic() * self._seconds


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder of a short name."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder:
        yield Path(folder)


def listener(path: Path, backlog: int = 1) -> socket.socket:
    """A process that listens there."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    bound.listen(backlog)
    return bound


@pytest.mark.parametrize("name", ["supervisor", *ENDPOINTS])
def test_whoever_listens_is_up(sockets: Path, name: str) -> None:
    """Any process of a service; a socket that a dead one left behind is none."""
    assert not is_up(sockets)
    with listener(sockets / name):
        assert is_up(sockets)
    assert (sockets / name).is_socket()
    assert not is_up(sockets)


def test_who_has_too_many_callers_is_up(sockets: Path) -> None:
    """It is there, though it takes up no more of them now."""
    with listener(sockets / "rows", backlog=0), ExitStack() as stack:
        for _ in range(3):
            caller = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            caller.setblocking(False)
            caller.connect_ex(str(sockets / "rows"))
        assert is_up(sockets)


def test_there_is_no_such_place(tmp_path: Path) -> None:
    """Told at once, with what may be named."""
    (tmp_path / "notes.txt").touch()
    said = r"^where is '.*': it holds no service and no run; name the --dir of a legato-rl serve, or tcp://HOST:PORT$"
    for place in (tmp_path / "nope", tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ConfigError, match=said):
            ControlClient(place)


def test_a_service_that_is_down_is_not_waited_for(sockets: Path, tmp_path: Path) -> None:
    """The sentence says how to start it."""
    ServiceDir(tmp_path).write(service(sockets))
    said = f"no process of it is up; start it with legato-rl serve --dir {tmp_path}, or the supervisord that runs it"
    with ControlClient(tmp_path, clock=Fast(DOWN_S)) as client:
        with pytest.raises(NoAnswer, match=rf"within \d+(\.\d)? s: {said}$"):
            client.resume()


def test_a_run_that_is_over_is_not_waited_for(sockets: Path, tmp_path: Path) -> None:
    """The sentence says how one that was cut goes on."""
    RunDir(tmp_path).write_run(run_file(sockets))
    said = "no process of it is up; a run that was cut goes on with legato-rl collect --resume"
    with ControlClient(tmp_path, clock=Fast(DOWN_S)) as client:
        with pytest.raises(NoAnswer, match=said):
            client.resume()
    RunDir(tmp_path).write_end("finished", "", "2030-01-01T00:00:00Z")
    with ControlClient(tmp_path) as client:
        with pytest.raises(NoAnswer, match=f"^nobody is at {tmp_path}: .*; the run has finished, and its folder has all"):
            client.refuse_down()


def test_a_broker_that_is_away_is_waited_for(sockets: Path, tmp_path: Path) -> None:
    """Its sink is there, so somebody is about to start it."""
    ServiceDir(tmp_path).write(service(sockets))
    with Context() as context, context.server("rows", address(sockets, "rows")):
        with ControlClient(tmp_path, clock=Fast(ANSWER_S / 2)) as client:
            with pytest.raises(NoAnswer, match=rf"within {ANSWER_S:.0f} s: is the service up\?$"):
                client.resume()


def test_status_takes_its_time(sockets: Path, tmp_path: Path) -> None:
    """So a script waits for a service that it has started."""
    ServiceDir(tmp_path).write(service(sockets))
    clock = Fast(2 * DOWN_S)
    with ControlClient(tmp_path, clock=clock) as client:
        began = clock.monotonic()
        assert client.status(wait_s=3 * DOWN_S) is None
        assert clock.monotonic() - began >= 3 * DOWN_S


def test_a_run_needs_a_service_that_is_up(sockets: Path, tmp_path: Path) -> None:
    """`collect --connect` is refused at once where none is."""
    with pytest.raises(ConfigError, match=r"^connect is '.*': there is no service; start one with legato-rl serve --dir "):
        find_service(tmp_path)
    made = service(sockets)
    ServiceDir(tmp_path).write(made)
    assert find_service(tmp_path) == made
    with pytest.raises(ConfigError, match=r"^connect is '.*': no process of its service is up; start it with legato-rl serve"):
        refuse_down(tmp_path, made)
    with listener(sockets / "supervisor"):
        refuse_down(tmp_path, made)
