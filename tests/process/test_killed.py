"""What becomes of a run whose processes are killed in its middle? Whole runs, real processes, SIGKILL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_server import serving
from whole_runs import Cli, check_accounts, collect, naming, tasks_file, wait_for_status

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.errors import ExitCode
from legato_rl.export.instants import instant
from legato_rl.fake.chat import Chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.rundir import RunDir
from legato_rl.verify import examine, verify

pytestmark = pytest.mark.process

DESKTOPS = 2
SLOW = ("--desktops", DESKTOPS, "--group", 2, "--max-steps", 4, "--seed", 3, "--fake", "act_s=1")
"""Rollouts of seconds, most of them spent in an action."""
END_S = 180.0
"""Seconds that a run may take to its end; it takes ten on a machine that is free."""
GONE_S = 30.0
"""Seconds in which everything below a killed command must have ended; it takes two on a machine that is free."""
ROLES = ("sink", "proxy", "broker", "worker")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder for the run alone, so that nothing of it is overlooked; of a short name, for sockets."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder:
        yield Path(folder)


def start(out: Path, tasks: Path, temporary: Path) -> Cli:
    """A run whose tries take seconds."""
    return collect(out, tasks, *SLOW, TMPDIR=str(temporary), XDG_RUNTIME_DIR=str(temporary))


def resumed(out: Path, temporary: Path) -> Cli:
    """The same run again."""
    return Cli("collect", "--resume", "--out", out, TMPDIR=str(temporary), XDG_RUNTIME_DIR=str(temporary))


def kill(cli: Cli, *roles: str) -> float:
    """SIGKILL for one process of each role, all found before the first is hit; the moment, in seconds of the epoch."""
    marks = {**{role: f"legato-rl-{role}" for role in ROLES}, "supervisord": "legato_rl.run.supervise"}
    victims = []
    for role in roles:
        own = [psutil.Process(cli.process.pid)] if role == "collect" else cli.below()
        mark = marks.get(role, "legato-rl")
        victims.append(next(process for process in own if any(mark in word for word in process.cmdline())))
    for victim in victims:
        victim.kill()
    return SYSTEM_CLOCK.wall()


def check_is_true(out: Path, temporary: Path) -> list[dict[str, Any]]:
    """Every attempt has its one final row, the folder is true, no process and no socket is left; the rows."""
    assert naming(str(out)) == []
    assert [path.name for path in temporary.iterdir()] == []
    assert [str(fault) for fault in verify(out)] == []
    return check_accounts(out)


@pytest.mark.parametrize("roles", [("broker",), ("proxy", "sink"), ("broker", "sink")], ids=lambda roles: "+".join(roles))
def test_rollouts_in_progress_go_on_mid_episode(tmp_path: Path, temporary: Path, roles: tuple[str, ...]) -> None:
    """The run ends by itself; tries that were in the middle of an episode are graded, and none of them is tried again."""
    out = tmp_path / "run"
    with start(out, tasks_file(tmp_path, "a", "b"), temporary) as cli:
        wait_for_status(cli, out, lambda status: status.desktops.get("act", 0) == DESKTOPS)
        at = kill(cli, *roles)
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    rows = check_is_true(out, temporary)
    assert {(row["outcome"], row["try"]) for row in rows} == {("graded", 0)}
    assert len([row for row in rows if instant(row["started_at"]) < at < instant(row["ended_at"])]) == DESKTOPS
    for role in roles:
        assert starts(out, role) == 2


def starts(out: Path, role: str) -> int:
    """How often supervisord started a role."""
    return (out / "logs" / "supervisord.log").read_text().count(f"spawned: '{role}'")


@pytest.mark.parametrize("roles", [("worker",), ("worker", "broker")], ids=lambda roles: "+".join(roles))
def test_a_lost_worker_costs_its_try_alone(tmp_path: Path, temporary: Path, roles: tuple[str, ...]) -> None:
    """Its try has a bare row and its attempt another try; where the broker went with it, nobody knows of the try, and it is
    run anew. The other desktop's try goes on."""
    out = tmp_path / "run"
    with start(out, tasks_file(tmp_path, "a", "b"), temporary) as cli:
        wait_for_status(cli, out, lambda status: status.desktops.get("act", 0) == DESKTOPS)
        at = kill(cli, *roles)
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    rows = check_is_true(out, temporary)
    lost = [(row["outcome"], row["status"], row["try"], row["steps"]) for row in rows if row["outcome"] != "graded"]
    assert lost == ([("worker_lost", "retried", 0, [])] if roles == ("worker",) else [])
    graded = [row for row in rows if row["outcome"] == "graded"]
    assert len(graded) == 4
    assert len([row for row in graded if instant(row["started_at"]) < at < instant(row["ended_at"])]) == DESKTOPS - 1


def test_what_a_try_left_that_nobody_knows_of_is_no_fault(tmp_path: Path, temporary: Path) -> None:
    """The next go of it gets other answers, as it does without a seed, so no row names those of the one that was lost."""
    out = tmp_path / "run"
    shape = ("--desktops", 1, "--group", 1, "--max-steps", 3, "--fake", "act_s=0.5")
    environment = {"TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(temporary)}
    with serving(skill=1.0, malformed=0.0) as (server, url):
        policy = ("--policy-url", url, "--model", "fake", "--version", "v1")
        with collect(out, tasks_file(tmp_path, "a"), *policy, *shape, **environment) as cli:
            # Those of the first prompt, its answer and the next screen.
            wait_for_status(cli, out, lambda _: len(list(RunDir(out).messages.glob("*.json"))) >= 4)
            server.chat = Chat(FakePolicyConfig(malformed=1.0))
            kill(cli, "worker", "broker")
            assert cli.end(END_S) == ExitCode.DONE, cli.output
    rows = check_is_true(out, temporary)
    assert [(row["outcome"], row["try"]) for row in rows] == [("graded", 0)]
    assert [note for note in examine(out).notes if note.endswith(" that no row names: tries that were cut leave such")]


@pytest.mark.parametrize(
    "roles",
    [("supervisord",), ("collect",), ("collect", "supervisord")],
    ids=lambda roles: "+".join(roles),
)
def test_what_cannot_go_on_ends_and_is_resumed(tmp_path: Path, temporary: Path, roles: tuple[str, ...]) -> None:
    """Everything below ends by itself; a resume finishes the run, and the next one changes nothing."""
    out = tmp_path / "run"
    with start(out, tasks_file(tmp_path, "a", "b"), temporary) as cli:
        wait_for_status(cli, out, lambda status: status.desktops.get("act", 0) == DESKTOPS)
        below = cli.below()
        kill(cli, *roles)
        code = cli.end(END_S)
        assert code == (-9 if "collect" in roles else ExitCode.STOPPED), cli.output
        assert psutil.wait_procs(below, timeout=GONE_S)[1] == []
    assert naming(str(out)) == []
    stored = check_accounts(out, finished=False)
    with resumed(out, temporary) as cli:
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    rows = check_is_true(out, temporary)
    assert rows[: len(stored)] == stored
    assert {row["outcome"] for row in rows} == {"graded"}, "what was cut left no row"
    before = (out / "rollouts.jsonl").read_bytes(), (out / "summary.json").read_bytes(), sorted(os.listdir(out / "images"))
    with resumed(out, temporary) as cli:
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    assert before == (
        (out / "rollouts.jsonl").read_bytes(),
        (out / "summary.json").read_bytes(),
        sorted(os.listdir(out / "images")),
    )
    assert check_is_true(out, temporary) == rows


def test_a_command_that_was_killed_at_its_very_end_leaves_no_socket(tmp_path: Path, temporary: Path) -> None:
    """All rows are stored, and it had only its sockets left to remove: a resume, which has nothing to run, removes them."""
    out = tmp_path / "run"
    with collect(out, tasks_file(tmp_path, "a"), "--group", 1, "--max-steps", 1, TMPDIR=str(temporary)) as cli:
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    run, left = RunDir(out), temporary / "legato-12345678"
    left.mkdir()
    run.write_run(run.load_run().model_copy(update={"sockets": left}))
    run.end.unlink()
    with resumed(out, temporary) as cli:
        assert cli.end(END_S) == ExitCode.DONE, cli.output
    check_is_true(out, temporary)
