"""Is a run on container desktops refused before it starts, where their image is missing? An engine of a page of Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from worker_scene import run_file

from legato_rl.errors import ConfigError
from legato_rl.run.prepare import check_backend

IMAGE = "legato-desktop:there"
INFO = {"ApiVersion": "1.41", "ServerVersion": "20.10", "DockerRootDir": "/"}


class Engine(BaseHTTPRequestHandler):
    """Has one image, and answers what is asked of its version and state."""

    def do_GET(self) -> None:
        """An image's size, or what all else is told with."""
        known = "/images/" not in self.path or f"/images/{IMAGE}/" in self.path
        body = json.dumps({**INFO, "Id": "sha256:0", "Size": 1} if known else {"message": "No such image"}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not told."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine that the environment names."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


def check(monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """The check of container desktops of an image, where OSWorld itself is there."""
    monkeypatch.setattr("legato_rl.run.prepare.ask_workers", lambda *args, **kwargs: '{"faults": [], "drive": [], "proxy": []}')
    settings = run_file(Path("/x")).settings
    desktop = settings.desktop.model_copy(update={"backend": "container", "image": image})
    check_backend(settings.model_copy(update={"desktop": desktop}), [])


@pytest.mark.usefixtures("engine")
def test_an_image_that_the_engine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with what makes it; one that is there is passed."""
    check(monkeypatch, IMAGE)
    with pytest.raises(ConfigError) as error:
        check(monkeypatch, "nope:latest")
    assert str(error.value) == (
        "image is 'nope:latest': the Docker engine has none of that name; make it with legato-rl desktop build, "
        "or name another with --image"
    )


def test_an_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of its images nothing is known: it is named itself."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(ConfigError, match=r"^Docker engine: it does not answer \(.*\); start it, join the group docker"):
        check(monkeypatch, IMAGE)
