"""Does a call outlive the network between the proxy and its server? A cable that is cut, or swallows every byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest
from model_server import ModelServer
from proxy_scene import Scene, proxy_before

from legato_rl.broker.proxy import pool
from legato_rl.broker.proxy.outage import LONGEST_PAUSE_S, LOOK_S
from legato_rl.wire import CallFailed, CallPending, CallReply


class Cable:
    """A relay to a local port. `cut` ends its connections and takes no more; `swallow` keeps them, and drops every byte."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ends: list[socket.socket] = []
        self._whole = Event()
        self.port = 0
        self.join()
        self.port = self._listener.getsockname()[1]
        self.mend()

    def cut(self) -> None:
        """As when a switch ends and its neighbours notice."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):  # closed already
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def join(self) -> None:
        """Take connections, again after `cut`."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def swallow(self) -> None:
        """As when a cable is pulled: nobody notices."""
        self._whole.clear()

    def mend(self) -> None:
        """Carry bytes; what was swallowed stays lost."""
        self._whole.set()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # cut
            while True:
                near = listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # cut
            while data := source.recv(65536):
                if self._whole.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def behind_a_cable() -> Iterator[tuple[Scene, ModelServer, Cable]]:
    """A proxy that reaches its server by a cable, and no retry to spend."""
    server = ModelServer()
    port = int(server.url.split(":")[2].partition("/")[0])
    cable = Cable(port)
    try:
        with proxy_before(f"http://127.0.0.1:{cable.port}/v1", {"retries": 0}) as here:
            yield here, server, cable
    finally:
        cable.cut()
        server.let_go()
        server.stop()


def test_a_network_that_is_cut_costs_no_call() -> None:
    """One message tells it; when it is back the call is asked again, without a retry, and answered once."""
    with behind_a_cable() as (here, server, cable):
        worker = here.worker()
        server.hold()
        worker.ask()
        server.wait_request()
        cable.cut()
        beat = here.beat(lambda beat: beat.state == "down")
        assert "cut the connection" in beat.message
        heard = len(here.beats)
        here.beat(lambda beat: len(here.beats) > heard + 1)
        assert {beat.message for beat in here.beats[heard:]} == {beat.message}
        worker.ask()
        server.let_go()
        cable.join()
        here.beat(lambda beat: beat.state == "up")
        reply = worker.hear(CallReply)
        assert (reply.model.attempts, len(server.bodies)) == (2, 2)
        worker.ask()
        assert worker.hear(CallReply) == reply


def test_a_network_that_swallows_everything_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection breaks: the health probe gets no answer, twice, and what is in the air is taken back."""
    monkeypatch.setattr(pool, "PROBE_S", 0.3)
    with behind_a_cable() as (here, server, cable):
        worker = here.worker()
        server.hold()
        worker.ask()
        server.wait_request()
        cable.swallow()
        here.clock.ahead += LOOK_S
        worker.ask()
        here.beat(lambda beat: beat.state == "down" and beat.running == 1)
        here.clock.ahead += LONGEST_PAUSE_S
        worker.ask()
        beat = here.beat(lambda beat: beat.running == 0)
        assert (beat.state, beat.queued) == ("down", 1)
        assert "health check" in beat.message
        worker.ask()
        worker.hear(CallPending, lambda pending: pending.state == "down")
        server.let_go()
        cable.mend()
        here.clock.ahead += LONGEST_PAUSE_S
        worker.ask()
        worker.hear(CallReply)
        assert not any(isinstance(message, CallFailed) for message in worker.seen)
