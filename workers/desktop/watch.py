"""What were OSWorld's own calls answered? A watch over `requests`, under its controllers, getters and setup steps.

OSWorld's client makes the same None of a file that is not there, of a 500 and of a broken connection. Here the three
are told apart at the HTTP response, where they still differ: a *loss* (no answer, a 5xx, a body that cannot be read) is
remembered and, whatever OSWorld makes of it, becomes a DesktopFailure; a *no* is the guest's own and stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import RUNS, cannot_start, check_identity, did_not_end, ran, read_json
from legato_rl.workers.desktop.guest_server.answers import DESKTOP

CALL_S = 60.0
ROUTE_S = {"/setup/upload": 600.0, "/setup/open_file": 180.0, "/accessibility": 120.0, "/end_recording": 120.0}
"""Seconds that OSWorld's own calls may take. It gives many of them no limit."""
EXECUTE_S = 150.0
JSON_ROUTES = frozenset(
    {"/terminal", "/accessibility", "/screen_size", "/window_size", "/desktop_path", "/list_directory", "/run_python"}
)
NO_BY_500 = frozenset({"/window_size", "/wallpaper"})
"""Routes at which OSWorld's server breaks where there is no such window, or the picture is no file any more: the policy may
have closed the one and deleted the other. That the guest itself is well is what the probe after the verdict is for."""
_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class No:
    """The guest said that something is not there. `plain`: by its status; else by an exit code or an empty output."""

    plain: bool
    text: str


@dataclass
class Watch:
    """What OSWorld's calls were answered since `begin`. Calls count only inside `on`."""

    losses: list[DesktopFailure] = field(default_factory=list)
    noes: list[No] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    """What failed that was asked of neither the guest nor its programs: downloads."""
    pinging: bool = False
    """A setup is pinging the guest with GET /terminal, of which any status is an answer."""
    _guest: tuple[str, int] | None = None
    _programs: frozenset[int] = frozenset()
    _token: str = field(default="", repr=False)

    @contextmanager
    def on(self, host: str, server: int, programs: set[int], token: str = "") -> Iterator[None]:
        """Watch from here on. `programs`: ports of the guest at which its programs may listen. `token` as Guest's."""
        self.aim(host, server, programs, token)
        _install(self)
        try:
            yield
        finally:
            _install(None)

    def aim(self, host: str, server: int, programs: set[int], token: str = "") -> None:
        """The guest is there now, and nothing is noted of it yet: a revert may have moved it."""
        self.losses, self.noes, self.outside = [], [], []
        self._guest, self._programs, self._token = (host, server), frozenset(programs), token

    def look_away(self) -> None:
        """The guest is being booted: what it does not answer until `aim` is no loss."""
        self._guest = None

    def check(self) -> None:
        """Raise the first loss, if there was one."""
        if self.losses:
            raise self.losses[0]

    def send(self, usual: Callable[..., requests.Response], session: requests.Session, request: Any, given: Any) -> Any:
        """One HTTP exchange of OSWorld's: passed on, bounded, and judged."""
        parts = urlsplit(request.url)
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        if self._guest is None:
            return usual(session, request, **given)
        if place[0] != self._guest[0]:
            return self._send_outside(usual, session, request, given)
        if place == self._guest:
            return self._send_to_guest(parts.path, usual, session, request, given)
        if place[1] in self._programs:
            return self._send_to_program(place[1], usual, session, request, given)
        return self._send_outside(usual, session, request, given)

    def _send_to_guest(self, route: str, usual: Any, session: Any, request: Any, given: dict[str, Any]) -> requests.Response:
        if self.losses:
            # The verdict is lost already: no further call is waited for.
            raise requests.ConnectionError("an answer of the guest was lost before")
        limit = ROUTE_S.get(route, EXECUTE_S if route.endswith(RUNS) else CALL_S)
        bounded = {**given, "timeout": _least(given.get("timeout"), limit), "proxies": {}, "stream": False}
        if self._token:
            request.headers[DESKTOP] = self._token
        try:
            response: requests.Response = usual(session, request, **bounded)
        except requests.RequestException as error:
            lost = "guest_timeout" if isinstance(error, requests.Timeout) else "answer_lost"
            self.losses.append(DesktopFailure(lost, f"{request.method} {route}: {error}"))
            raise
        try:
            self._judge(route, response)
        except DesktopFailure as failure:
            self.losses.append(failure)
        return response

    def _judge(self, route: str, response: requests.Response) -> None:
        status, body = response.status_code, response.content
        check_identity(route, response.headers.get(DESKTOP), self._token)
        if route == "/terminal" and self.pinging:
            return
        no_by_500 = status == 500 and route in NO_BY_500
        # A command that does not end may be a script that the policy wrote.
        refused = cannot_start(route, status, body) or did_not_end(route, status, body)
        if no_by_500 or refused or 400 <= status < 500:
            self.noes.append(No(True, f"{route} was answered {status}: {body[:200]!r}"))
            return
        if status != 200:
            raise DesktopFailure("guest_error", f"{route} was answered {status}: {body[:200]!r}")
        told = response.headers.get("Content-Length")
        if told is not None and "Content-Encoding" not in response.headers and int(told) != len(body):
            raise DesktopFailure("answer_lost", f"{route} was answered with {len(body)} of {told} bytes")
        if route.endswith(RUNS):
            done = ran(status, body)
            if done.rc != 0 or not done.stdout.strip():
                self.noes.append(No(False, f"{route} ended with {done.rc}, {len(done.stdout)} characters out"))
        elif route in JSON_ROUTES:
            read_json(route, body)
        elif route == "/file":
            if "attachment" not in response.headers.get("Content-Disposition", ""):
                raise DesktopFailure("bad_body", f"{route} was answered with no attachment: {body[:200]!r}")
        elif route == "/screenshot":
            if not body.startswith(_PNG):
                raise DesktopFailure("screenshot", f"{route} was answered with no PNG: {body[:200]!r}")
        elif not body or _PAGE.match(body):
            raise DesktopFailure("bad_body", f"{route} was answered with {body[:200]!r}")

    def _send_to_program(self, port: int, usual: Any, session: Any, request: Any, given: dict[str, Any]) -> requests.Response:
        bounded = {**given, "timeout": _least(given.get("timeout"), CALL_S), "proxies": {}}
        try:
            response: requests.Response = usual(session, request, **bounded)
        except requests.Timeout as error:
            self.losses.append(DesktopFailure("guest_timeout", f"port {port}: {error}"))
            raise
        except requests.RequestException as error:
            # The guest forwards its ports whether or not a program listens: nothing there is the policy's doing.
            self.noes.append(No(True, f"nothing answers at port {port}: {error}"))
            raise
        if response.status_code >= 400:
            self.noes.append(No(True, f"port {port} answered {response.status_code}"))
        return response

    def _send_outside(self, usual: Any, session: Any, request: Any, given: dict[str, Any]) -> requests.Response:
        bounded = {**given, "timeout": _least(given.get("timeout"), 300.0)}
        try:
            response: requests.Response = usual(session, request, **bounded)
        except requests.RequestException as error:
            self.outside.append(f"{request.method} {request.url}: {error}")
            raise
        if response.status_code >= 400:
            self.outside.append(f"{request.method} {request.url} was answered {response.status_code}")
        # Older urllib3 takes half a body for a whole one, and the half file would be graded against.
        response.raw.enforce_content_length = True
        usual_body = response.iter_content

        def body(*args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                yield from usual_body(*args, **kwargs)
            except requests.RequestException as error:
                self.outside.append(f"the body of {request.url}: {error}")
                raise

        response.iter_content = body  # type: ignore[method-assign]
        return response


def _least(given: Any, limit: float) -> float:
    """The shorter of what a call was given (None, seconds, or connect and read) and our limit."""
    numbers = [number for number in (given if isinstance(given, tuple) else (given,)) if number is not None]
    return min(max(numbers, default=limit), limit)


_usual_send = requests.Session.send
_watch: Watch | None = None


def _install(watch: Watch | None) -> None:
    """Have every call of this process that uses requests' own adapter go through `watch`. Our own lines do not."""
    global _watch
    _watch = watch
    requests.Session.send = _watched_send if watch else _usual_send  # type: ignore[method-assign, assignment]


def _watched_send(session: requests.Session, request: Any, **given: Any) -> requests.Response:
    if _watch is None or type(session.get_adapter(request.url)) is not HTTPAdapter:
        return _usual_send(session, request, **given)
    response: requests.Response = _watch.send(_usual_send, session, request, given)
    return response
