"""The tables of options and settings in docs/ have every option with its default, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from legato_rl.cli.collect import collect
from legato_rl.cli.fake_policy import fake_policy
from legato_rl.cli.serve import serve
from legato_rl.config import DEADLINES, FakeConfig
from legato_rl.desktop import DESKTOP_METHODS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def tables(page: str, heading: str) -> list[tuple[str, str]]:
    """The first two columns of the tables under `heading`, without backticks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"{page} has no section {heading}"
    rows = re.findall(r"^\| (`[^|]+`) \|([^|]*)\|", section[1], re.MULTILINE)
    return [(name.replace("`", ""), second.strip().replace("`", "")) for name, second in rows]


@pytest.mark.parametrize(
    ("page", "heading", "command"),
    [
        ("collect.md", "Options", collect),
        ("operating.md", "A service", serve),
        ("policy_servers.md", "The bundled server", fake_policy),
    ],
)
def test_every_option(page: str, heading: str, command: click.Command) -> None:
    """Each option of the command is in the table, in any order; a number or word that it has for a default is told.

    The table of `serve` has those that `collect` has not.
    """
    told = {name.split()[0]: default for name, default in tables(page, heading)}
    options = {option.opts[0]: option for option in command.params if option.opts[0] != "--help"}
    if command is serve:
        options = {name: option for name, option in options.items() if name not in {o.opts[0] for o in collect.params}}
    assert told.keys() == options.keys()
    for name, option in options.items():
        flag = isinstance(option, click.Option) and option.is_flag
        default = option.to_info_dict()["default"]
        if flag:
            assert told[name] == "off", name
        elif isinstance(default, int | float):
            assert float(told[name]) == default, name
        elif isinstance(default, str):
            assert told[name] == default, name
        else:
            assert told[name] in ("required", "none", "any", "") or told[name].startswith("["), name


def test_no_flag_shows_a_default() -> None:
    """A switch that is named for what it takes away does not say that it is on."""
    assert "[default: True]" not in " ".join(fake_policy.get_help(click.Context(fake_policy, show_default=True)).split())


def test_every_deadline() -> None:
    """The phases that have a deadline, and its seconds."""
    assert [(phase, float(seconds)) for phase, seconds in tables("collect.md", "Clocks")] == list(DEADLINES.items())


def test_every_setting_of_the_fake_desktop() -> None:
    """Each field of FakeConfig with its default."""
    told = [(name, float(default)) for name, default in tables("desktops.md", "Settings")]
    assert told == [(name, field.default) for name, field in FakeConfig.model_fields.items()]


def test_every_method_of_a_desktop() -> None:
    """The protocol's methods, in order."""
    names = [name.partition("(")[0] for name, _ in tables("desktops.md", "The protocol")]
    assert names == ["__init__", *DESKTOP_METHODS]
