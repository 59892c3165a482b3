"""`legato-rl probe`: what a model server gives, as a table."""

from __future__ import annotations

import os

import click

from legato_rl.cli.findings import show
from legato_rl.config import FAKE_URL, PolicyConfig
from legato_rl.errors import ConfigError, ExitCode
from legato_rl.fake.server import FakePolicyServer
from legato_rl.policy.offer import ProbeReport, probe
from legato_rl.policy.room import IMAGE_MAX


@click.command("probe")
@click.option("--policy-url", "url", required=True, metavar="URL", help="Base URL ending in /v1, or `fake`.")
@click.option("--model", required=True, metavar="M", help="The model's name.")
@click.option("--thinking", is_flag=True, help="Ask as a run with --thinking does.")
@click.option(
    "--image-max", type=int, default=IMAGE_MAX, show_default=True, metavar="N", help="Screenshots in the run's prompts."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of the table.")
def probe_command(url: str, model: str, thinking: bool, image_max: int, as_json: bool) -> None:
    """Ask a model server for texts and prompts of images; say what it gives and what to switch on.

    The key is taken from LEGATO_POLICY_KEY. Exit code 1 where something is missing that training needs.
    """
    if image_max < 1:
        raise ConfigError(f"image-max is {image_max}: it must be at least 1")
    policy = PolicyConfig(url, model, api_key=os.environ.get("LEGATO_POLICY_KEY") or None, thinking=thinking)
    if url == FAKE_URL:
        with FakePolicyServer() as address:
            report = probe(policy.model_copy(update={"url": address}), image_max=image_max)
    else:
        report = probe(policy, image_max=image_max)
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        _print(report)
    if not report.trainable:
        raise click.exceptions.Exit(ExitCode.SHORT)


def _print(report: ProbeReport) -> None:
    shown = [(f"{row.name} *" if row.needed else row.name, row.state, row.value, row.remedy) for row in report.rows]
    lacking = "not ready: training needs the rows marked * that are missing or unknown; what to do is below each (->)"
    show(f"{report.model} at {report.url}", shown, "ready to train from" if report.trainable else lacking)
