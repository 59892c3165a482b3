"""`legato-rl keygen`: the CURVE keys of a service whose `control` is reached over tcp."""

from __future__ import annotations

from pathlib import Path

import click

SAID = """\
{folder} holds the keys of a service and of one client.
At the service: all of it, with legato-rl serve --control tcp://HOST:PORT --keys {folder}
At the trainer: client.secret and server.public, as ControlClient("tcp://HOST:PORT", keys=FOLDER)
A further client is let in as soon as its public key is in clients/, and refused when that is taken away.
"""


@click.command("keygen")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def keygen(folder: Path) -> None:
    """Draw CURVE keys for a service whose control is at tcp://, and for one client, into DIR, a new or empty folder.

    Secret keys are for the user alone (mode 0600), and none is ever overwritten.
    """
    from legato_rl.curve import write_keys

    write_keys(folder)
    click.echo(SAID.format(folder=folder), nl=False)
