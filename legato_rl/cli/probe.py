"""`legato-rl probe`: what a model server gives, as a table."""

from __future__ import annotations

import os

import click
from rich.console import Console
from rich.table import Table

from legato_rl.config import FAKE_URL, PolicyConfig
from legato_rl.errors import ConfigError, ExitCode
from legato_rl.fake.server import FakePolicyServer
from legato_rl.policy.offer import ProbeReport, probe

_MARKS = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "off": "[yellow]off[/]", "unknown": "[yellow]unknown[/]"}


@click.command("probe")
@click.option("--policy-url", "url", required=True, metavar="URL", help="Base URL ending in /v1, or `fake`.")
@click.option("--model", required=True, metavar="M", help="The model's name.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of the table.")
def probe_command(url: str, model: str, as_json: bool) -> None:
    """Ask a model server for one text and one prompt of images; say what it gives and what to switch on.

    The key is taken from LEGATO_POLICY_KEY. Exit code 1 where something is missing that training needs.
    """
    try:
        policy = PolicyConfig(url, model, api_key=os.environ.get("LEGATO_POLICY_KEY") or None)
        if url == FAKE_URL:
            with FakePolicyServer() as address:
                report = probe(policy.model_copy(update={"url": address}))
        else:
            report = probe(policy)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        _print(report)
    if not report.trainable:
        raise click.exceptions.Exit(ExitCode.SHORT)


def _print(report: ProbeReport) -> None:
    table = Table("", "state", "value", "what to do", title=f"{report.model} at {report.url}", title_justify="left")
    for row in report.rows:
        name = f"{row.name} *" if row.needed else row.name
        table.add_row(name, _MARKS[row.state], row.value, row.remedy)
    console = Console()
    console.print(table)
    verdict = (
        "ready to train from" if report.trainable else "not ready: training needs the rows marked * that are missing or unknown"
    )
    console.print(verdict)
