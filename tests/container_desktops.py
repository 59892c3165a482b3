"""Fixtures of real container desktops: a Docker engine, the image, running desktops. What is missing fails, nothing skips."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ConfigError
from legato_rl.workers.desktop.container import ContainerDesktop, Size, connect_engine, start_desktop
from legato_rl.workers.desktop.image.build import DEBIAN, build

ENGINE_START_S, ENGINE_END_S = 120.0, 60.0
PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "
"""What OSWorld's client puts before each action."""


class Site:
    """The guest server's HTTP side."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, route: str) -> requests.Response:
        """GET `route`."""
        return self._session.get(self.origin + route, timeout=60)

    def post(self, route: str, **body: Any) -> requests.Response:
        """POST `body` as JSON."""
        return self._session.post(self.origin + route, json=body, timeout=60)

    def form(self, route: str, files: dict[str, bytes] | None = None, **fields: str) -> requests.Response:
        """POST a form; multipart with `files`."""
        named = {name: ("name", data) for name, data in files.items()} if files else None
        return self._session.post(self.origin + route, data=fields, files=named, timeout=60)

    def run(self, command: str) -> str:
        """What a shell command says in the guest; it must succeed."""
        said = self.post("/execute", command=command, shell=True).json()
        assert said["returncode"] == 0, said
        return str(said["output"])

    def act(self, code: str) -> dict[str, Any]:
        """An action, sent as OSWorld's client does."""
        said = self.post("/execute", command=["python", "-c", PREFIX + code], shell=False)
        assert said.status_code == 200, said.text
        answer: dict[str, Any] = said.json()
        return answer

    def reset(self) -> dict[str, Any]:
        """The fast reset."""
        answer: dict[str, Any] = self.post("/legato/reset").json()
        return answer


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Docker engine: the one that answers, else one that is started for these tests."""
    try:
        yield connect_engine()
        return
    except ConfigError:
        if os.geteuid() != 0 or shutil.which("dockerd") is None:
            raise
    log = tmp_path_factory.mktemp("engine") / "dockerd.log"
    with log.open("wb") as file:
        daemon = subprocess.Popen(["dockerd"], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield _answering(daemon, log)
    finally:
        daemon.terminate()
        try:
            daemon.wait(ENGINE_END_S)
        except subprocess.TimeoutExpired:
            # it lets go of every container first, which a busy disk may hold up; that is no test's fault
            daemon.kill()


def _answering(daemon: subprocess.Popen[bytes], log: Path) -> Any:
    deadline = SYSTEM_CLOCK.monotonic() + ENGINE_START_S
    while True:
        try:
            return connect_engine()
        except ConfigError as error:
            if daemon.poll() is not None or SYSTEM_CLOCK.monotonic() > deadline:
                pytest.fail(f"the Docker engine did not start: {error}\n{log.read_text()[-3000:]}")
            SYSTEM_CLOCK.sleep(0.1)


def base_image() -> str | None:
    """What the image starts from, as `build` takes it."""
    return None if os.geteuid() == 0 and shutil.which("mmdebstrap") is not None else DEBIAN


@pytest.fixture(scope="session")
def desktop_image(engine: Any) -> str:
    """The full image, made where there is none of this content: without a registry where mmdebstrap is there.

    It does for all tests: what runs in a fresh desktop is the same in all sizes, and one image takes half as long as two.
    """
    tag, _ = build(engine, size="full", base=base_image(), tag=None, say=lambda line: print(line, file=sys.stderr))
    return tag


@pytest.fixture(scope="module")
def container_desktop(engine: Any, desktop_image: str, request: pytest.FixtureRequest) -> Iterator[ContainerDesktop]:
    """A desktop for the tests of one module, its baseline taken."""
    name = f"test-{os.getpid()}-{request.module.__name__.rpartition('.')[2]}"
    desktop = start_desktop(engine, desktop_image, name, size=Size(memory=2 * 2**30), lease_s=900)
    yield desktop
    desktop.remove()


@pytest.fixture
def site(container_desktop: ContainerDesktop) -> Site:
    """The desktop's guest server."""
    return Site(container_desktop.ports[5000])
