"""What becomes of a rollout whose proxy is killed? A real worker and real proxies; broker, sink and server are the test's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition

import pytest
from model_server import WAIT_S, Body, ModelServer, completion
from proxy_scene import run_policy, service_file
from scripted_desktop import SIZE
from worker_scene import CLICK, DONE, KEY, Stage

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig, PolicyConfig
from legato_rl.endpoints import address
from legato_rl.role import Quit
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context, Received
from legato_rl.wire import ProxyBeat, ProxyOrder
from legato_rl.workers.link import Link

pytestmark = pytest.mark.process


@dataclass
class Scene(Stage):
    """As Stage, but with a real proxy; `running` is what that last told to be at the server, None before it told any."""

    root: Path = Path()
    running: int | None = None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def _take(self, received: Received) -> None:
        if isinstance(received.message, ProxyBeat):
            beat = received.message
            self.running = beat.running
            order = ProxyOrder(boot=beat.boot, number=1, policies=[run_policy(KEY.run, step_timeout=60.0)])
            self.orders.send(received.peer, order)
        else:
            super()._take(received)

    def begin(self, role: str, module: str) -> None:
        """Start a process."""
        self.processes[role] = subprocess.Popen([sys.executable, "-m", module, str(self.root)])

    def kill_proxy(self) -> None:
        """SIGKILL, and a new one in its place."""
        self.processes["proxy"].kill()
        self.processes["proxy"].wait()
        self.running = None
        self.begin("proxy", "legato_rl.broker.proxy.main")


@contextmanager
def rollout_before(root: Path, server: ModelServer) -> Iterator[Scene]:
    """A worker and a proxy at work; they are killed after the block."""
    desktop = DesktopConfig(backend="fake", screen_size=SIZE)
    service = service_file(PolicyConfig(server.url, "m"), root, desktop=desktop, desktops=1)
    ServiceDir(root).write(service)
    unused = root / "unused"
    unused.mkdir()
    with ExitStack() as stack:
        context = stack.enter_context(Context())
        orders, rows = (context.server(name, address(root, name)) for name in ("orders", "rows"))
        link = Link("none", "none", desktop, SYSTEM_CLOCK, Quit())
        policy = context.server("policy", address(unused, "policy"))
        scene = Scene(orders, policy, rows, link, settings=service.settings, root=root)
        for stop in (server.stop, server.let_go):
            stack.callback(stop)
        try:
            scene.begin("proxy", "legato_rl.broker.proxy.main")
            scene.begin("worker", "legato_rl.workers.main")
            yield scene
        finally:
            for process in scene.processes.values():
                process.kill()
                process.wait()


class Held(ModelServer):
    """Answers one click, then the end; a call is let go once its step was asked `asks` times."""

    def __init__(self, asks: tuple[int, int]) -> None:
        self.asks = asks
        self.asked = [0, 0]
        self.changed = Condition()
        super().__init__(self.play)

    def play(self, body: Body) -> tuple[int, Body]:
        step = int(len(body["messages"]) > 3)
        with self.changed:
            self.asked[step] += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.asked[step] >= self.asks[step], WAIT_S)
        return 200, completion(text=(CLICK, DONE)[step])


def test_a_call_that_died_with_its_proxy_is_sampled_again_and_counted(tmp_path: Path) -> None:
    """Killed twice in one call: the same prompt is asked a third time, one answer is used, and the row says so."""
    server = Held((3, 1))
    with rollout_before(tmp_path, server) as scene:
        scene.give()
        for asked in (1, 2):
            scene.until(lambda asked=asked: server.asked[0] == asked and scene.running == 1, "the call")
            scene.kill_proxy()
        row = scene.store()
    assert (row["outcome"], row["n_steps"]) == ("graded", 2)
    assert [(step["model"]["resampled"], step["model"]["attempts"]) for step in row["steps"]] == [(2, 1), (0, 1)]
    assert server.bodies[0] == server.bodies[1] == server.bodies[2]
    assert len(server.bodies) == 4


def test_a_new_proxy_gets_the_whole_prompt_and_tells_its_ids_from_the_start(tmp_path: Path) -> None:
    """The one that knew the steps before is gone: the worker sends all of their messages and images again."""
    server = Held((1, 2))
    with rollout_before(tmp_path, server) as scene:
        scene.give()
        scene.until(lambda: server.asked[1] == 1 and scene.running == 1, "the second step's call")
        scene.kill_proxy()
        row = scene.store()
    assert [step["model"]["resampled"] for step in row["steps"]] == [0, 1]
    assert row["steps"][1]["request"]["prompt"]["keep"] == 0
    assert server.bodies[1] == server.bodies[2]
    assert row["outcome"] == "graded"
