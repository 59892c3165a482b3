"""`legato-rl serve`: options in, a service in the foreground, or the configuration of one for an operator's supervisord."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from legato_rl.cli import options as opt

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

    DIR is made, or opened again with the options that it was made with: runs that a crash cut go on. A run may choose its
    own model, version and sampling; what is given here is for those that do not. Ctrl-C stops every run, resumable, and
    ends the service; a second one ends it at once. Exit codes: 0 shut down by a client, 2 wrong input (nothing was
    started), 3 it cannot go on, 70 a bug, 130 Ctrl-C, 143 SIGTERM.
    """
    from legato_rl.cli.service_progress import service_progress
    from legato_rl.run.interrupts import INTERRUPTS
    from legato_rl.run.prepare_service import Terms
    from legato_rl.run.serve import configuration
    from legato_rl.run.serve import serve as run

    opt.require("policy_url", "model", "policy_version")
    settings = opt.settings_of(options)
    terms = Terms(options["most_desktops"], options["allow_origin"], options["control"] or "", options["keys"])
    if options["print_supervisord"]:
        click.echo(configuration(options["root"], settings, terms), nl=False)
        return
    INTERRUPTS.listen()
    with service_progress(options["quiet"]) as display:
        run(options["root"], settings, terms, display.start, display.show)
