"""What is the image made from? The base that was named, and what comes with the package."""

from __future__ import annotations

from typing import Any

import pytest
from container_desktops import base_image
from whole_runs import Cli

from legato_rl.errors import ConfigError, ExitCode
from legato_rl.workers.desktop.image.build import build

pytestmark = pytest.mark.desktop

NOWHERE = "127.0.0.1:9/debian:12"
"""A base in a registry that is not there."""


def test_the_base_is_the_named_one(engine: Any) -> None:
    """The Dockerfile starts from it: where it cannot be fetched, that is said, with what to do."""
    lines: list[str] = []
    with pytest.raises(ConfigError, match=rf"{NOWHERE} cannot be fetched, try --bootstrap"):
        build(engine, size="mini", base=NOWHERE, tag="legato-desktop:nowhere", say=lines.append)
    assert [line for line in lines if "FROM" in line] == ["Step 2/21 : FROM ${BASE}"]
    assert engine.images.list("legato-desktop:nowhere") == []


def test_the_same_content_is_reused(engine: Any, desktop_image: str) -> None:
    """`legato-rl desktop build` makes nothing where an image of the same content is there; its name is the last line."""
    made = engine.images.get(desktop_image).id
    base = base_image()
    with Cli("desktop", "build", "--size", "full", *(["--base", base] if base else ["--bootstrap"])) as cli:
        assert cli.end() == ExitCode.DONE, cli.output
    assert cli.output == f"an image of the same content is there already\n{desktop_image}\n"
    assert engine.images.get(desktop_image).id == made
