"""`profile`, `export` and summary.json agree about a run folder, and refuse what is none in one sentence."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from run_folder import RunFolder

from legato_rl.cli.main import legato_rl
from legato_rl.cli.profile_view import render
from legato_rl.errors import ExitCode, RecordError
from legato_rl.export.profile import profile_run, write_summary
from legato_rl.records import Outcome, RolloutError, Status

KINDS = ("kept", "cancelled")
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run with a closed group, a failed attempt and a desktop that is out."""
    folder = RunFolder(tmp_path / "run", ["g", "h"], group=2)
    folder.row("g", 0, 1.0, steps=folder.steps(3))
    folder.row("g", 1, 0.0, steps=folder.steps(1))
    error = RolloutError(kind="env", phase="act", type="guest_timeout", message="no answer")
    folder.row("h", 1, None, status=Status.ERROR, outcome=Outcome.DESKTOP_FAILED, error=error, reset="escalated")
    event = {"id": "1", "desktop": "fake-3", "event": "out", "at": "2026-01-01T00:00:00.000Z", "reason": "broken"}
    folder.run.desktop_events.write_text(json.dumps(event) + "\n" + '{"torn')
    return folder


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `legato-rl` with these arguments."""
    result = CliRunner().invoke(legato_rl, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_summary_is_the_profile(folder: RunFolder) -> None:
    """What is written, what is returned and what `--json` prints is one thing."""
    summary = write_summary(folder.run.root)
    assert json.loads(folder.run.summary.read_text()) == summary == profile_run(folder.run.root)
    code, out, _ = run("profile", folder.run.root, "--json")
    assert (code, json.loads(out)) == (0, summary)
    assert (summary["run_id"], summary["version"], summary["desktops"]["out"]) == ("r", "v1", ["fake-3"])


def test_a_torn_row_is_a_notice(folder: RunFolder) -> None:
    """Bytes after the last whole row are told."""
    with folder.run.rollouts.open("ab") as file:
        file.write(b'{"torn')
    assert any(notice.startswith("6 bytes at the end") for notice in profile_run(folder.run.root)["notices"])


def test_the_servers_notices_come_first(folder: RunFolder) -> None:
    """What the pre-flight said of the server is said again with the numbers."""
    about = folder.run.load_run()
    folder.run.write_run(about.model_copy(update={"engine": {"notices": ["logprobs are raw"]}}))
    assert profile_run(folder.run.root)["notices"][0] == "logprobs are raw"


@pytest.mark.parametrize("end", ["[]", '"finished"', "null", "{}", '{"state": "stopped"}', '{"state": 1, "reason": ""}', "{"])
def test_an_end_that_is_none(folder: RunFolder, end: str) -> None:
    """Whatever else lies there is told in a sentence, also to who resumes a run of which every attempt has ended."""
    for attempt in (0, 1):
        folder.row("h", attempt, 1.0, steps=folder.steps(1), try_=1)
    folder.run.end.write_text(end)
    for command in (("profile", folder.run.root), ("collect", "--resume", "--out", folder.run.root)):
        code, _, said = run(*command)
        assert code == ExitCode.DAMAGED, said
        assert said.startswith(f"error: {folder.run.end} ")
        assert said.count("\n") == 1


def test_the_view_for_people(folder: RunFolder) -> None:
    """The view has the numbers that a trainer looks for, also for a run without rows."""
    code, out, _ = run("profile", folder.run.root)
    assert code == 0
    assert re.search(r"1 of 2 +2 of 4", out)
    assert "50 %" in out
    assert re.search(r"env guest_timeout +1", out)
    assert re.search(r"resets, escalated +1", out)
    assert "resets, revert" not in out
    assert "fake-3" in out
    folder.run.rollouts.unlink()
    code, out, _ = run("profile", folder.run.root)
    assert (code, "0 of 2" in out) == (0, True)


@pytest.mark.parametrize("width", [40, 60, 72, 80, 96, 200])
def test_no_number_is_ever_cut(folder: RunFolder, width: int) -> None:
    """On any terminal, and of a run whose numbers are long: tables are stacked instead."""
    summary = profile_run(folder.run.root)
    calls = {
        name: 987.654 if name.startswith(("seconds", "queued")) else value for name, value in summary["model_calls"].items()
    }
    lengths = {kind: dict.fromkeys(("rollouts", "steps", "seconds", "steps_mean", "seconds_mean"), 59_994) for kind in KINDS}
    shares = dict.fromkeys(summary["time"]["share"], 0.0994)
    summary |= {"rows": 1_234_567, "statuses": dict.fromkeys(summary["statuses"], 1_234_567)}
    summary |= {"model_calls": calls, "lengths": lengths, "time": {**summary["time"], "share": shares}}
    shown = view(summary, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("1234567") == len(summary["statuses"]) + 1
    assert shown.count("16 min") == 6
    assert shown.count("9.9 %") == len(shares)
    assert shown.count("17 h") == 4


def test_tables_are_stacked_where_they_do_not_fit(folder: RunFolder) -> None:
    """Side by side where the terminal is wide enough."""
    summary = profile_run(folder.run.root)
    beside = [width for width in (40, 200) if re.search(r"rollouts .*time by phase", view(summary, width))]
    assert beside == [200]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (0.00005, "<1 ms"),
        (0.0042, "4 ms"),
        (0.09958, "100 ms"),
        (3.2874, "3.3 s"),
        (41.8, "42 s"),
        (105.04, "1.8 min"),
    ],
)
def test_figures_are_few(folder: RunFolder, seconds: float, shown: str) -> None:
    """Two of a duration, in a unit that a person would choose."""
    summary = profile_run(folder.run.root)
    summary["model_calls"] |= dict.fromkeys(("seconds_p50", "seconds_p95", "seconds_p99"), seconds)
    assert re.search(rf"call( +{re.escape(shown)}){{3}}", view(summary, 100))


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.00394, "0.4 %"),
        (0.0188, "1.9 %"),
        (0.443, "44 %"),
        (0.9999, "99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_a_share_that_lacks_a_little(folder: RunFolder, share: float | None, shown: str) -> None:
    """It is not shown as everything: a few steps without logprobs matter."""
    summary = profile_run(folder.run.root)
    summary["model_calls"]["logprobs_share"] = share
    assert re.search(rf"logprobs +{shown} ", view(summary, 100))


def test_a_usual_run_fits_eighty_columns_side_by_side(folder: RunFolder) -> None:
    """Two tables in a row, as on wider terminals."""
    assert re.search(r"rollouts .*time by phase", view(profile_run(folder.run.root), 80))


def test_what_the_view_names(folder: RunFolder) -> None:
    """The reward as collect tells it, the agent's share of the time, and the tasks whose evaluators failed."""
    summary = profile_run(folder.run.root)
    summary["evaluator_failures"] = {"task-7": 2}
    summary["time"]["share"]["other"] = 0.5
    shown = view(summary, 100)
    assert "mean reward 0.500" in shown
    assert re.search(r"agent, other +50 %", shown)
    assert re.search(r"evaluator task-7 +2", shown)


def view(summary: dict[str, Any], width: int) -> str:
    """What a terminal of so many columns shows."""
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(render(summary))
    return capture.get()


def test_export_speaks_on_stderr(folder: RunFolder) -> None:
    """Rows go to stdout, words to stderr, and `--json` makes the words JSON."""
    code, out, err = run("export", folder.run.root, "--out", "-", "--inline-images", "--max-versions", "2")
    assert (code, len(out.splitlines())) == (0, 4)
    assert "4 steps of 2 rollouts written to stdout" in err
    assert "1 open groups left out" in err
    code, out, err = run("export", folder.run.root, "--out", folder.run.root / "train.jsonl", "--json")
    told = json.loads(err)
    assert (code, out, told["steps"], told["rollouts_mixed"]) == (0, "", 1, 1)
    code, out, err = run("export", folder.run.root, "--out", folder.run.root / "train.jsonl")
    assert (code, out, err.count("\n")) == (ExitCode.BAD_INPUT, "", 1)
    assert err.endswith("train.jsonl': the file exists; name another, or have it replaced (--overwrite)\n")
    assert run("export", folder.run.root, "--out", folder.run.root / "train.jsonl", "--overwrite")[0] == 0


def test_documented_fields_of_a_line(folder: RunFolder, tmp_path: Path) -> None:
    """docs/export.md has exactly the fields of a line, in their order, and those of an image."""
    run("export", folder.run.root, "--out", tmp_path / "out")
    line = json.loads((tmp_path / "out").read_text().splitlines()[0])
    text = (DOCS / "export.md").read_text(encoding="utf-8")
    tables = [re.findall(r"^\| `(\w+)` \| \S", part, re.MULTILINE) for part in text.split("\n## A line")[1].split("### ")]
    assert tables == [list(line), list(line["images"][0])]


@pytest.mark.parametrize("command", [["profile"], ["export", "--out", "-"]])
def test_no_run_folder(command: list[str], tmp_path: Path) -> None:
    """A folder that is no run is bad input: one sentence, exit code 2."""
    code, out, err = run(*command, tmp_path / "nowhere")
    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert re.fullmatch(r"error: \S*nowhere is no run folder: there is no such folder\n", err)


def test_a_damaged_desktop_event_is_named(folder: RunFolder) -> None:
    """A line of desktops.jsonl that is no object is refused."""
    folder.run.desktop_events.write_text("[]\n")
    with pytest.raises(RecordError, match="is no desktop event"):
        profile_run(folder.run.root)
