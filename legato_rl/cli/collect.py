"""`legato-rl collect`: options in, a run, its progress, an exit code."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from legato_rl.cli import options as opt
from legato_rl.errors import ConfigError, ExitCode, RunStopped
from legato_rl.service import ServiceDir
from legato_rl.supervisord import KEY_VARIABLE

OF_A_CONNECTION = ("name", "priority")
"""Options that mean something with --connect alone."""
OF_A_RESUME = ("resume", "retry_errors", "quiet", "as_json")
"""Options that may be given with --resume, beside those that say which run it is; everything else is in its folder."""


@click.command("collect", context_settings={"show_default": True})
@opt.what
@opt.policy
@opt.where
@opt.how
@opt.calls
@opt.show
def collect(**options: Any) -> None:
    """Run every task's group of rollouts and write them, graded, to a folder.

    The model server's key is taken from the environment variable LEGATO_POLICY_KEY. With --connect a service (legato-rl
    serve) does the work: its own options, such as --policy-url and --desktops, are then left out, and what else is not
    given is as the service has it. With --resume a run that ended early, however that was, is finished: what it was asked
    is in its folder. With --connect, --resume and --name a run of the service is followed from wherever it stands, as
    after its client was killed. Exit codes: 0 all groups closed, 1 fewer than asked, 2 wrong input (nothing was started),
    3 stopped early, 6 a file of the folder is damaged, 70 a bug, 130 Ctrl-C, 143 SIGTERM.
    """
    from legato_rl.cli.progress import progress
    from legato_rl.run.interrupts import INTERRUPTS

    out, run = _chosen(options)
    inherits = options["connect"] is not None and options["policy_version"] is None and not options["resume"]
    INTERRUPTS.listen()
    try:
        with progress(options["quiet"]) as display:
            start = partial(display.start, resumed=options["resume"], inherits=inherits)
            summary = run(on_start=start, on_status=display.show)
    except (RunStopped, KeyboardInterrupt):
        display.cut(out, shlex.join(_again(options["connect"], out)))
        raise
    if options["as_json"]:
        click.echo(json.dumps(summary, indent=1))
    display.end(summary, out)
    groups = summary["groups"]
    if groups["closed"] < groups["asked"]:
        short = f"{groups['closed']} of {groups['asked']} groups closed: see `legato-rl profile {out}`"
        click.echo(f"error: fewer than asked were delivered, {short}", err=True)
        sys.exit(ExitCode.SHORT)


def _chosen(options: dict[str, Any]) -> tuple[Path, Callable[..., dict[str, Any]]]:
    """The folder of the run that the options ask for, and what runs it."""
    from legato_rl.run.api import collect as run

    if options["resume"]:
        return _resumed(options)
    if options["retry_errors"]:
        raise ConfigError("retry-errors has no effect without resume: leave it out, or resume a run")
    opt.require("tasks")
    out, arguments = _alone(options) if options["connect"] is None else _connected(options)
    return out, partial(run, options["tasks"], **arguments)


def _again(connect: Path | None, out: Path) -> list[str]:
    """The command that goes on with a run."""
    which = ["--resume", "--out", str(out)] if connect is None else ["--connect", str(connect), "--resume", "--name", out.name]
    return ["legato-rl", "collect", *which]


def _resumed(options: dict[str, Any]) -> tuple[Path, Callable[..., dict[str, Any]]]:
    """The folder of a run to go on with, and what does."""
    from legato_rl.run.resume import resume

    connect: Path | None = options["connect"]
    if connect is None:
        _refuse_without_connect()
    elif "out" in opt.typed():
        raise ConfigError("out is the service's own: leave it out with --connect")
    which = ("out",) if connect is None else ("connect", "name")
    for option in sorted(opt.typed() - {*which, *OF_A_RESUME}):
        raise ConfigError(f"{opt.spelled(option)} has no effect with resume, since the run has its settings: leave it out")
    opt.require(*which)
    again = partial(resume, retry_errors=options["retry_errors"])
    if connect is not None:
        name: str = options["name"]
        return ServiceDir(connect).runs / name, partial(again, connect=connect, name=name)
    key = os.environ.get(KEY_VARIABLE) or None
    return options["out"], partial(again, options["out"], api_key=key)


def _refuse_without_connect() -> None:
    for name in sorted(opt.typed() & set(OF_A_CONNECTION)):
        raise ConfigError(f"{name} has no effect without connect: leave it out, or name a service with --connect")


def _alone(options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The folder of a run of its own, and the arguments of its `collect`."""
    _refuse_without_connect()
    opt.require("out", "policy_url", "model", "policy_version")
    settings = {name: options[name] for name in opt.OF_SETTINGS}
    out: Path = options["out"]
    return out, {"policy": opt.policy_of(options), "out": out, "desktop": opt.desktop_of(options), **settings}


def _connected(options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The folder of a service's run, and the arguments of its `collect`: what was typed alone."""
    connect: Path = options["connect"]
    typed = opt.typed()
    for name in sorted(typed - {*opt.OF_A_RUN, *opt.OF_ITS_POLICY, *OF_A_CONNECTION, *opt.OF_THE_COMMAND}):
        raise ConfigError(f"{opt.spelled(name)} is the service's own: leave it out with --connect")
    chosen = {field: options[name] for name, field in opt.OF_ITS_POLICY.items() if name in typed}
    if "extra_body" in chosen:
        chosen["extra_body"] = opt.json_object("extra-body", chosen["extra_body"])
    # Drawn here, so that what is stored can be shown whatever happens.
    name = options["name"] or f"run-{secrets.token_hex(4)}"
    settings = {name: options[name] for name in opt.OF_A_RUN if name in typed}
    arguments = {"policy": chosen, "connect": connect, "name": name, "priority": options["priority"], **settings}
    return ServiceDir(connect).runs / name, arguments
