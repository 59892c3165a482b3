"""Does the main job do what a trainer's script, or the command line, asks? Whole runs."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from whole_runs import FAKE, Cli, check_accounts, collect, inline_task, naming, tasks_file

from legato_rl.errors import ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer
from legato_rl.run.processes import scripts_folder
from legato_rl.rundir import RunDir

pytestmark = pytest.mark.process

KEY_HOLDERS = {"supervisord", "legato-rl-proxy"}
"""Programs below a collect whose environment may hold the key."""


class WatchedServer(FakePolicyServer):
    """Records what it answered, and looks once at the processes of the run while a desktop waits for it."""

    def __init__(self, key: str) -> None:
        super().__init__(FakePolicyConfig(api_key=key))
        self.answered: set[tuple[Any, ...]] = set()
        self.seen: list[tuple[str, bytes, bytes]] = []
        self._key = key.encode()
        self._lock = threading.Lock()

    def complete(self, body: Any, client: socket.socket) -> dict[str, Any]:
        """As the bundled server."""
        answer = super().complete(body, client)
        choice = answer["choices"][0]
        logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
        with self._lock:
            if len(body["messages"]) > 2 and not self.seen:
                self.seen = [look(process) for process in psutil.Process().children(recursive=True)]
            self.answered.add((tuple(answer["prompt_token_ids"] or ()), tuple(choice["token_ids"] or ()), logprobs))
        return answer


def look(process: psutil.Process) -> tuple[str, bytes, bytes]:
    """A process's name, command line and environment."""
    proc = Path("/proc") / str(process.pid)
    line = (proc / "cmdline").read_bytes()
    name = "supervisord" if b"legato_rl.run.supervise" in line else Path(os.fsdecode(line.split(b"\0")[-3])).name
    return name, line, (proc / "environ").read_bytes()


def osworld_copy(folder: Path) -> list[dict[str, Any]]:
    """Two task files laid out as OSWorld's, and the tasks that name them."""
    for name, domain in (("t-1", "chrome"), ("t-2", "os")):
        path = folder / "evaluation_examples" / "examples" / domain / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(inline_task(name)["config"]))
    return [{"task_id": "t-1", "domain": "chrome"}, {"task_id": "t-2", "domain": "os", "meta": {"k": 1}}]


def test_the_script_of_a_trainer(tmp_path: Path) -> None:
    """Off the main thread, without a fork; graded samples come out, true to the server, and the key is nowhere."""
    from legato.rl import DesktopConfig, PolicyConfig, collect, export_steps

    key = f"key-{secrets.token_hex(16)}"
    tasks, out = osworld_copy(tmp_path / "osworld"), tmp_path / "runs" / "step-41"
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(os.getpid()))
    server = WatchedServer(key)
    summaries: list[dict[str, Any]] = []

    def train() -> None:
        summary = collect(
            tasks,
            PolicyConfig(url, "Qwen/Qwen3.5-9B", version="step-41", api_key=key),
            out=out,
            desktops=16,
            group=8,
            oversample=0.25,
            max_inflight=32,
            desktop=DesktopConfig(backend="fake", screen_size=(320, 240), osworld_path=tmp_path / "osworld"),
        )
        summaries.append(summary)
        export_steps(out, out / "train.jsonl")

    with server as url:
        trainer = threading.Thread(target=train)
        trainer.start()
        trainer.join()
    assert len(summaries) == 1
    assert forks == []
    assert naming(str(out)) == []
    check_samples(out, summaries[0], server)
    check_key(key, out, server)


def check_samples(out: Path, summary: dict[str, Any], server: WatchedServer) -> None:
    """Two closed groups of 8; every line's ids and logprobs are one of the server's answers to that very prompt."""
    counts = Counter(row["status"] for row in check_accounts(out))
    assert counts["ok"] == 16
    assert sum(counts.values()) == 20
    assert (summary["groups"]["closed"], summary["rewards"]["usable"], summary["version"]) == (2, 16, "step-41")
    lines = [json.loads(line) for line in (out / "train.jsonl").read_bytes().splitlines()]
    assert len({line["rollout_id"] for line in lines}) == 16
    assert {line["policy_version"] for line in lines} == {"step-41"}
    for line in lines:
        answer = (line["prompt_token_ids"], line["response_token_ids"], line["response_logprobs"])
        assert tuple(map(tuple, answer)) in server.answered


def check_key(key: str, out: Path, server: WatchedServer) -> None:
    """The key is in the environment of supervisord and the proxy, and nowhere else."""
    assert len(server.seen) == 20, "supervisord, sink, proxy, broker and 16 workers"
    for name, line, environment in server.seen:
        assert key.encode() not in line
        assert (key.encode() in environment) == (name in KEY_HOLDERS), name
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 40
    assert [path for path in files if key.encode() in path.read_bytes()] == []


BACKEND = '''
import io

from PIL import Image

from legato_rl.desktop import ActResult, Ready

READY = Ready("ready", 0.0)


class Blank:
    """A screen that never changes."""

    def __init__(self, config, name):
        self.size = config.screen_size

    def reset(self, task):
        self.task = task["id"]

    def wait_after_reset(self):
        return READY

    def observe(self):
        file = io.BytesIO()
        Image.new("RGB", self.size, "navy").save(file, "PNG")
        return file.getvalue()

    def act(self, action):
        return ActResult(0, "", 0.0, READY)

    def wait_before_eval(self):
        return READY

    def evaluate(self):
        return {"fine": True, "odd": "1"}[self.task]

    def close(self):
        pass


class Rigid(Blank):
    act = None
'''


def test_a_backend_of_the_users_own(tmp_path: Path) -> None:
    """A class of the current folder, tasks on stdin; what it cannot grade makes a short group, and exit code 1."""
    (tmp_path / "mydesk.py").write_text(BACKEND)
    tasks = json.dumps([inline_task("fine"), inline_task("odd"), inline_task("fine", group_id="again", max_steps=1)])
    options = ("--backend", "mydesk:Blank", "--screen", "320x240", "--desktops", 2, "--group", 2)
    with collect(tmp_path / "run", "-", *options, cwd=tmp_path, stdin=tasks) as cli:
        assert cli.end() == ExitCode.SHORT, cli.output
        assert "2 of 3 groups closed, 4 usable rollouts" in cli.output
    rows = check_accounts(tmp_path / "run")
    assert {(row["group_id"], row["status"], row["reward"]) for row in rows} == {
        ("fine", "ok", 1.0),
        ("again", "ok", 1.0),
        ("odd", "error", None),
    }
    assert {row["n_steps"] for row in rows if row["group_id"] == "again"} == {1}
    assert {(r["error"]["kind"], r["error"]["type"]) for r in rows if r["error"]} == {("env", "bad_verdict")}
    summary = json.loads(RunDir(tmp_path / "run").summary.read_bytes())
    assert summary["evaluator_failures"] == {"odd": 2}


def test_a_backend_that_lacks_a_method(tmp_path: Path) -> None:
    """Exit code 2, one sentence, and nothing was made."""
    (tmp_path / "mydesk.py").write_text(BACKEND)
    with collect(tmp_path / "run", tasks_file(tmp_path, "a"), "--backend", "mydesk:Rigid", cwd=tmp_path) as cli:
        assert cli.end() == ExitCode.BAD_INPUT
        said = "backend is 'mydesk:Rigid': Rigid lacks the method act of the Desktop protocol; add it (docs/desktops.md)"
        assert cli.output == f"error: {said}\n"
    assert not (tmp_path / "run").exists()


def test_every_attempt_counts_under_close_all(tmp_path: Path) -> None:
    """Rollouts that use up --rollout-timeout are graded as truncated; none is surplus, cancelled or skipped."""
    out = tmp_path / "run"
    options = ("--close", "all", "--group", 2, "--oversample", 1, "--desktops", 4, "--rollout-timeout", 3)
    quiet = ("--quiet", "--json")
    with collect(out, tasks_file(tmp_path, "a"), *options, *quiet, "--fake", "act_s=1.3", "--seed", 1) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
        assert json.loads(cli.output) == json.loads(RunDir(out).summary.read_bytes()), "and nothing else is said"
    rows = check_accounts(out)
    counts = Counter(row["status"] for row in rows)
    assert counts["truncated"] >= 1
    assert counts["ok"] + counts["truncated"] == 4
    for row in rows:
        if row["status"] == "truncated":
            assert row["n_steps"] >= 1
            assert row["timing"]["total_s"] > 3


def test_a_wrong_key_is_told_before_anything_starts(tmp_path: Path) -> None:
    """One sentence that names the variable, exit code 2, and no folder."""
    with FakePolicyServer(FakePolicyConfig(api_key="right")) as url:
        options = ("--policy-url", url, *FAKE[2:])
        with collect(tmp_path / "run", tasks_file(tmp_path, "a"), *options, LEGATO_POLICY_KEY="wrong-key") as cli:
            assert cli.end() == ExitCode.BAD_INPUT
    assert len(cli.output.splitlines()) == 1
    assert cli.output.startswith("error: policy-url is ")
    assert "LEGATO_POLICY_KEY" in cli.output
    assert "wrong-key" not in cli.output
    assert not (tmp_path / "run").exists()


def test_the_same_commands_as_legato_rl() -> None:
    """`legato rl collect --help` is `legato-rl collect --help` under its other name."""
    helps = [
        subprocess.run([str(scripts_folder() / name), *more, "collect", "--help"], capture_output=True, text=True, check=True)
        for name, more in (("legato", ["rl"]), ("legato-rl", []))
    ]
    both = [help_.stdout.partition("\n")[2] for help_ in helps]
    assert both[0] == both[1]
    assert "--oversample" in both[0]


def test_an_unknown_command_is_refused() -> None:
    """Exit code 2, as for every wrong input."""
    with Cli("colect") as cli:
        assert cli.end() == ExitCode.BAD_INPUT
        assert cli.output.startswith("error: no such command 'colect'")
