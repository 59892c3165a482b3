"""What does the command line say to wrong input? Exit code 2, one sentence, and nothing started or left."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from whole_runs import inline_task

from legato_rl.cli.main import COMMANDS, legato, legato_rl


def invoke(*args: object) -> Result:
    """`legato-rl` in this process."""
    return CliRunner().invoke(legato_rl, [str(arg) for arg in args])


def collect(folder: Path, **options: Any) -> Result:
    """`legato-rl collect` of one good task on a fake desktop, but for `options` (None: left out)."""
    tasks = folder / "good.json"
    tasks.write_text(json.dumps([inline_task("a")]))
    given = {
        "tasks": tasks,
        "out": folder / "out",
        "policy_url": "fake",
        "model": "m",
        "version": "v",
        "backend": "fake",
        "screen": "320x240",
        **options,
    }
    words = [word for name, value in given.items() if value is not None for word in (f"--{name.replace('_', '-')}", value)]
    return invoke("collect", *words)


def refusal(folder: Path, **options: Any) -> str:
    """The one line that refuses these options; nothing else was said, and nothing made."""
    result = collect(folder, **options)
    assert result.exit_code == 2, result.output
    assert re.fullmatch(r"error: [^\n]+\n", result.output), result.output
    assert not (folder / "out").exists()
    return result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy_url": "http://127.0.0.1:8000"}, "policy-url is 'http://127.0.0.1:8000': it must end in /v1"),
        ({"policy_url": "127.0.0.1:8000/v1"}, "policy-url is '127.0.0.1:8000/v1': it must start with http://"),
        ({"policy_url": "http://127.0.0.1:9/v1"}, "policy-url is 'http://127.0.0.1:9/v1': "),
        ({"desktops": -1}, "desktops is -1: it must be at least 1"),
        ({"group": 0}, "group is 0: "),
        ({"oversample": -0.5}, "oversample is -0.5: "),
        ({"max_steps": 0}, "max-steps is 0: "),
        ({"max_inflight": -3}, "max-inflight is -3: "),
        ({"step_timeout": -1}, "step-timeout is -1.0: "),
        ({"retries": -1}, "retries is -1: "),
        ({"rollout_timeout": 0}, "rollout-timeout is 0.0: "),
        ({"env_retries": -1}, "env-retries is -1: "),
        ({"server_wait": -1}, "server-wait is -1.0: "),
        ({"image_max": 0}, "image-max is 0: "),
        ({"temperature": -1}, "temperature is -1.0: "),
        ({"temperature": "nan"}, "temperature is nan: "),
        ({"top_p": 2}, "top-p is 2.0: "),
        ({"max_tokens": 0}, "max-tokens is 0: "),
        ({"screen": "320"}, "screen is '320': it must be WIDTHxHEIGHT in pixels, as in 1920x1080"),
        ({"screen": "-1x5"}, "screen is '-1x5': "),
        ({"screen": "9x9"}, "screen is '9x9': each side must be 64 to 8192 pixels"),
        ({"screen": "319x240"}, "screen is '319x240': the fake desktop's window needs at least 320x240"),
        ({"fake": "fail_reset"}, "fake is 'fail_reset': it must be key=value"),
        ({"fake": "fail_reset=2"}, "fake.fail_reset is '2': "),
        ({"fake": "reset=2"}, "fake.reset is unknown here"),
        ({"deadline": "act"}, "deadline is 'act': it must be key=value, with a key such as reset, act, evaluate"),
        ({"deadline": "act=soon"}, "deadline.act is 'soon': it must be a number"),
        ({"fixed_wait": 2}, "fixed-wait is 2.0: it has no effect with the ready signal on"),
        ({"extra_body": "{"}, "extra-body is '{': it is no JSON"),
        ({"extra_body": "[1]"}, "extra-body is '[1]': it must be a JSON object"),
        ({"extra_body": '{"seed": 1}'}, 'extra-body is {"seed": 1}: it may not hold seed, which'),
        ({"backend": "osworld"}, "osworld is missing: name an OSWorld checkout"),
        ({"backend": "osworld", "osworld": "/missing"}, "osworld is '/missing': there is no such folder"),
        ({"backend": "nonsense"}, "backend is 'nonsense': it must be osworld, container, fake or package.module:Class"),
        ({"tasks": "/missing.json"}, "tasks is '/missing.json': No such file or directory"),
        ({"out": "/proc/out"}, "out is '/proc/out': "),
    ],
)
def test_an_option_that_is_wrong(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    """Named with its value."""
    assert said in refusal(tmp_path, **options)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("{", "it is no JSON"),
        ("{}", "tasks holds an object: it must hold a list of tasks"),
        ("[]", "tasks is an empty list"),
        (json.dumps([inline_task("a"), inline_task("a")]), "tasks[1]: the group_id 'a' is that of tasks[0] too"),
        (json.dumps([inline_task("../../x")]), "tasks[0].task_id is '../../x'"),
        (json.dumps([{"task_id": "a", "domain": "chrome"}]), "say with osworld where OSWorld's tasks are"),
    ],
)
def test_a_tasks_file_that_is_wrong(tmp_path: Path, tasks: str, said: str) -> None:
    """The entry, the field and the value."""
    path = tmp_path / "tasks.json"
    path.write_text(tasks)
    assert said in refusal(tmp_path, tasks=path)


def test_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    """Refused, and left as it was."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    assert "it holds a run, and a run is never overwritten" in refusal(tmp_path, out=run)
    assert [(path.name, path.read_text()) for path in run.iterdir()] == [("run.json", "{}")]


@pytest.mark.parametrize("missing", ["tasks", "out", "policy_url", "model", "version"])
def test_a_required_option_that_is_missing(tmp_path: Path, missing: str) -> None:
    """Exit code 2, and its name."""
    result = collect(tmp_path, **{missing: None})
    assert result.exit_code == 2
    assert f"error: missing option '--{missing.replace('_', '-')}'" in result.output


def test_a_number_that_is_none(tmp_path: Path) -> None:
    """Also of the wrong type."""
    result = collect(tmp_path, desktops="many")
    assert result.exit_code == 2
    assert "invalid value for '--desktops': 'many' is not a valid integer" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_tells_its_options(name: str) -> None:
    """With their defaults and meaning; the list of commands has a line for each, and both names have the same."""
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.output
    for listing in (invoke("--help"), CliRunner().invoke(legato, ["rl", "--help"])):
        assert re.search(rf"^ +{name} +\S", listing.output, re.MULTILINE)


def test_the_help_names_every_option_of_the_issue() -> None:
    """As documented, with defaults."""
    text = invoke("collect", "--help").output
    for option in (
        *("--tasks", "--policy-url", "--model", "--version", "--out", "--backend", "--osworld", "--desktops", "--group"),
        *("--oversample", "--max-steps", "--max-inflight", "--step-timeout", "--retries", "--rollout-timeout"),
        *("--env-retries", "--close", "--server-wait", "--no-ready-signal", "--fixed-wait", "--no-fast-reset"),
        *("--image-max", "--temperature", "--top-p", "--max-tokens", "--thinking", "--extra-body", "--seed", "--fake"),
    ):
        assert re.search(rf"{option}\b", text), option
