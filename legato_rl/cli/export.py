"""`legato-rl export`: how does a run become a trainer's file?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from legato_rl.export.steps import ExportReport, export_steps


@click.command("export")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--out", required=True, metavar="FILE", help="A new file; - is stdout.")
@click.option("--overwrite", is_flag=True, help="Replace the file where there is one.")
@click.option("--inline-images", is_flag=True, help="Put images into the messages as data URLs.")
@click.option("--min-group", default=1, show_default=True, metavar="N", help="Leave out groups with fewer usable rollouts.")
@click.option("--max-versions", default=1, show_default=True, metavar="N", help="Leave out rollouts of more policy versions.")
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON, on stderr.")
def export(
    run_dir: Path, out: str, overwrite: bool, inline_images: bool, min_group: int, max_versions: int, as_json: bool
) -> None:
    """Write one JSON line per step of every usable rollout of RUN_DIR.

    Usable is `ok` or `truncated`, of groups that are closed or short; open groups are left out and counted. The fields
    are in docs/export.md.
    """
    report = export_steps(
        run_dir, out, overwrite=overwrite, inline_images=inline_images, min_group=min_group, max_versions=max_versions
    )
    # Words go to stderr, since stdout may be the file.
    click.echo(json.dumps(report.as_dict()) if as_json else in_words(report, out), err=True)


def in_words(report: ExportReport, out: str) -> str:
    """The report as a few lines for people."""
    place = "stdout" if out == "-" else out
    said = [
        f"{report.steps} steps of {report.rollouts} rollouts written to {place}",
        f"groups: {report.groups_closed} closed, {report.groups_short} short",
    ]
    also = [
        (report.groups_flat, "of these without variance (every advantage is 0)"),
        (report.groups_open, "open groups left out: their rewards are not final"),
        (report.groups_small, "groups left out: fewer usable rollouts than --min-group"),
        (report.rollouts_mixed, "usable rollouts left out: they have more policy versions than --max-versions"),
        (report.steps_without_prompt_ids, "steps without prompt ids: the server gave none"),
        (report.torn_bytes, "bytes at the end of rollouts.jsonl left out: no whole row"),
    ]
    return "\n".join([*said, *(f"{count} {words}" for count, words in also if count)])
