"""Is a service's root made whole, opened again as it was, or left as if nothing had been? Real folders."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest
from worker_scene import run_file

from legato_rl.config import Settings
from legato_rl.curve import write_keys
from legato_rl.errors import ConfigError
from legato_rl.run.prepare_service import Terms, claimed, describe, is_half_made, place_sockets
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.sockets import Context, private_folder
from legato_rl.supervisord import control_socket

SETTINGS = run_file(Path("/x")).settings
URL = "http://127.0.0.1:8000/v1"
AT_URL = SETTINGS.model_copy(update={"policy": SETTINGS.policy.model_copy(update={"url": URL})})


def made(root: Path, settings: Settings = AT_URL, terms: Terms | None = None, fake: bool = False) -> ServiceFile:
    """A service that was described and written."""
    with claimed(root) as folder:
        service = describe(folder, settings, terms or Terms(), {"engine": "x"}, fake)
        folder.write(service)
    return service


def test_a_root_is_private(tmp_path: Path) -> None:
    """It and its folders are the user's alone; its file says what was asked, and nothing of the key."""
    service = made(tmp_path / "a" / "d")
    folder = ServiceDir(tmp_path / "a" / "d")
    assert [path.stat().st_mode & 0o077 for path in (folder.root, folder.runs, folder.logs)] == [0] * 3
    assert folder.load() == service
    assert (service.origins, service.most_desktops, service.once) == (["http://127.0.0.1:8000"], SETTINGS.desktops, "")


@pytest.mark.parametrize("existed", [True, False])
def test_a_root_is_taken_back(tmp_path: Path, existed: bool) -> None:
    """Where nothing was started nothing is left; where a service is, it stays."""
    root = tmp_path / "d"
    if existed:
        root.mkdir()
    with claimed(root) as folder:
        (folder.logs / "fake-policy.log").write_text("x")
        (folder.root / "sockets").mkdir()
    assert (list(root.iterdir()) == []) if existed else not root.exists()
    made(root)
    with claimed(root):
        pass
    assert ServiceDir(root).service_file.exists()


@pytest.mark.parametrize("service", [True, False])
def test_a_root_is_of_one_command(tmp_path: Path, service: bool) -> None:
    """From before there is a service in it; the second is refused, and takes nothing back that is the first one's."""
    root = tmp_path / "d"
    if service:
        made(root)
    with claimed(root) as folder:
        log = folder.logs / "fake-policy.log"
        log.write_text("x")
        with pytest.raises(ConfigError, match=f"^dir is '{root}': another command runs it; end that one, or wait for it$"):
            with claimed(root):
                pass
        assert log.read_text() == "x"
    assert root.exists() is service
    made(root)


@pytest.mark.parametrize("anew", [True, False])
def test_a_lock_that_was_given_back_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool) -> None:
    """Whoever had opened its file before that is refused, whether the next one has made another or not."""
    lock, flock = RunDir(tmp_path / "d").command_lock, fcntl.flock

    def late(fd: int, how: int) -> None:
        lock.unlink()
        if anew:
            lock.touch()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(ConfigError, match="another command runs it"):
        with claimed(tmp_path / "d"):
            pass
    assert list((tmp_path / "d").iterdir()) == ([lock] if anew else [])


def test_a_root_that_cannot_be_used(tmp_path: Path) -> None:
    """A file, a folder that holds something, a run, a place that cannot be written: a sentence each, nothing touched."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    said = {
        tmp_path / "file": "it is a file; name a folder",
        tmp_path / "full": "it is not empty, and holds no service; name a new or empty folder",
        tmp_path / "run": "it holds a run; name a new or empty folder",
        Path("/proc/d"): "name a folder that can be written",
    }
    for root, sentence in said.items():
        with pytest.raises(ConfigError, match=f"dir is '{root}': .*{sentence}"):
            with claimed(root):
                pass
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


HALF = ("command.lock", "runs/", "logs/")
"""What every `serve` makes first."""


@pytest.mark.parametrize(
    "left",
    [
        ("command.lock",),
        ("command.lock", "runs/"),
        HALF,
        (*HALF, "logs/fake-policy.log"),
        (*HALF, "sockets/", "supervisord.conf", ".service.json.4711.tmp", "lock"),
    ],
)
def test_a_root_that_was_begun_is_begun_anew(tmp_path: Path, left: tuple[str, ...]) -> None:
    """A `serve` that was killed before its service.json has left it: there is no service, and nothing of anybody's."""
    lay_out(tmp_path / "d", left)
    assert is_half_made(tmp_path / "d")
    made(tmp_path / "d")
    assert not is_half_made(tmp_path / "d")
    assert ServiceDir(tmp_path / "d").logs.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "holds",
    [
        ("runs/",),
        ("logs/",),
        ("runs/", "logs/"),
        ("supervisord.conf",),
        ("logs/", "supervisord.conf"),
        (*HALF, "thesis.tex"),
        (*HALF, "runs/mine/"),
        (*HALF, "logs/mine.log"),
        (*HALF, "sockets/", "sockets/control"),
        (*HALF, "state.json"),
        (*HALF, "run.json"),
        ("command.lock", "runs", "logs/"),
    ],
)
def test_a_root_that_holds_anything_else_is_left_alone(tmp_path: Path, holds: tuple[str, ...]) -> None:
    """As it is, and with its rights."""
    root = tmp_path / "d"
    lay_out(root, holds)
    root.chmod(0o755)
    assert not is_half_made(root)
    with pytest.raises(ConfigError, match="name a new or empty folder"):
        with claimed(root):
            pass
    assert root.stat().st_mode & 0o777 == 0o755
    assert {path.relative_to(root) for path in root.rglob("*")} >= {Path(name) for name in holds}


def test_only_a_folder_is_half_made(tmp_path: Path) -> None:
    """Nothing else is, nor what is elsewhere."""
    lay_out(tmp_path / "d", HALF)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "runs").symlink_to(tmp_path / "d" / "runs")
    (tmp_path / "file").touch()
    assert not any(is_half_made(tmp_path / name) for name in ("e", "file", "nothing", "d/runs"))


def lay_out(root: Path, names: tuple[str, ...]) -> None:
    """Make files, and folders (names that end in /)."""
    root.mkdir()
    for name in names:
        if name.endswith("/"):
            (root / name).mkdir()
        else:
            (root / name).touch()


def test_a_service_keeps_what_it_is(tmp_path: Path) -> None:
    """Opened again it says the same, and has the same sockets; anything else is named with both values."""
    first = made(tmp_path / "d")
    again = made(tmp_path / "d")
    assert again.model_copy(update={"created_at": first.created_at}) == first
    policy = AT_URL.policy.model_copy(update={"temperature": 0.5})
    desktop = AT_URL.desktop.model_copy(update={"screen_size": (640, 480)})
    different = {
        "temperature is 0.5: this service was made with 1.0; leave it out, or name another folder": (
            AT_URL.model_copy(update={"policy": policy}),
            Terms(),
        ),
        r"screen is \[640, 480\]: this service": (AT_URL.model_copy(update={"desktop": desktop}), Terms()),
        "most-desktops is 9: this service": (AT_URL, Terms(most_desktops=9)),
        "allow-origin is .*: this service": (AT_URL, Terms(origins=("http://b",))),
    }
    for sentence, (settings, terms) in different.items():
        with pytest.raises(ConfigError, match=sentence):
            made(tmp_path / "d", settings, terms)
    assert ServiceDir(tmp_path / "d").load() == again


def test_the_bundled_server_may_be_elsewhere_each_time(tmp_path: Path) -> None:
    """Its port is drawn anew; nothing else may differ, and it is not taken for a server of one's own, nor one for it."""
    made(tmp_path / "d", fake=True)
    moved = AT_URL.model_copy(update={"policy": AT_URL.policy.model_copy(update={"url": "http://127.0.0.1:9/v1"})})
    assert made(tmp_path / "d", moved, fake=True).origins == ["http://127.0.0.1:9"]
    with pytest.raises(ConfigError, match="most-desktops is 9"):
        made(tmp_path / "d", moved, Terms(most_desktops=9), fake=True)
    with pytest.raises(ConfigError, match=r"policy-url is 'http://127.0.0.1:9/v1': this service was made with 'fake'"):
        made(tmp_path / "d", moved)
    made(tmp_path / "e")
    with pytest.raises(ConfigError, match=f"policy-url is 'fake': this service was made with '{URL}'"):
        made(tmp_path / "e", fake=True)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (Terms(most_desktops=1), "most-desktops is 1: it must be 4, the desktops, to 4096"),
        (Terms(most_desktops=5000), "most-desktops is 5000: "),
        (Terms(origins=("ftp://x",)), "allow-origin is 'ftp://x': it must be as in http://127.0.0.1:8000"),
        (Terms(origins=("http://user:secret@x",)), "allow-origin is 'http://…@x': "),
        (Terms(origins=("http://x:port",)), "allow-origin is 'http://x:port': "),
        (Terms(control="tcp://x"), "control is 'tcp://x': it must be tcp://HOST:PORT"),
        (Terms(control="tcp://x:1"), "keys is missing: control over tcp is for those who have one"),
        (Terms(control="tcp://x:1", keys=Path("/none")), "/none/server.secret cannot be read"),
        (Terms(keys=Path("/none")), "keys is '/none': it has no effect without control"),
    ],
)
def test_terms_that_are_wrong(terms: Terms, said: str) -> None:
    """Each in one sentence that names the option."""
    with pytest.raises(ConfigError) as error:
        terms.check(SETTINGS)
    assert str(error.value).startswith(said)


def test_terms_that_are_right(tmp_path: Path) -> None:
    """A service over tcp, that may grow and move."""
    write_keys(tmp_path / "keys")
    terms = Terms(8, ("http://b:8000/v1",), "tcp://*:5555", tmp_path / "keys")
    terms.check(SETTINGS)
    service = made(tmp_path / "d", terms=terms)
    assert (service.control, service.keys) == ("tcp://*:5555", tmp_path / "keys")
    assert service.origins == ["http://127.0.0.1:8000", "http://b:8000"]


def test_sockets_are_below_a_short_root_and_else_elsewhere(tmp_path: Path) -> None:
    """Wherever they are, supervisord can bind its own, with its pid behind the name."""
    short, long = place_sockets(Path("/srv/legato")), place_sockets(tmp_path / ("x" * 100))
    assert short == Path("/srv/legato/sockets")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{control_socket(long)}.4194304")
    assert long.stat().st_mode & 0o777 == 0o700


def test_a_sockets_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    """Whoever binds makes it, private, since a temporary folder does not outlive a reboot; one that is not is refused."""
    with Context() as context:
        context.server("orders", f"ipc://{tmp_path}/s/orders")
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
        (tmp_path / "s").chmod(0o777)
        with pytest.raises(ConfigError, match="others may write in it; remove it, or chmod 700 it"):
            context.server("rows", f"ipc://{tmp_path}/s/rows")
        with pytest.raises(ConfigError, match="the sockets folder is '/proc/nothing/s': No such file or directory; make it"):
            private_folder(Path("/proc/nothing/s"))
