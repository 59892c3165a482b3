"""What is said of a command line that cannot be read? One sentence that names it, and where help is; exit code 2."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner, Result

from legato_rl.cli.main import legato, legato_rl

COLLECT = "; try legato-rl collect --help"


def invoke(words: str, command: click.Command = legato_rl, name: str = "legato-rl") -> Result:
    """The command with these words."""
    return CliRunner().invoke(command, words.split(), prog_name=name)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nonsense", r"no such command 'nonsense'; try legato-rl --help"),
        ("--nonsense", r"no such option:? '?--nonsense'?; try legato-rl --help"),
        ("collect --deskops 2", r"no such option:? '?--deskops'? \(did you mean .*--desktops.*\?\)" + COLLECT),
        ("collect --desktops many", r"invalid value for '--desktops': 'many' is not a valid integer" + COLLECT),
        ("collect --close never", r"invalid value for '--close': 'never' is not one of 'first', 'all'" + COLLECT),
        ("collect --tasks", r"option '--tasks' requires an argument" + COLLECT),
        ("collect", r"missing option '--tasks'" + COLLECT),
        ("export", r"missing argument 'RUN_DIR'; try legato-rl export --help"),
        ("export a", r"missing option '--out'; try legato-rl export --help"),
        ("desktop nonsense", r"no such command 'nonsense'; try legato-rl desktop --help"),
        (
            "desktop build --size huge",
            r"invalid value for '--size': 'huge' is not one of .*; try legato-rl desktop build --help",
        ),
    ],
)
def test_one_sentence(words: str, sentence: str) -> None:
    """Whatever it is, on one line of stderr."""
    result = invoke(words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(f"error: {sentence}\n", result.stderr), result.stderr


@pytest.mark.parametrize(("words", "path"), [("nonsense", "legato"), ("rl nonsense", "legato rl")])
def test_under_the_products_name(words: str, path: str) -> None:
    """The same."""
    result = invoke(words, legato, "legato")
    assert (result.exit_code, result.stderr) == (2, f"error: no such command 'nonsense'; try {path} --help\n")


@pytest.mark.parametrize("words", ["", "desktop"])
def test_no_command_is_answered_with_help(words: str) -> None:
    """It is no mistake of a word."""
    assert invoke(words).output.startswith("Usage: legato-rl")
