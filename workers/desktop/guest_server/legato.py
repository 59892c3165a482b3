"""What does this server do that OSWorld's does not? The routes below /legato/."""

from __future__ import annotations

from typing import Any

from . import clock
from .answers import Answer, Request, Routes, as_json, failed
from .commands import EXECUTE_S
from .hands import Hands
from .identity import User
from .lease import Lease
from .ready import Wanted, Watch, read_wanted
from .reset import BASELINE_S, NoBaseline, Resetter
from .screen import Screen

VERSION = 1
"""Of these routes."""


class Legato:
    """The routes below /legato/."""

    def __init__(self, user: User, screen: Screen, hands: Hands, lease: Lease, resetter: Resetter) -> None:
        self._user = user
        self._screen = screen
        self._hands = hands
        self._lease = lease
        self._resetter = resetter

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("GET", "/legato/health"): self.health,
            ("POST", "/legato/act"): self.act,
            ("POST", "/legato/ready"): self.ready,
            ("POST", "/legato/baseline"): self.baseline,
            ("POST", "/legato/reset"): self.reset,
            ("POST", "/legato/check"): self.check,
            ("POST", "/legato/lease"): self.lease,
        }

    def health(self, request: Request) -> Answer:
        """That the server and the X server answer, and what is set."""
        said = {"ok": True, "version": VERSION, "screen": self._screen.pixels()}
        return as_json({**said, "baseline": self._resetter.has_baseline(), "lease_s": self._lease.left()})

    def act(self, request: Request) -> Answer:
        """Run `code` in the prepared interpreter; with `ready`, then wait for the screen."""
        asked = request.json()
        code, limit, ready = asked.get("code"), float(asked.get("timeout", EXECUTE_S)), asked.get("ready")
        if not isinstance(code, str):
            return failed("code is required", 400)
        watch = None if ready is None else Watch(self._user.env["DISPLAY"], self._wanted(ready))
        try:
            start = clock.now()
            ended = self._hands.act(code, limit)
            said: dict[str, Any] = {**ended.json(), "seconds": clock.now() - start}
            if watch is not None:
                said["ready"] = watch.settle().json()
            return as_json(said)
        except (OSError, TimeoutError) as error:
            return failed(str(error))
        finally:
            if watch is not None:
                watch.close()

    def ready(self, request: Request) -> Answer:
        """Wait for the screen."""
        watch = Watch(self._user.env["DISPLAY"], self._wanted(request.json()))
        try:
            return as_json(watch.settle().json())
        finally:
            watch.close()

    def baseline(self, request: Request) -> Answer:
        """Take what is there now for clean, in so many `seconds` at most."""
        return as_json(self._resetter.take_baseline(float(request.json().get("seconds", BASELINE_S))))

    def reset(self, request: Request) -> Answer:
        """Go back to the baseline, and tell what did not."""
        try:
            return as_json(self._resetter.reset())
        except NoBaseline as error:
            return failed(str(error), 409)

    def check(self, request: Request) -> Answer:
        """Tell what differs from the baseline."""
        try:
            return as_json(self._resetter.check())
        except NoBaseline as error:
            return failed(str(error), 409)

    def lease(self, request: Request) -> Answer:
        """Renew the lease."""
        seconds = float(request.json().get("seconds", 0))
        try:
            self._lease.renew(seconds)
        except ValueError as error:
            return failed(str(error), 400)
        return as_json({"seconds": seconds})

    @staticmethod
    def _wanted(asked: dict[str, Any]) -> Wanted:
        from .answers import Refused

        try:
            return read_wanted(asked)
        except (ValueError, TypeError) as error:
            raise Refused(failed(str(error), 400)) from None
