"""Does a desktop answer to its own token alone, and to whoever names none? Requests on paper, and real desktops."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from container_desktops import Site

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import guest as guest_module
from legato_rl.workers.desktop import lease as lease_module
from legato_rl.workers.desktop.container import ContainerDesktop, Size, container_name, start_desktop
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.guest_server.answers import DESKTOP, Answer, Request, as_json
from legato_rl.workers.desktop.guest_server.front import answer
from legato_rl.workers.desktop.lease import Lease
from legato_rl.workers.desktop.owners import reap
from legato_rl.workers.desktop.watch import Watch

pytestmark = pytest.mark.desktop

RUN = f"identity-{os.getpid()}"
SMALL = Size(memory=2**30, cpus=1.0, screen=(1280, 720))
PATIENCE_S = 60.0
"""Seconds that a busy machine gets for an answer."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is late is not lost."""
    for module, name in ((guest_module, "PROBE_S"), (guest_module, "SCREENSHOT_S"), (lease_module, "PROBE_S")):
        monkeypatch.setattr(module, name, PATIENCE_S)


@pytest.mark.parametrize(
    ("token", "named", "status", "shown"),
    [
        ("a", "", 200, None),
        ("", "", 200, None),
        ("a", "a", 200, "a"),
        ("a", "b", 421, None),
        ("", "b", 421, None),
    ],
)
def test_whom_a_request_names(token: str, named: str, status: int, shown: str | None) -> None:
    """Nobody is served, this desktop is served and told, another one is refused and nothing is done."""
    done: list[Request] = []

    def route(request: Request) -> Answer:
        done.append(request)
        return Answer(b"", headers={"X": "y"})

    said = answer({("POST", "/execute"): route}, Request("POST", "/execute", "", b"", named), token)
    assert (said.status, said.headers.get(DESKTOP), len(done)) == (status, shown, status == 200)
    assert status != 200 or said.headers["X"] == "y"


@pytest.mark.parametrize("route", ["/legato/x", "/x"])
def test_a_route_that_breaks(route: str) -> None:
    """Ours tells the cause; OSWorld's sends OSWorld's page. Either says whose answer it is."""

    def broken(request: Request) -> Answer:
        raise OSError("no room")

    said = answer({("GET", route): broken, ("GET", "/y"): lambda request: as_json(1)}, Request("GET", route, "", b"", "a"), "a")
    assert (said.status, said.headers) == (500, {DESKTOP: "a"})
    if route == "/x":
        assert said.body.startswith(b"<!doctype html>")
    else:
        assert json.loads(said.body)["message"] == "OSError: no room"


@pytest.fixture(scope="module")
def pair(engine: Any, desktop_image: str) -> Iterator[tuple[ContainerDesktop, ContainerDesktop]]:
    """Two desktops."""
    names = (f"{RUN}-left", f"{RUN}-right")
    try:
        left, right = (start_desktop(engine, desktop_image, name, size=SMALL, lease_s=900) for name in names)
        yield left, right
    finally:
        for name in names:
            reap(engine, name=name)


def test_another_desktop_does_nothing(pair: tuple[ContainerDesktop, ContainerDesktop]) -> None:
    """Whoever takes it for his own gets no answer from it, and it runs nothing of what it was sent."""
    left, right = pair
    assert left.token != right.token
    mistaken = Guest(right.host, right.ports[5000], SYSTEM_CLOCK, left.token)
    for ask in (
        mistaken.probe,
        lambda: mistaken.execute(["touch", "/tmp/mistaken"]),
        lambda: mistaken.screenshot((1280, 720)),
        lambda: mistaken.offers("/legato/health"),
        lambda: mistaken.json("POST", "/legato/reset", 60.0, {}),
        lambda: Lease(right.host, right.ports[5000], SYSTEM_CLOCK, left.token),
    ):
        with pytest.raises(DesktopFailure) as failure:
            ask()
        assert failure.value.type == "foreign_guest"
        assert left.token not in str(failure.value)
    assert Site(right.ports[5000]).run("ls /tmp") == ""
    for desktop in pair:
        desktop.guest.probe()
        desktop.renew(900, PATIENCE_S)


def test_osworlds_own_calls(pair: tuple[ContainerDesktop, ContainerDesktop]) -> None:
    """They go through the watch, which names the desktop in them: to another one they are lost, to their own answered."""
    left, right = pair
    server, words = f"http://{right.host}:{right.ports[5000]}/setup/execute", {"command": ["touch", "/tmp/mine"]}
    for token, losses in ((left.token, ["foreign_guest"]), (right.token, [])):
        watch = Watch()
        assert token not in repr(watch)
        with watch.on(right.host, right.ports[5000], set(), token):
            assert token not in repr(watch)
            requests.post(server, json=words, timeout=60)
            assert [loss.type for loss in watch.losses] == losses
        assert Site(right.ports[5000]).run("ls /tmp") == ("" if losses else "mine\n")


def test_the_token_stays_where_it_belongs(engine: Any, pair: tuple[ContainerDesktop, ContainerDesktop]) -> None:
    """No program of the session's user has it, no route tells it, no log holds it."""
    desktop, _ = pair
    site = Site(desktop.ports[5000])
    seen = site.run("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    assert "XAUTHORITY=" in seen
    assert desktop.token not in seen
    assert "LEGATO_TOKEN" not in seen
    assert desktop.token not in site.post("/execute", command=["python", "-c", "import pyautogui, os; print(os.environ)"]).text
    health = site.get("/legato/health")
    assert desktop.token not in health.text
    assert DESKTOP not in health.headers
    assert desktop.token not in engine.containers.get(container_name(desktop.name)).logs().decode()


SERVER = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true, "baseline": true}')
HTTPServer(("", 5000), Handler).serve_forever()
"""
"""Answers as a guest that knows of no token."""


def test_an_image_of_another_version(engine: Any, desktop_image: str) -> None:
    """It is found at the first answer, not when the boot's time is over, and the message says what to do."""
    older = engine.containers.create(desktop_image, entrypoint=["/usr/bin/python3", "-c", SERVER], command=[])
    tag = older.id[:12]
    try:
        older.commit("legato-test", tag)
        with pytest.raises(DesktopFailure, match=r"does not show its token.*legato-rl desktop build") as failure:
            start_desktop(engine, f"legato-test:{tag}", f"{RUN}-older", size=SMALL, boot_s=600)
        assert failure.value.type == "boot"
        assert reap(engine, name=f"{RUN}-older") == []
    finally:
        engine.images.remove(f"legato-test:{tag}")
        older.remove(v=True, force=True)
