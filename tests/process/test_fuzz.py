"""Does a service stand what anybody may send to its sockets? A real one, raw sockets, and over 100,000 hostile messages."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psutil
import pytest
import zmq
from hostile import PATHS, Frames, bombs, messages
from whole_runs import PATIENCE_S, Cli, check_accounts, inline_task
from whole_services import serving, until
from wire_examples import CALL

from legato_rl import ControlClient, ControlError
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.curve import guard_client, write_keys
from legato_rl.endpoints import address
from legato_rl.frames import Message, encode
from legato_rl.service import ServiceDir
from legato_rl.wire import CallCancel, CallGone, Feed, FeedAsk, Refused, RunStatus, StatusAsk

pytestmark = pytest.mark.process

SEED = int(os.environ.get("LEGATO_FUZZ_SEED", "1"))
"""Another one sends other messages; a failure comes again with its seed."""
DIFFERENT = 1500
"""Different messages for each socket; then they come again."""
EACH = 26_000
"""Messages to each of the four sockets."""
GROWTH = 24 * 2**20
"""Bytes by which a process may grow once it has seen each of the messages."""
LOG_GROWTH = 2**20
"""Bytes that all logs together may grow by; a traceback for each message would be a hundred times as much."""
RUN = "before"

ECHOES: dict[str, tuple[Message, type[Message]]] = {
    "control": (StatusAsk(id="echo"), RunStatus),
    "orders": (StatusAsk(id="echo"), Refused),
    "policy": (CallCancel(call=CALL), CallGone),
    "rows": (FeedAsk(run=RUN, after=0, limit=1), Feed),
}
"""What each socket is asked to find out that all before it was taken in, and what it answers."""


@contextmanager
def attackers(root: Path) -> Iterator[dict[str, zmq.Socket[bytes]]]:
    """A raw connection to each socket of a service; that to `control` has a key that is allowed."""
    service = ServiceDir(root).load()
    sockets: dict[str, zmq.Socket[bytes]] = {}
    with zmq.Context() as context:
        for name in ECHOES:
            sockets[name] = context.socket(zmq.DEALER)
            sockets[name].setsockopt(zmq.LINGER, 0)
            if name == "control" and service.keys is not None:
                guard_client(sockets[name], service.keys)
            sockets[name].connect(service.control if name == "control" else address(service.sockets, name))
        yield sockets
        context.destroy()


def flood(sockets: dict[str, zmq.Socket[bytes]], frames: dict[str, list[Frames]], each: int) -> Counter[str]:
    """Send `each` messages to each socket, `frames` over and over, as fast as they are taken; how many answers came."""
    poller, answers, left = zmq.Poller(), Counter[str](), dict.fromkeys(frames, each)
    for name in left:
        poller.register(sockets[name], zmq.POLLIN | zmq.POLLOUT)
    while left:
        assert poller.poll(PATIENCE_S * 1000), f"nothing is taken any more of the messages of seed {SEED}: {left}"
        for name in list(left):
            answers[name] += len(drain(sockets[name]))
            with suppress(zmq.Again):
                for _ in range(min(100, left[name])):
                    sockets[name].send_multipart(frames[name][left[name] % len(frames[name])], zmq.NOBLOCK)
                    left[name] -= 1
            if not left[name]:
                poller.unregister(sockets[name])
                del left[name]
    return answers


def drain(each: zmq.Socket[bytes]) -> list[list[bytes]]:
    """The answers that are here."""
    answers = []
    with suppress(zmq.Again):
        while True:
            answers.append(each.recv_multipart(zmq.NOBLOCK))
    return answers


def taken_in(sockets: dict[str, zmq.Socket[bytes]]) -> None:
    """Wait until each process has taken in all that was sent to it, and answers."""
    for name, (ask, answer) in ECHOES.items():
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while not any(frames[1] == answer.kind for frames in drain(sockets[name])):
            assert SYSTEM_CLOCK.monotonic() < deadline, f"{name} is silent after the messages of seed {SEED}"
            with suppress(zmq.Again):
                sockets[name].send_multipart(encode(ask), zmq.NOBLOCK)
            sockets[name].poll(500)


def processes(cli: Cli) -> dict[int, str]:
    """The service's processes by pid."""
    found = {}
    for process in cli.below():
        words = [word for word in process.cmdline() if "legato-rl-" in word]
        if words:
            found[process.pid] = Path(words[0]).name
    assert len(found) == 5
    return found


def sizes(pids: dict[int, str]) -> dict[int, int]:
    """Resident bytes by pid."""
    return {pid: psutil.Process(pid).memory_info().rss for pid in pids}


def bytes_of_logs(root: Path) -> int:
    """All logs together."""
    return sum(path.stat().st_size for path in ServiceDir(root).logs.iterdir())


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def knock(address_: str, keys: Path, rng: Random) -> None:
    """Come to a guarded `control` with another key, with none, and with no word of ZeroMQ's."""
    host, _, port = address_.removeprefix("tcp://").rpartition(":")
    with zmq.Context() as context:
        for folder in [keys, None] * 5:
            client = context.socket(zmq.DEALER)
            client.setsockopt(zmq.LINGER, 0)
            if folder is not None:
                guard_client(client, folder)
            client.connect(address_)
            for _ in range(20):
                client.send_multipart(encode(StatusAsk(id="unheard")), zmq.NOBLOCK)
            assert client.poll(20) == 0, "a stranger is answered"
        for size in [0, 1, 9, 10, 11, 64, 65, 1000, 100_000] * 10:
            with socket.create_connection((host, int(port))) as raw, suppress(OSError):
                raw.sendall(rng.choice([b"", b"\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE"]) + rng.randbytes(size))
        context.destroy()


def test_a_flood_takes_nothing_down(tmp_path: Path) -> None:
    """Each process is the one that it was, no larger, and does its work; no path was made outside, no log filled."""
    root, keys, strange = tmp_path / "d", tmp_path / "keys", tmp_path / "strange"
    write_keys(keys)
    write_keys(strange)
    (strange / "server.public").write_bytes((keys / "server.public").read_bytes())
    control = f"tcp://127.0.0.1:{free_port()}"
    with serving(root, "--desktops", 2, "--control", control, "--keys", keys) as (cli, client):
        run_a_batch(root, client, RUN)
        outside = {path for path in tmp_path.rglob("*") if root not in path.parents}
        before = processes(cli)
        submit_paths(client)
        frames = {name: messages(SEED + n, RUN, DIFFERENT) for n, name in enumerate(ECHOES)}
        with attackers(root) as sockets:
            for name in ECHOES:
                flood(sockets, {name: [*bombs(2), *frames[name]]}, DIFFERENT + 8)
            knock(control, strange, Random(SEED))
            taken_in(sockets)
            grown, logged = sizes(before), bytes_of_logs(root)
            answers = flood(sockets, frames, EACH)
            assert min(answers[name] for name in ECHOES) > EACH / 2, answers
            knock(control, strange, Random(SEED))
            taken_in(sockets)
        assert processes(cli) == before
        more = {before[pid]: size - grown[pid] for pid, size in sizes(before).items() if size - grown[pid] > GROWTH}
        assert more == {}, f"seed {SEED}"
        assert bytes_of_logs(root) - logged < LOG_GROWTH
        run_a_batch(root, client, "after")
        assert {path for path in tmp_path.rglob("*") if root not in path.parents} == outside
        assert {path.name for path in ServiceDir(root).runs.iterdir()} == {RUN, "after"}


def submit_paths(client: ControlClient) -> None:
    """Paths in the place of names, by a trainer that is let in: each is refused."""
    for path in PATHS:
        with pytest.raises(ControlError):
            client.submit([inline_task("a")], {}, path)
        with pytest.raises(ControlError):
            client.resume_run(path)
        with pytest.raises(ControlError):
            client.submit([inline_task("a", group_id=path)], {}, "paths")
        with pytest.raises(ControlError):
            client.submit([{"task_id": path, "domain": path}], {}, "paths")
        with pytest.raises(ControlError):
            client.submit([inline_task("a")], {"desktop": {"osworld_path": path}}, "paths")


def run_a_batch(root: Path, client: ControlClient, name: str) -> None:
    """Submit a run, and see it finish."""
    client.submit([inline_task("a")], {"group": 2, "max_steps": 2}, name)
    until(client, name, lambda status: status.state == "finished")
    check_accounts(ServiceDir(root).runs / name)
