"""Which options do the commands share that start work, and what do they make of them? Groups of options, then settings."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from legato_rl.config import DesktopConfig, FakeConfig, PolicyConfig, Settings
from legato_rl.errors import ConfigError
from legato_rl.supervisord import KEY_VARIABLE

Command = Callable[..., None]

VM_OPTIONS = (
    *("osworld_path", "osworld_python", "provider", "path_to_vm", "image", "ram_gb", "cpus", "cache_dir"),
    *("client_password", "proxy"),
)
"""Options that are fields of DesktopConfig as they stand."""
OF_POLICY = ("temperature", "top_p", "max_tokens", "thinking", "seed", "step_timeout", "retries", "server_wait")
"""Options that are fields of PolicyConfig as they stand."""
OF_SETTINGS = (
    *("desktops", "agent", "max_booting", "max_inflight", "image_max"),
    *("group", "oversample", "close", "max_steps", "rollout_timeout", "env_retries", "stop_failure_share"),
    "min_free_gb",
)
"""Options that are fields of Settings as they stand."""
OF_A_RUN = tuple(name for name in OF_SETTINGS if name not in ("desktops", "agent", "max_booting", "max_inflight"))
"""Those of them that each run of a service may choose."""
OF_ITS_POLICY = {
    "model": "model",
    "policy_version": "version",
    "extra_body": "extra_body",
    **{name: name for name in OF_POLICY if name != "server_wait"},
}
"""Options that each run of a service may choose, and their fields of PolicyConfig."""
OF_THE_COMMAND = ("tasks", "connect", "quiet", "as_json")
"""Options of `collect` that are no settings."""


def option_group(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in the order in which they are given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


what = option_group(
    click.option("--tasks", metavar="FILE", help="JSON list of tasks; - is stdin; required."),
    click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="A new or empty folder; required."),
    click.option("--resume", is_flag=True, help="Go on with the run in --out, or --name of --connect, as it was asked."),
    click.option("--retry-errors", is_flag=True, help="With --resume: try attempts again that desktops made errors."),
    click.option("--connect", type=click.Path(path_type=Path), metavar="DIR", help="Be a run of the service there instead."),
    click.option("--name", metavar="ID", help="With --connect: the run's id and folder.  [default: drawn]"),
    click.option("--priority", type=int, default=0, metavar="N", help="With --connect: higher ones get desktops first."),
)
policy = option_group(
    click.option("--policy-url", metavar="URL", help="Ends in /v1; fake starts the bundled server; required."),
    click.option("--model", metavar="NAME", help="The model's name at the server; required."),
    click.option("--version", "policy_version", metavar="V", help="The policy version to stamp; required."),
)
where = option_group(
    click.option("--backend", default="osworld", metavar="NAME", help="osworld, container, fake or package.module:Class."),
    click.option("--osworld", "osworld_path", type=click.Path(path_type=Path), metavar="PATH", help="OSWorld checkout."),
    click.option(
        "--osworld-python", type=click.Path(path_type=Path), metavar="PATH", help="Interpreter of the workers.  [default: this]"
    ),
    click.option("--agent", type=click.Choice(["auto", "own", "osworld"]), default="auto", help="Who builds the prompts."),
    click.option("--provider", default="docker", metavar="NAME", help="OSWorld's provider of VMs."),
    click.option("--vm", "path_to_vm", type=click.Path(path_type=Path), metavar="PATH", help="The VM's image."),
    click.option("--image", default="legato-desktop:office", metavar="NAME", help="Image of container desktops."),
    click.option("--ram-gb", type=int, default=4, metavar="N", help="GiB of memory per desktop."),
    click.option("--cpus", type=int, default=4, metavar="N", help="Processors per desktop."),
    click.option("--cache", "cache_dir", type=click.Path(path_type=Path), metavar="DIR", help="Where downloads are kept."),
    click.option(
        "--client-password",
        default="",
        show_default=False,
        metavar="WORD",
        help="Password of the guest's user.  [default: OSWorld's]",
    ),
    click.option("--proxy", type=click.Path(path_type=Path), metavar="FILE", help="OSWorld's file of proxies."),
    click.option("--desktops", type=int, default=4, metavar="N", help="Worker processes, one desktop each."),
    click.option(
        "--max-booting", type=int, metavar="N", help="Desktops that boot or revert at once.  [default: 8 of OSWorld's]"
    ),
    click.option("--screen", default="1920x1080", metavar="WxH", help="Screen size in pixels."),
    click.option("--no-ready-signal", is_flag=True, help="Baseline: wait --fixed-wait seconds instead."),
    click.option("--fixed-wait", type=float, metavar="S", help="Seconds to wait without the ready signal."),
    click.option("--no-fast-reset", is_flag=True, help="Baseline: every reset is a full one."),
    click.option("--fake", multiple=True, metavar="KEY=VALUE", help="A setting of the fake desktop (repeatable)."),
    click.option("--deadline", multiple=True, metavar="PHASE=S", help="A phase's deadline in seconds (repeatable)."),
)
how = option_group(
    click.option("--group", type=int, default=4, metavar="G", help="Attempts per task."),
    click.option("--oversample", type=float, default=0.0, metavar="F", help="Extra attempts per group: ceil(G x F)."),
    click.option("--close", type=click.Choice(["first", "all"]), default="first", help="When a group closes."),
    click.option("--max-steps", type=int, default=15, metavar="N", help="Policy calls per rollout."),
    click.option(
        "--rollout-timeout", type=float, metavar="S", help="Seconds of a rollout; then it is graded.  [default: none]"
    ),
    click.option("--env-retries", type=int, default=1, metavar="N", help="Further tries after a desktop failure."),
    click.option(
        "--stop-failures",
        "stop_failure_share",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="Stop when more of the last 20 tries failed on the desktop.",
    ),
    click.option(
        "--min-free", "min_free_gb", type=float, default=1.0, metavar="GB", help="Begin no rollout with less disk space free."
    ),
)
calls = option_group(
    click.option("--max-inflight", type=int, metavar="N", help="Model requests at once, over all desktops.  [default: none]"),
    click.option("--step-timeout", type=float, default=60.0, metavar="S", help="Seconds of one HTTP attempt."),
    click.option("--retries", type=int, default=1, metavar="N", help="Further HTTP attempts of a model call."),
    click.option("--server-wait", type=float, default=600.0, metavar="S", help="How long a server that is down is waited for."),
    click.option("--image-max", type=int, default=20, metavar="N", help="Screenshots kept in the prompt."),
    click.option("--temperature", type=float, default=1.0),
    click.option("--top-p", type=float, default=1.0),
    click.option("--max-tokens", type=int, default=2048),
    click.option("--thinking", is_flag=True, help="Let the model think before it answers."),
    click.option("--extra-body", metavar="JSON", help="Merged into every request."),
    click.option("--seed", type=int, metavar="N", help="Makes fake desktops, and a server that honours seeds, reproducible."),
)
show = option_group(
    click.option("--quiet", is_flag=True, help="No progress."),
    click.option("--json", "as_json", is_flag=True, help="The summary as JSON on stdout."),
)


def require(*names: str, why: str | None = None) -> None:
    """Refuse the present command where one of these options was not given, as click does for a required one; `why` it is."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.params[parameter.name] is None:
            raise click.MissingParameter(why, context, parameter)


def typed() -> set[str]:
    """The names of the present command's options that were given."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def spelled(name: str) -> str:
    """How an option of the present command is typed, without its dashes."""
    parameters = {parameter.name: parameter for parameter in click.get_current_context().command.params}
    return parameters[name].opts[0].lstrip("-")


def settings_of(options: dict[str, Any]) -> Settings:
    """The settings that all options make."""
    return Settings(
        policy=policy_of(options),
        desktop=desktop_of(options),
        **{name: options[name] for name in OF_SETTINGS if name in options},
    )


def policy_of(options: dict[str, Any]) -> PolicyConfig:
    """The policy; the key is the environment's."""
    return PolicyConfig(
        options["policy_url"],
        options["model"],
        version=options["policy_version"],
        api_key=os.environ.get(KEY_VARIABLE) or None,
        extra_body=json_object("extra-body", options["extra_body"]),
        **{name: options[name] for name in OF_POLICY},
    )


def desktop_of(options: dict[str, Any]) -> DesktopConfig:
    """One desktop."""
    return DesktopConfig(
        backend=options["backend"],
        **{name: options[name] for name in VM_OPTIONS},
        screen_size=_screen(options["screen"]),
        ready_signal=not options["no_ready_signal"],
        fixed_wait=options["fixed_wait"],
        fast_reset=not options["no_fast_reset"],
        seed=options["seed"],
        fake=_pairs("fake", options["fake"]),
        deadlines=_pairs("deadline", options["deadline"]),
    )


def _screen(text: str) -> tuple[int, int]:
    size = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text)
    if size is None:
        raise ConfigError(f"screen is {text!r}: it must be WIDTHxHEIGHT in pixels, as in 1920x1080")
    return int(size[1]), int(size[2])


def _pairs(field: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{field} is {text!r}: it must be key=value, with a key such as {_example(field)}")
        pairs[key] = value
    return pairs


def _example(field: str) -> str:
    return ", ".join(list(FakeConfig.model_fields)[:4]) if field == "fake" else "reset, act, evaluate"


def json_object(field: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{field} is {text[:200]!r}: it is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{field} is {text!r}: it must be a JSON object")
    return value
