"""What does the guest answer? Our own client of OSWorld's guest API: every call sent once, bounded, and classified.

The guest's own "no" (a 404, a program that it cannot find, an exit code) is an answer and is returned. A connection
that breaks, a time-out, a 5xx and a body that cannot be read are no answers: DesktopFailure, its type saying which.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import requests

from legato_rl.clock import Clock
from legato_rl.desktop import DesktopFailure
from legato_rl.policy.line import Line, LineBroken
from legato_rl.policy.verdicts import Break
from legato_rl.workers.desktop.guest_server.answers import DESKTOP
from legato_rl.workers.desktop.picture import Frame

SCREENSHOT_S = 15.0
PROBE_S = 10.0
EXECUTE_S = 150.0
"""The guest's server gives a command up after 120 s and says so."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Where Linux has a name for its present boot."""
SCREENSHOT_TRIES = 3
"""A picture may be asked for again: that changes nothing in the guest."""
NOT_STARTED = 127
"""The exit code that stands for a command that the guest could not start, as a shell has it."""
TIMED_OUT = 124
"""The exit code that stands for a command that the guest gave up, as `timeout` has it."""

FOREIGN = "foreign_guest"
"""The type of the failure where another than the desktop answers."""

_TYPES = {
    Break.REFUSED: "guest_unreachable",
    Break.TIMEOUT: "guest_timeout",
    Break.STALE: "answer_lost",
    Break.CUT: "answer_lost",
    Break.CANCELLED: "answer_lost",
}
_COMMAND_NO = re.compile(r"\[Errno (?:2|7|8|13|20)\]|'utf-8' codec can't decode")
"""No such file, too long, no program, not allowed, no folder: Python's words for a command that cannot be started; and for
one whose output is no text."""
_GIVEN_UP = re.compile(r" timed out after [\d.]+ seconds\Z")
RUNS = ("/execute", "/legato/act")
"""How the routes end that run a command until it ends."""
_FILE_NO = re.compile(r".*\[Errno (?:13|20|21|36|40)\]")
"""Not allowed, no folder, a folder, too long a name, links in a circle: there is no such file to be read."""


@dataclass(frozen=True)
class Ran:
    """What a command did in the guest: its exit code and what it wrote."""

    rc: int
    stdout: str
    stderr: str
    ended: bool = True
    """False where the guest gave it up: it did not end in the seconds that the guest allows."""


def check_identity(what: str, shown: str | None, token: str) -> None:
    """DesktopFailure, type FOREIGN, where an answer (to `what`) shows another token than the desktop's.

    Docker gives the port of a container that ended to the next one, and another program of this machine may listen there.
    `token` empty: the desktop has none, as OSWorld's own, and nothing can be told.
    """
    if token and shown != token:
        raise DesktopFailure(FOREIGN, f"{what} was not answered by this desktop: its port is somebody else's now")


class _Heard(Line):
    """A line that knows which desktop the last answer came from."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.desktop: str | None = None
        self._session.hooks["response"].append(self._hear)

    def _hear(self, response: requests.Response, **_: Any) -> None:
        self.desktop = response.headers.get(DESKTOP)


class Guest:
    """The guest's server at `http://host:port`. Calls come from one thread.

    `token`: what a container desktop was given when it was started. Each call names it, and each answer must show it.
    """

    def __init__(self, host: str, port: int, clock: Clock, token: str = "") -> None:
        self.origin = f"http://{host}:{port}"
        self.screenshots = 0
        """Pictures that this guest gave since it was booted."""
        self.clock = clock
        self._line = _Heard(clock)
        self._token = token
        self._probes = 0

    def call(self, method: str, route: str, seconds: float, body: Any = None) -> tuple[int, bytes]:
        """Status (below 500) and body of one exchange, on a connection of its own. DesktopFailure where there is none.

        `body` is sent as JSON. A kept connection may be stale, and what was sent on it cannot be sent again.
        """
        if body is None:
            return self.send(method, route, seconds, None, {})
        return self.send(method, route, seconds, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def send(self, method: str, route: str, seconds: float, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """As `call`, with a body as it stands."""
        headers = {**headers, "Connection": "close", **({DESKTOP: self._token} if self._token else {})}
        try:
            status, answer = self._line.call(method, self.origin + route, headers, data, seconds, None)
        except LineBroken as broken:
            raise DesktopFailure(_TYPES[broken.broken], f"{method} {route}: {broken}") from None
        finally:
            self._line.close()
        check_identity(f"{method} {route}", self._line.desktop, self._token)
        if status >= 500 and not cannot_start(route, status, answer) and not did_not_end(route, status, answer):
            raise DesktopFailure("guest_error", f"{method} {route} was answered {status}: {answer[:200]!r}")
        return status, answer

    def json(self, method: str, route: str, seconds: float, body: Any = None) -> dict[str, Any]:
        """The JSON object that the guest answers with 200. DesktopFailure for any other answer."""
        status, answer = self.call(method, route, seconds, body)
        if status != 200:
            raise DesktopFailure("guest_refused", f"{method} {route} was answered {status}: {answer[:200]!r}")
        return read_json(route, answer)

    def execute(self, command: list[str] | str, seconds: float = EXECUTE_S, *, shell: bool = False) -> Ran:
        """Run a command in the guest, sent once. One that it cannot start has the exit code 127, one that it gave up 124.

        DesktopFailure where the answer is lost: the command may have run.
        """
        status, answer = self.call("POST", "/execute", seconds, {"command": command, "shell": shell})
        return ran(status, answer)

    def screenshot(self, size: tuple[int, int]) -> Frame:
        """The screen, whole and of `size` pixels. Asked for again where it is not; DesktopFailure at the third time."""
        for left in reversed(range(SCREENSHOT_TRIES)):
            try:
                self.screenshots += 1
                status, answer = self.call("GET", "/screenshot", SCREENSHOT_S)
                if status != 200:
                    raise DesktopFailure("screenshot", f"the guest answered {status}: {answer[:200]!r}")
                return Frame(answer, size)
            except DesktopFailure as failure:
                if not left or failure.type == FOREIGN:
                    raise
        raise AssertionError("the last round returns or raises")

    def probe(self) -> None:
        """The guest runs what it is sent and answers with what that said. DesktopFailure, type `guest_probe`, where not."""
        self._probes += 1
        word = f"legato-{self._probes}"
        answer = self.execute(["echo", word], PROBE_S)
        if answer.rc != 0 or answer.stdout.strip() != word:
            raise DesktopFailure("guest_probe", f"asked to echo {word!r} the guest answered {answer}")

    def boot_id(self) -> str:
        """The name of the guest's present boot; empty where it has none."""
        return self.execute(["cat", BOOT_ID], PROBE_S).stdout.strip()

    def offers(self, route: str) -> bool:
        """Whether this guest's server is ours and has `route`; OSWorld's answers 404."""
        return self.call("GET", route, PROBE_S)[0] == 200

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


def ran(status: int, answer: bytes) -> Ran:
    """An answer of /execute. DesktopFailure where it is none that the route gives."""
    return _ran("/execute", status, answer)[0]


def acted(status: int, answer: bytes) -> tuple[Ran, dict[str, Any]]:
    """An answer of our server's /legato/act: what the action did, and what else is said; nothing where it was given up."""
    return _ran("/legato/act", status, answer)


def _ran(route: str, status: int, answer: bytes) -> tuple[Ran, dict[str, Any]]:
    if did_not_end(route, status, answer):
        return Ran(TIMED_OUT, "", str(json.loads(answer)["message"]), ended=False), {}
    if cannot_start(route, status, answer):
        return Ran(NOT_STARTED, "", str(json.loads(answer)["message"])), {}
    if status != 200:
        raise DesktopFailure("guest_refused", f"{route} was answered {status}: {answer[:200]!r}")
    said = read_json(route, answer)
    return read_ran(said), said


def read_ran(said: dict[str, Any]) -> Ran:
    """What a command did, from the guest's words. DesktopFailure where they do not say it."""
    rc = said.get("returncode")
    if not isinstance(rc, int):
        raise DesktopFailure("bad_body", f"a command was answered with {str(said)[:200]}")
    return Ran(rc, str(said.get("output") or ""), str(said.get("error") or ""))


def cannot_start(route: str, status: int, answer: bytes) -> bool:
    """Whether a 500 is the guest's word that it cannot do what it was asked: start that command, read that file.

    OSWorld's server has no other status for that. The policy may have removed the file, or put a folder in its place: it
    is a "no", not a broken desktop.
    """
    said = _told(status, answer)
    if route == "/file":
        return bool(_FILE_NO.match(str(said.get("error"))))
    return route.endswith(("/execute", "/launch")) and bool(_COMMAND_NO.match(str(said.get("message"))))


def did_not_end(route: str, status: int, answer: bytes) -> bool:
    """Whether a 500 is the guest's word that a command did not end in time: the policy may have written it so."""
    message = str(_told(status, answer).get("message"))
    return route.endswith(RUNS) and message.startswith("Command ") and bool(_GIVEN_UP.search(message))


def _told(status: int, answer: bytes) -> dict[str, Any]:
    """The object in the body of a 500; empty where there is none."""
    try:
        said = json.loads(answer) if status == 500 else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def read_json(route: str, answer: bytes) -> dict[str, Any]:
    """The JSON object of a body. DesktopFailure, type `bad_body`, where it is none."""
    try:
        said = json.loads(answer)
    except ValueError:
        raise DesktopFailure("bad_body", f"{route} was answered with no JSON: {answer[:200]!r}") from None
    if not isinstance(said, dict):
        raise DesktopFailure("bad_body", f"{route} was answered with a {type(said).__name__}")
    return said
