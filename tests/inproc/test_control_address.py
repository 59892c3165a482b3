"""Is the address for trainers elsewhere had before a service starts, and may it be another one later? Real sockets."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_scene import run_file

from legato_rl.curve import write_keys
from legato_rl.errors import ConfigError
from legato_rl.run.prepare_service import Terms, check_control, claimed, describe
from legato_rl.run.serve import serve
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.supervisord import control_socket

SETTINGS = run_file(Path("/x")).settings


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder of keys."""
    write_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def in_use() -> Iterator[str]:
    """An address that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"tcp://127.0.0.1:{other.getsockname()[1]}"


def make(root: Path, terms: Terms) -> ServiceFile:
    """A service that was described and written."""
    with claimed(root) as folder:
        service = describe(folder, SETTINGS, terms, {})
        folder.write(service)
    return service


def test_an_address_that_is_in_use(tmp_path: Path, keys: Path, in_use: str) -> None:
    """One sentence; nothing is made of a new folder, and a service that is there stays as it is."""
    said = f"^control is '{in_use}': it cannot be bound \\(Address already in use.*\\); choose another$"
    with pytest.raises(ConfigError, match=said):
        serve(tmp_path / "d", SETTINGS, Terms(control=in_use, keys=keys))
    assert not (tmp_path / "d").exists()
    make(tmp_path / "d", Terms(control=in_use, keys=keys))
    before = ServiceDir(tmp_path / "d").service_file.read_bytes()
    with pytest.raises(ConfigError, match=said):
        serve(tmp_path / "d", SETTINGS, Terms(control=in_use, keys=keys))
    assert ServiceDir(tmp_path / "d").service_file.read_bytes() == before


def test_an_address_that_is_free_stays_free(keys: Path) -> None:
    """It was had for a moment alone: the broker is to have it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = f"tcp://127.0.0.1:{other.getsockname()[1]}"
    for _ in range(2):
        check_control(Terms(control=free, keys=keys))
    check_control(Terms())


def test_the_address_may_be_another_while_the_service_is_down(keys: Path, in_use: str) -> None:
    """Its file names the new one from then on; while any of its processes is up, its clients go by the old one."""
    with tempfile.TemporaryDirectory(prefix="lr-") as place, socket.socket(socket.AF_UNIX) as supervisord:
        root = Path(place)
        made = make(root, Terms())
        assert made.control == f"ipc://{made.sockets}/control"
        for address in (in_use, "tcp://127.0.0.1:5555"):
            again = make(root, Terms(control=address, keys=keys))
            assert (again.control, again.keys) == (address, keys)
            assert ServiceDir(root).load() == again
        again.sockets.mkdir(mode=0o700, exist_ok=True)
        supervisord.bind(str(control_socket(again.sockets)))
        supervisord.listen()
        with pytest.raises(ConfigError, match=f"control is '{in_use}': this service was made with 'tcp://127.0.0.1:5555'"):
            make(root, Terms(control=in_use, keys=keys))
