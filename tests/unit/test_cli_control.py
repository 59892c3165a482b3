"""What does `legato-rl control` say to wrong input? One sentence and exit code 2, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from legato_rl.cli.control import control
from legato_rl.cli.main import legato_rl


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["status", "/none"], "where is '/none': it holds no service and no run; "),
        (["status", "tcp://x"], "control is 'tcp://x': it must be tcp://HOST:PORT"),
        (["pause", "tcp://127.0.0.1:5"], "keys is missing: "),
        (["pause", "/none", "--mode", "x"], "invalid value for '--mode': "),
        (["cancel", "/none"], "run, group and task are all missing: name what to cancel"),
        (
            ["cancel", "/none", "--run", "r", "--attempt", "0"],
            "group is missing: an attempt is one of a group, so name that too",
        ),
        (["set-max-inflight", "/none", "x"], "max-inflight is 'x': it must be a whole number of at least 1, or none"),
        (["set-max-inflight", "/none", "-1"], "no such option"),
        (["add-desktops", "/none", "0"], "invalid value for 'N': 0 is not in the range x>=1"),
        (["stop", "/none"], "missing argument 'RUN'"),
    ],
)
def test_wrong_input(words: list[str], sentence: str) -> None:
    """It names what is wrong."""
    result = CliRunner().invoke(legato_rl, ["control", *words])
    assert result.exit_code == 2, result.output
    assert result.output.startswith(f"error: {sentence}")
    assert result.output.count("\n") == 1


def test_every_ask_of_a_trainer_is_a_command() -> None:
    """What ControlClient has, but for submitting (`collect --connect`), what only `serve` says, and the look of each."""
    from legato_rl.control import ControlClient

    asks = {name.replace("_", "-") for name, member in vars(ControlClient).items() if callable(member) and name[0] != "_"}
    assert asks - {"close", "submit", "desktop-out", "refuse-down"} == set(control.commands)


def test_a_folder_that_is_no_service(tmp_path: Path) -> None:
    """Every command says so."""
    more = {"stop": ["r"], "resume-run": ["r"], "cancel": ["--run", "r"], "set-max-inflight": ["1"]}
    more |= {"add-desktops": ["1"], "remove-desktops": ["1"], "set-policy": ["--version", "v"]}
    for name in control.commands:
        result = CliRunner().invoke(legato_rl, ["control", name, str(tmp_path), *more.get(name, [])])
        assert (result.exit_code, "it holds no service and no run" in result.output) == (2, True), name
