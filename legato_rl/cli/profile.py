"""`legato-rl profile`: how did a run go?"""

from __future__ import annotations

from pathlib import Path

import click

from legato_rl.export.profile import profile_run
from legato_rl.rundir import json_bytes


@click.command("profile")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON (docs/rollouts.md, summary.json).")
def profile(run_dir: Path, as_json: bool) -> None:
    """Show what came of the run in RUN_DIR, from what is stored now; a run that is still going may be looked at."""
    summary = profile_run(run_dir)
    if as_json:
        click.echo(json_bytes(summary), nl=False)
        return
    # Imported here, since rich takes longer to import than --help should.
    from rich.console import Console

    from legato_rl.cli.profile_view import render

    Console().print(render(summary))
