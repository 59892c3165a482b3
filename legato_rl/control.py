"""How does a trainer or the command line ask the broker? One request, asked again until answered, by its id."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.endpoints import address
from legato_rl.sockets import Context, wait
from legato_rl.wire import DesktopOut, Refused, RunStatus, StatusAsk, StopAsk

log = logging.getLogger("legato_rl")

ASK_AGAIN_S = 1.0


class ControlClient:
    """A connection to the broker of the run whose socket folder is `sockets`. Use it as a context manager, in one thread."""

    def __init__(self, sockets: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._context = Context()
        self._socket = self._context.client("control", address(sockets, "control"))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        self._context.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self, wait_s: float = 5.0) -> RunStatus | None:
        """Where the run stands; None where the broker did not answer within `wait_s` seconds."""
        return self._ask(StatusAsk(id=secrets.token_hex(8)), wait_s)

    def stop(self, reason: str, wait_s: float = 5.0) -> RunStatus | None:
        """Stop the run, resumable; where it stands, None without an answer."""
        return self._ask(StopAsk(id=secrets.token_hex(8), reason=reason), wait_s)

    def desktop_out(self, desktop: str, reason: str, wait_s: float = 5.0) -> RunStatus | None:
        """Tell the broker that a worker's process does not stay up."""
        return self._ask(DesktopOut(id=secrets.token_hex(8), desktop=desktop, reason=reason), wait_s)

    def _ask(self, ask: StatusAsk | StopAsk | DesktopOut, wait_s: float) -> RunStatus | None:
        give_up = self._clock.monotonic() + wait_s
        while (left := give_up - self._clock.monotonic()) > 0:
            self._socket.send(ask)
            wait([self._socket], min(left, ASK_AGAIN_S))
            for received in self._socket.receive():
                match received.message:
                    case RunStatus() as status if status.id == ask.id:
                        return status
                    case Refused(reason=reason):
                        log.error("the broker refused a %s: %s", type(ask).__name__, reason)
        return None
