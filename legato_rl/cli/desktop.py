"""`legato-rl desktop build` and `legato-rl reap`: the container desktop's image, and what dead runs left."""

from __future__ import annotations

import subprocess
import sys

import click

PROGRAMS = "legato_rl.workers.desktop"
"""The package of the programs that the commands run: they are the workers' own, and are not imported here."""


def run_program(name: str, *arguments: str) -> None:
    """Run a program of the workers' in the foreground and end with its exit code."""
    raise click.exceptions.Exit(
        subprocess.run([sys.executable, "-m", f"{PROGRAMS}.{name}", *arguments], check=False).returncode
    )


@click.group("desktop")
def desktop() -> None:
    """The container desktop."""


@desktop.command("build", context_settings={"show_default": True})
@click.option(
    "--size",
    type=click.Choice(["mini", "office", "full"]),
    default="office",
    help="mini: terminal, editor, file manager; office: and LibreOffice; full: and Chromium.",
)
@click.option("--base", metavar="IMAGE", default="debian:12", help="A Debian 12 image to start from.")
@click.option("--bootstrap", is_flag=True, help="Make the base with mmdebstrap: no registry is asked.")
@click.option("--tag", metavar="NAME", help="Name of the image.  [default: legato-desktop:SIZE]")
def build(size: str, base: str, bootstrap: bool, tag: str | None) -> None:
    """Make the image of the container desktop, or reuse one of the same content.

    The last line printed is its name.
    """
    source = ["--bootstrap"] if bootstrap else ["--base", base]
    run_program("image", "--size", size, *source, *(["--tag", tag] if tag else []))


@click.command("reap")
@click.option("--run", metavar="ID", help="Only what this run left.  [default: any run]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reap(run: str | None, as_json: bool) -> None:
    """Remove the containers that dead workers left behind, with their volumes; nothing else."""
    run_program("reap", *(["--run", run] if run else []), *(["--json"] if as_json else []))
