"""Is a run on container desktops refused before it starts, where their image is missing? An engine of a page of Python."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import unquote

import pytest
from worker_scene import run_file

from legato_rl.config import DesktopConfig, Settings
from legato_rl.errors import ConfigError
from legato_rl.fake.server import FakePolicyServer
from legato_rl.machine import ENGINE_S, IMAGE_S, look_at_engine
from legato_rl.run.prepare import check_backend
from legato_rl.run.prepare_service import Terms
from legato_rl.run.serve import configuration, serve
from legato_rl.service import ServiceDir
from legato_rl.workers.desktop.container import ENGINE_S as WORKERS_S

IMAGE = "legato-desktop:there"
LACKED = "nope:latest"
SLOW = "legato-desktop:slow"
WRONG = "Legato Desktop"
ANSWERS = {f"/images/{IMAGE}/json": 200, f"/images/{LACKED}/json": 404, f"/images/{WRONG}/json": 400}
INFO = {"ApiVersion": "1.41", "ServerVersion": "20.10", "DockerRootDir": "/"}
FOUND = '{"faults": [], "drive": [], "proxy": []}'


class Engine(ThreadingHTTPServer):
    """Has one image, is asked for one that it does not come to, and refuses a name. `asked` has the paths, without version."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []
        self.ends = Event()


class Answers(BaseHTTPRequestHandler):
    """The engine's side of one connection."""

    server: Engine

    def do_GET(self) -> None:
        """An image's size, or what all else is told with."""
        path = unquote(self.path).removeprefix(f"/v{INFO['ApiVersion']}")
        self.server.asked.append(path)
        if SLOW in path:
            self.server.ends.wait()
            return
        status = ANSWERS.get(path, 200)
        body = json.dumps({**INFO, "Id": "sha256:0", "Size": 1} if status == 200 else {"message": "No such image"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not told."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine that the environment names."""
    with Engine() as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        yield server
        server.ends.set()
        server.shutdown()


@pytest.fixture(autouse=True)
def osworld_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the workers' interpreter would say, had it OSWorld."""
    monkeypatch.setattr("legato_rl.run.prepare.ask_workers", lambda *args, **kwargs: FOUND)


def settings(desktop: DesktopConfig, url: str = "http://127.0.0.1:9/v1") -> Settings:
    """Those of a run on such desktops."""
    plain = run_file(Path("/x")).settings
    return plain.model_copy(update={"desktop": desktop, "policy": plain.policy.model_copy(update={"url": url})})


def check(image: str, backend: str = "container", provider: str = "docker") -> None:
    """The check of desktops of an image."""
    check_backend(settings(DesktopConfig(backend=backend, provider=provider, image=image)), [])


@pytest.mark.parametrize(("backend", "provider"), [("container", "docker"), ("osworld", "container")])
@pytest.mark.usefixtures("engine")
def test_an_image_that_the_engine_lacks(backend: str, provider: str) -> None:
    """It is named, with what makes it, by either name of these desktops; one that is there is passed."""
    check(IMAGE, backend, provider)
    with pytest.raises(ConfigError) as error:
        check(LACKED, backend, provider)
    assert str(error.value) == (
        "image is 'nope:latest': the Docker engine has none of that name; make it with legato-rl desktop build, "
        "or name another with --image"
    )


def test_other_desktops_need_no_image(engine: Engine) -> None:
    """Those of OSWorld's other providers: the engine is not asked."""
    check(LACKED, "osworld", "vmware")
    assert engine.asked == []


def test_the_image_alone_is_asked_for(engine: Engine) -> None:
    """Beside the version of its API: what else it could tell takes long while it removes containers."""
    check(IMAGE)
    assert engine.asked == ["/version", f"/images/{IMAGE}/json"]


@pytest.mark.usefixtures("engine")
def test_an_engine_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the time that it has with a worker, which is more than it has with the table of `doctor`."""
    assert IMAGE_S == WORKERS_S > ENGINE_S
    monkeypatch.setattr("legato_rl.machine.IMAGE_S", 0.2)
    with pytest.raises(ConfigError, match=r"^Docker engine: it does not answer \(.*timeout=0\.2\)\); start it"):
        check(SLOW)


@pytest.mark.parametrize("image", [WRONG, "", ".", "..", "../json", "legato/../desktop", "legato/"])
@pytest.mark.usefixtures("engine")
def test_a_name_that_no_image_has(image: str) -> None:
    """One sentence about the name, not about the engine, which refuses it (400) or would be asked for something else."""
    said = f"image is {image!r}: no image can have that name; it must be as in legato-desktop:office"
    with pytest.raises(ConfigError) as error:
        check(image)
    assert str(error.value) == said
    with pytest.raises(ConfigError) as error:
        look_at_engine([image])
    assert str(error.value) == said


@pytest.mark.usefixtures("engine")
def test_what_a_table_tells() -> None:
    """The engine's version and folder, and of the images those that it has."""
    found, root = look_at_engine([IMAGE, LACKED])
    assert (found.version, found.images, root) == ("20.10", {IMAGE: 1}, "/")


def test_an_engine_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of its images nothing is known: it is named itself, without a wait for the time that a slow one has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = server.getsockname()[1]
    monkeypatch.setattr("legato_rl.machine.IMAGE_S", 10**6)
    for host, why in ((f"unix://{tmp_path}/none.sock", "No such file"), (f"tcp://127.0.0.1:{refused}", "refused")):
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(ConfigError, match=rf"^Docker engine: it does not answer \(.*{why}.*\); start it, join the group"):
            check(IMAGE)


def test_an_operators_configuration_needs_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It starts nothing, and may be for another user; what starts a service looks for the image."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with FakePolicyServer() as url:
        asked = settings(DesktopConfig(backend="container", image=IMAGE), url)
        with pytest.raises(ConfigError, match=r"^Docker engine: it does not answer"):
            serve(tmp_path / "d", asked, Terms())
        assert not (tmp_path / "d").exists()
        assert "legato-rl" in configuration(tmp_path / "d", asked, Terms())
    assert ServiceDir(tmp_path / "d").load().settings.desktop.image == IMAGE
