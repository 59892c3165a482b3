"""How did a run go? Reads its folder and gives the summary; `write_summary` stores it beside the rows. DISK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legato_rl.export.reader import RowFile, load_desktop_events, load_group_ids
from legato_rl.rundir import RunDir, json_bytes, write_file
from legato_rl.summary import summarize


def profile_run(run_dir: str | Path) -> dict[str, Any]:
    """The summary of the run in `run_dir`, computed from what is stored now.

    ConfigError where the folder is no run, RecordError where it is damaged. Fields: docs/rollouts.md, "summary.json".
    """
    run = RunDir(Path(run_dir))
    about = run.load_run()
    group_ids, events = load_group_ids(run), load_desktop_events(run)
    with RowFile(run) as file:
        rows = (rollout for _, rollout in file.rows())
        summary = summarize(rows, about.settings, group_ids, events, about.engine.get("notices", []), about.again)
    end = run.load_end()
    if end is not None and end["state"] != "finished":
        why = f": {end['reason']}" if end["reason"] else ""
        summary["notices"].insert(0, f"the run was {end['state']} before its end{why}")
    if file.torn_bytes:
        summary["notices"].append(f"{file.torn_bytes} bytes at the end of {run.rollouts} are no whole row and were left out")
    return {
        "schema": summary.pop("schema"),
        "run_id": about.run_id,
        "model": about.settings.policy.model,
        "version": about.settings.policy.version,
        "end": end,
        **summary,
    }


def write_summary(run_dir: str | Path) -> dict[str, Any]:
    """Compute the summary and write it to `summary.json`, whole or not at all. Raises as `profile_run`."""
    summary = profile_run(run_dir)
    write_file(RunDir(Path(run_dir)).summary, json_bytes(summary))
    return summary
