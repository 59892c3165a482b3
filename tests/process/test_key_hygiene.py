"""Is the server's key where it must be, and nowhere else? Real processes, before a server that quotes it whenever it can."""

from __future__ import annotations

import secrets
import socket
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from bad.policy_server import BadServer, silent
from whole_runs import PATIENCE_S, Cli, check_accounts, collect, inline_task, tasks_file, wait_for_status
from whole_services import serve, until

from legato_rl import ControlClient, ControlError
from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.request import Refusal
from legato_rl.fake.server import FakePolicyServer
from legato_rl.service import ServiceDir
from legato_rl.supervisord import KEY_VARIABLE

pytestmark = pytest.mark.process

PIECE = secrets.token_hex(4)
"""What is looked for: half a key is one too many. Another one in each run, for several may run at once."""
KEY = f"sk-{PIECE}{secrets.token_hex(4)}"
MODEL = ("--model", "m", "--version", "v1", "--retries", 5)


class EchoServer(FakePolicyServer):
    """The bundled server with a gateway before it that quotes the caller's key: in its list of models, and (from a rollout's
    second step on) in errors, in answers that cannot be used, and in good ones."""

    def __init__(self) -> None:
        super().__init__(FakePolicyConfig(api_key=KEY))
        self.quoted: Counter[int] = Counter()
        self.going = Event()
        """Not set: no rollout gets beyond its first step."""
        self.going.set()
        self._calls = count()

    def models(self) -> dict[str, Any]:
        """With the key in each entry."""
        listed = super().models()
        return {**listed, "caller": KEY, "data": [{**entry, "owned_by": f"owner of {KEY}"} for entry in listed["data"]]}

    def complete(self, body: Any, client: socket.socket) -> dict[str, Any]:
        """What the bundled server says, or something worse."""
        answer = {**super().complete(body, client), "caller": KEY, "headers": {"authorization": f"Bearer {KEY}"}}
        if len(body["messages"]) <= 2:
            return answer
        self.going.wait(PATIENCE_S)
        way = next(self._calls) % 6
        self.quoted[way] += 1
        match way:
            case 0:
                raise Refusal(500, f"no backend for {KEY}")
            case 1:
                raise Refusal(429, f"{KEY} calls too often")
            case 2 if self.quoted[2] % 3 == 0:
                raise Refusal(400, "x" * 290 + f"{KEY} may not send this")
            case 3 if self.quoted[3] % 3 == 0:
                answer["choices"][0]["message"]["content"] = f"I am {KEY}"
            case 4 if self.quoted[4] % 3 == 0:
                answer["usage"] = "x" * 95 + KEY
        return answer


def holders() -> dict[int, str]:
    """Every process of the machine that has the key in its arguments or its environment, and its command line."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line, environment = (proc / "cmdline").read_bytes(), (proc / "environ").read_bytes()
            assert PIECE.encode() not in line
            if PIECE.encode() in environment:
                found[int(proc.name)] = line.replace(b"\0", b" ").decode()
    return found


def check_processes(cli: Cli) -> None:
    """The typed command, its supervisord and the proxy have the key."""
    found = holders()
    assert found.pop(cli.process.pid, None) is not None
    assert len(found) == 2, found
    assert sum("legato_rl.run.supervise" in line for line in found.values()) == 1
    assert sum("legato-rl-proxy" in line for line in found.values()) == 1
    assert set(found) <= {process.pid for process in cli.below()}


def check_files(*folders: Path) -> None:
    """No file below a folder has it, nor has a file's name."""
    files = [path for folder in folders for path in folder.rglob("*")]
    assert len(files) > 10
    assert [path for path in files if PIECE in path.name or (path.is_file() and PIECE.encode() in path.read_bytes())] == []


def check_run(folder: Path, server: EchoServer) -> None:
    """Whoever reads the run later finds no key either, and the run is true. It did come by the server's quotes."""
    rows = check_accounts(folder)
    types = {row["error"]["type"] for row in rows if row["error"]}
    assert "key_quoted" in types
    assert min(server.quoted[way] for way in range(6)) >= 3
    for command in (("export", folder, "--out", folder / "train.jsonl"), ("profile", folder, "--json"), ("verify", folder)):
        with Cli(*command, **{KEY_VARIABLE: KEY}) as cli:
            assert cli.end() == ExitCode.DONE, cli.output
        assert PIECE not in cli.output
    check_files(folder)


def test_a_service_keeps_the_key_to_itself(tmp_path: Path) -> None:
    """Not in what trainers are told either, and not to a server that it may not call."""
    root, server = tmp_path / "d", EchoServer()
    with server as url, BadServer([silent]) as elsewhere:
        given = ("--desktops", 3, "--policy-url", url, *MODEL)
        with serve(root, *given, **{KEY_VARIABLE: KEY}) as cli:
            cli.wait_for("no run |")
            with ControlClient(root) as client:
                client.submit([inline_task(name) for name in "abc"], {"group": 3, "close": "all"}, "r")
                until(client, "r", lambda status: status.running > 0)
                check_processes(cli)
                until(client, "r", lambda status: status.state == "finished")
                told = [client.status("r"), client.events(run="r", limit=5000)]
                refuse_elsewhere(client, elsewhere)
                check_processes(cli)
                client.shutdown()
            assert cli.end() == ExitCode.DONE, cli.output
    assert PIECE not in repr(told) + cli.output
    check_files(root)
    check_run(ServiceDir(root).runs / "r", server)


def test_a_run_of_its_own_keeps_the_key_to_itself(tmp_path: Path) -> None:
    """The same without a service."""
    out, server = tmp_path / "run", EchoServer()
    tasks = tasks_file(tmp_path, "a", "b", "c")
    server.going.clear()
    with server as url:
        given = ("--desktops", 3, "--group", 3, "--close", "all", "--policy-url", url, *MODEL)
        with collect(out, tasks, *given, **{KEY_VARIABLE: KEY}) as cli:
            wait_for_status(cli, out, lambda status: status.running > 0)
            check_processes(cli)
            server.going.set()
            assert cli.end() in (ExitCode.DONE, ExitCode.SHORT), cli.output
    assert PIECE not in cli.output
    check_run(out, server)


def refuse_elsewhere(client: ControlClient, elsewhere: BadServer) -> None:
    """A trainer names a server of an origin that the service does not allow: refused, paused or not, and nobody calls it."""
    client.pause("abort")
    for url in (elsewhere.url, elsewhere.url.replace("127.0.0.1", "localhost"), f"http://user:{PIECE}@127.0.0.1:1/v1"):
        with pytest.raises(ControlError):
            client.set_policy(url=url)
    client.resume()
    client.submit([inline_task("z")], {"group": 1, "max_steps": 1}, "z")
    until(client, "z", lambda status: status.state == "finished")
    assert elsewhere.connections == 0
