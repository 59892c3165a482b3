"""`profile`, `export` and summary.json agree about a run folder, and refuse what is none in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from run_folder import RunFolder

from legato_rl.cli.main import legato_rl
from legato_rl.errors import ExitCode, RecordError
from legato_rl.export.profile import profile_run, write_summary
from legato_rl.records import Outcome, RolloutError, Status

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run with a closed group, a failed attempt and a desktop that is out."""
    folder = RunFolder(tmp_path / "run", ["g", "h"], group=2)
    folder.row("g", 0, 1.0, steps=folder.steps(3))
    folder.row("g", 1, 0.0, steps=folder.steps(1))
    error = RolloutError(kind="env", phase="act", type="guest_timeout", message="no answer")
    folder.row("h", 1, None, status=Status.ERROR, outcome=Outcome.DESKTOP_FAILED, error=error)
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


def test_the_view_for_people(folder: RunFolder) -> None:
    """The view has the numbers that a trainer looks for, also for a run without rows."""
    code, out, _ = run("profile", folder.run.root)
    assert code == 0
    assert re.search(r"1 of 2 +2 of 4 +50 %", out)
    assert re.search(r"env guest_timeout +1", out)
    assert "fake-3" in out
    folder.run.rollouts.unlink()
    code, out, _ = run("profile", folder.run.root)
    assert (code, "0 of 2" in out) == (0, True)


def test_export_speaks_on_stderr(folder: RunFolder) -> None:
    """Rows go to stdout, words to stderr, and `--json` makes the words JSON."""
    code, out, err = run("export", folder.run.root, "--out", "-", "--inline-images")
    assert (code, len(out.splitlines())) == (0, 4)
    assert "4 steps of 2 rollouts written to stdout" in err
    assert "1 open groups left out" in err
    code, out, err = run("export", folder.run.root, "--out", folder.run.root / "train.jsonl", "--json")
    assert (code, out, json.loads(err)["steps"]) == (0, "", 4)


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
    assert re.fullmatch(r"error: \S*nowhere is no run folder: it has no run\.json\n", err)


def test_a_damaged_desktop_event_is_named(folder: RunFolder) -> None:
    """A line of desktops.jsonl that is no object is refused."""
    folder.run.desktop_events.write_text("[]\n")
    with pytest.raises(RecordError, match="is no desktop event"):
        profile_run(folder.run.root)
