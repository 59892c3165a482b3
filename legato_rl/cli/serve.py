"""`legato-rl serve`: options in, a service in the foreground, or the configuration of one for an operator's supervisord."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from legato_rl.cli import options as opt
from legato_rl.config import FAKE_URL, Settings
from legato_rl.errors import RunStopped, Terminated
from legato_rl.service import ServiceDir, ServiceFile

if TYPE_CHECKING:
    from legato_rl.run.prepare_service import Terms

OF_ITS_POLICY = {**opt.OF_ITS_POLICY, "policy_url": "url", "server_wait": "server_wait"}
"""Options that are of the policy, and their fields of PolicyConfig."""
OF_ITS_DESKTOP = {
    **{name: name for name in (*opt.VM_OPTIONS, "backend", "fixed_wait", "fake", "seed")},
    "screen": "screen_size",
    "no_ready_signal": "ready_signal",
    "no_fast_reset": "fast_reset",
    "deadline": "deadlines",
}
"""Options that are of a desktop, and their fields of DesktopConfig."""

service = opt.option_group(
    click.option("--dir", "root", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The service's folder."),
    click.option("--most-desktops", type=int, metavar="N", help="Desktops that may be asked for.  [default: --desktops]"),
    click.option("--control", metavar="ADDRESS", help="tcp://HOST:PORT, for trainers elsewhere; needs --keys."),
    click.option("--keys", type=click.Path(path_type=Path), metavar="DIR", help="CURVE keys (legato-rl keygen)."),
    click.option("--allow-origin", multiple=True, metavar="URL", help="Another server that set_policy may name (repeatable)."),
    click.option("--print-supervisord", is_flag=True, help="Print what to include in a supervisord, and start nothing."),
)


@click.command("serve", context_settings={"show_default": True})
@service
@opt.policy
@opt.where
@opt.calls
@click.option("--quiet", is_flag=True, help="No progress.")
def serve(**options: Any) -> None:
    """Keep desktops and all that runs them up, for batches that legato-rl collect --connect and trainers submit.

    DIR is made. One that holds a service is opened again as it was made, so that --dir alone is enough, and with what
    trainers have asked for since: runs that a crash cut go on. A run may choose its own model, version and sampling; what is
    given here is for those that do not. Ctrl-C stops every run, resumable, and ends the service; a second one ends it at
    once. Exit codes: 0 shut down by a client, 2 wrong input (nothing was started), 3 it cannot go on, 6 its folder is damaged,
    70 a bug, 130 Ctrl-C, 143 SIGTERM.
    """
    from legato_rl.cli.service_progress import service_progress
    from legato_rl.run.interrupts import INTERRUPTS
    from legato_rl.run.serve import configuration
    from legato_rl.run.serve import serve as run

    root: Path = options["root"]
    settings, terms = _asked(root, options)
    if options["print_supervisord"]:
        click.echo(configuration(root, settings, terms), nl=False)
        return
    INTERRUPTS.listen()
    again = f"start it again with: legato-rl serve --dir {shlex.quote(str(root))}"
    try:
        with service_progress(options["quiet"]) as display:
            run(root, settings, terms, display.start, display.show)
    except (RunStopped, KeyboardInterrupt) as error:
        words = {RunStopped: "cannot go on", Terminated: "was terminated"}
        display.end(f"the service {words.get(type(error), 'was interrupted')}; {again}")
        raise
    display.end(f"the service was shut down; {again}")


def _asked(root: Path, options: dict[str, Any]) -> tuple[Settings, Terms]:
    """What the service in `root` is to be: what it was made with, where it is there, and over that what was typed."""
    folder = ServiceDir(root)
    if not folder.service_file.exists():
        opt.require("policy_url", "model", "policy_version", why=f"There is no service in {root} yet, so say what it is to be")
        return opt.settings_of(options), _terms(options)
    made, typed = folder.load(), opt.typed()
    terms = {
        "most_desktops": made.most_desktops,
        "allow_origin": tuple(made.origins[1:]),
        "control": made.control if made.keys else None,
        "keys": made.keys,
    }
    return _over(made, options, typed), _terms({name: options[name] if name in typed else terms[name] for name in terms})


def _terms(options: dict[str, Any]) -> Terms:
    from legato_rl.run.prepare_service import Terms

    return Terms(options["most_desktops"], options["allow_origin"], options["control"] or "", options["keys"])


def _over(made: ServiceFile, options: dict[str, Any], typed: set[str]) -> Settings:
    """The settings of a service that is there, with what was typed in their place; the key is the environment's."""
    old = made.settings
    said = opt.settings_of({**options, **_around(old, options, typed)})
    policy = {field: getattr(said.policy, field) for name, field in OF_ITS_POLICY.items() if name in typed}
    desktop = {field: getattr(said.desktop, field) for name, field in OF_ITS_DESKTOP.items() if name in typed}
    fields = {field: getattr(said, field) for field in opt.OF_SETTINGS if field in typed}
    if made.bundled:
        policy = {"url": FAKE_URL, **policy}
    fields["policy"] = old.policy.model_copy(update={**policy, "api_key": said.policy.api_key})
    fields["desktop"] = old.desktop.model_copy(update=desktop)
    return old.model_copy(update=fields)


def _around(old: Settings, options: dict[str, Any], typed: set[str]) -> dict[str, Any]:
    """The options without which those that were typed could not be read: required ones, ones that need each other, and, of
    a repeatable one, those that are not repeated now."""
    desktop = old.desktop
    around = {
        "policy_url": old.policy.url,
        "model": old.policy.model,
        "policy_version": old.policy.version,
        "no_ready_signal": not desktop.ready_signal,
        "fixed_wait": desktop.fixed_wait,
    }
    pairs: dict[str, dict[Any, Any]] = {"fake": desktop.fake.model_dump(), "deadline": desktop.deadlines}
    return {
        **{name: value for name, value in around.items() if name not in typed},
        **{name: tuple(f"{key}={value}" for key, value in made.items()) + options[name] for name, made in pairs.items()},
    }
