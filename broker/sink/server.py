"""Who is answered what by the sink? SHELL: the ROUTER `rows`; each message goes to the run that it names.

A disk that is full or read-only, or a folder that is locked, is answered with `Refused` and said once in the log, and the
sink stays up: the sender comes again. So it does whatever a message holds; only a failed fsync ends it.
"""

from __future__ import annotations

import logging

from legato_rl.errors import SinkError, WireError
from legato_rl.faults import Faults
from legato_rl.frames import MOST_IDENT
from legato_rl.role import Quit
from legato_rl.sockets import Received, Server, wait
from legato_rl.wire import CloseRun, FeedAsk, Leave, Message, PutBlobs, PutDesktopEvent, PutRow, Refused, RunClosed

from .runs import NotNow, Runs

REASON_LIMIT = 500
"""Characters of a refusal, which may quote a value of any length."""

log = logging.getLogger(__name__)


class Sink:
    """Answers messages by what is on the disk of its runs."""

    def __init__(self, runs: Runs, server: Server) -> None:
        self.runs = runs
        self._server = server
        self.faults = Faults()
        self.left = False
        """Whether the service has ended, and this process is to."""

    def handle(self, received: Received) -> None:
        """Answer one message. SinkError where an fsync failed."""
        message = received.message
        if isinstance(message, Leave) and self.runs.idle:
            log.info("told to leave: %s", message.reason)
            self.left = True
            return
        try:
            answer = self._answer(received)
        except WireError as error:
            self._server.bad += 1
            answer = self._refused(message, str(error), again=False)
        except NotNow as error:
            answer = self._refused(message, str(error), again=True)
        except SinkError:
            raise
        except Exception as error:
            # What json or pydantic raise of a value that nobody thought of must not end the one writer of all runs.
            name = type(message).__name__
            if count := self.faults.note(f"{name}: {type(error).__name__}"):
                log.exception("could not take in a %s (the %d. time)", name, count)
            answer = self._refused(message, f"it cannot be stored: {type(error).__name__}: {error}", again=False)
        self._server.send(received.peer, answer)

    def _refused(self, message: Message, reason: str, *, again: bool) -> Refused:
        of = message.ident()[:MOST_IDENT]
        return Refused(about=message.kind.decode(), of=of, reason=reason[:REASON_LIMIT], again=again)

    def _answer(self, received: Received) -> Message:
        message = received.message
        if isinstance(message, CloseRun):
            self.runs.close_run(message.run)
            return RunClosed(run=message.run)
        if not isinstance(message, PutBlobs | PutRow | PutDesktopEvent | FeedAsk):
            raise WireError(f"the kind {message.kind.decode()} is not for a sink: see docs/protocol.md")
        run = self.runs.get(message.row.get("run_id") if isinstance(message, PutRow) else message.run)
        try:
            answer, told = run.answer(message, received.blobs, received.peer)
        except OSError as error:
            raise NotNow(run.failed(error)) from error
        if told is not None:
            for peer in run.followers:
                self._server.send(peer, told)
        return answer


def serve(sink: Sink, server: Server, quit_: Quit) -> None:
    """Answer until asked to quit, or told to leave. What was not answered by then comes again, to the next sink."""
    while not (quit_.asked or sink.left):
        wait([server, quit_.bell], 1.0)
        sink.runs.close_quiet()
        for received in server.receive():
            sink.handle(received)
            if quit_.asked or sink.left:
                return
