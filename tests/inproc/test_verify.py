"""Does `verify` call a true folder true, and notes what is no fault? What it finds in damaged ones: test_verify_damage.py."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from driven_clock import DrivenClock
from true_folder import TrueFolder, make_eventful, make_spotless

from legato_rl.cli.main import legato_rl
from legato_rl.cli.verify import Progress
from legato_rl.errors import ConfigError, ExitCode, RecordError
from legato_rl.export.profile import write_summary
from legato_rl.records import Outcome, Status
from legato_rl.verify import CODES, examine, verify

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verify.md"


def rows(folder: TrueFolder) -> list[bytes]:
    """The lines of the rows."""
    return folder.run.rollouts.read_bytes().splitlines(keepends=True)


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its time of change."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def test_the_eventful_folder_has_every_outcome_and_status(tmp_path: Path) -> None:
    """The folder that damages are done to is no narrow one."""
    parsed = [json.loads(line) for line in rows(make_eventful(tmp_path / "run"))]
    assert {row["outcome"] for row in parsed} == {outcome.value for outcome in Outcome}
    assert {row["status"] for row in parsed} == {status.value for status in Status}


@pytest.mark.parametrize("make", [make_eventful, make_spotless])
def test_a_true_folder(tmp_path: Path, make: Callable[[Path], TrueFolder]) -> None:
    """No fault, everything looked at, nothing changed."""
    folder = make(tmp_path / "run")
    before = contents(folder.run.root)
    report = examine(folder.run.root, "sk-0123456789")
    assert report.faults == []
    assert report.rows == len(rows(folder))
    assert report.steps == sum(len(json.loads(line)["steps"]) for line in rows(folder))
    assert report.messages == len(list(folder.run.messages.iterdir()))
    assert report.images == len(list(folder.run.images.iterdir()))
    assert contents(folder.run.root) == before


def test_a_run_that_was_cut(tmp_path: Path) -> None:
    """Without its end, with a torn row and without a summary: notes, and what is there is true."""
    folder = make_eventful(tmp_path / "run")
    folder.run.end.unlink()
    folder.run.summary.unlink()
    lines = rows(folder)
    folder.run.rollouts.write_bytes(b"".join(lines[:-2]) + lines[-2][:-1])
    report = examine(folder.run.root)
    # It has rollouts of a group whose rows are not there any more.
    assert {fault.code for fault in report.faults} == {"export-differs"}
    (folder.run.root / "train.jsonl").unlink()
    report = examine(folder.run.root)
    assert report.faults == []
    assert f"rollouts.jsonl:13: {len(lines[-2]) - 1} bytes of a torn row, which was never acknowledged" in report.notes
    assert "2 of 12 attempts have no final row" in report.notes


def test_a_torn_row_may_have_its_newline(tmp_path: Path) -> None:
    """A crash of the machine leaves such a tail; the sink and every reader take it for torn, and so does verify."""
    folder = make_spotless(tmp_path / "run")
    with folder.run.rollouts.open("ab") as file:
        file.write(b'{"schema":\0\0\0\n')
    report = examine(folder.run.root)
    assert report.faults == []
    assert [note.partition(":")[0] for note in report.notes] == ["rollouts.jsonl"]


def test_a_summary_that_told_of_a_torn_row(tmp_path: Path) -> None:
    """Its notice names a path, and the next start of the sink cuts the row: neither makes the summary false."""
    folder = make_spotless(tmp_path / "run")
    whole = folder.run.rollouts.read_bytes()
    folder.run.rollouts.write_bytes(whole + b'{"torn')
    write_summary(folder.run.root)
    folder.run.rollouts.write_bytes(whole)
    assert verify(folder.run.root.rename(tmp_path / "moved")) == []


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    """A summary of an earlier stop is not compared, and blobs that came before their row are no orphans."""
    folder = make_spotless(tmp_path / "run")
    folder.run.end.unlink()
    folder.run.summary.write_text("{}")
    folder.image(77)
    report = examine(folder.run.root)
    assert report.faults == []
    assert "summary.json was not compared: the run goes on, or was cut off" in report.notes


def test_a_folder_without_rows_yet(tmp_path: Path) -> None:
    """A run that was just started is true."""
    folder = TrueFolder(tmp_path / "run", ["g"])
    folder.run.rollouts.unlink()
    report = examine(folder.run.root)
    assert (report.faults, report.notes) == ([], ["3 of 3 attempts have no final row"])


def test_an_error_may_be_run_again(tmp_path: Path) -> None:
    """An attempt whose error was of kind env goes on where run.json says that this was asked for; none of kind policy does."""
    folder = TrueFolder(tmp_path / "run", ["g"])
    folder.put("g", 0, Outcome.EVALUATOR_FAILED)
    run = folder.run.load_run()
    folder.run.write_run(run.model_copy(update={"again": [f"{run.run_id}:g:0:0", f"{run.run_id}:g:1:0"]}))
    assert "3 of 3 attempts have no final row" in examine(folder.run.root).notes
    folder.put("g", 0, Outcome.GRADED, 1.0, try_=1)
    assert verify(folder.run.root) == []
    folder.put("g", 1, Outcome.POLICY_FAILED)
    folder.put("g", 1, Outcome.GRADED, 1.0, try_=1)
    folder.run.write_run(run)
    where = ["rollouts.jsonl:2", "rollouts.jsonl:4"]
    assert [(fault.code, fault.where) for fault in verify(folder.run.root)] == [("attempt-order", line) for line in where]


def test_mixed_weight_versions_are_noted(tmp_path: Path) -> None:
    """Rows whose steps came from more than one weight version of the server are counted."""
    folder = TrueFolder(tmp_path / "run", ["g"])
    for attempt, weights in enumerate((["a", "b"], ["a", None], ["a", "a"])):
        draft = folder.draft("g", attempt, Outcome.GRADED, 1.0, steps=2)
        steps = [
            step.model_copy(update={"model": step.model.model_copy(update={"server_version": version})})
            for step, version in zip(draft.steps, weights, strict=True)
        ]
        folder.append(draft.model_copy(update={"steps": steps}))
    assert "1 row with answers of several weight versions of the server" in examine(folder.run.root).notes


def test_another_version_of_the_package_is_noted(tmp_path: Path) -> None:
    """What its rows have, or lack, is told as a fault; the note says why that may be."""
    folder = TrueFolder(tmp_path / "run", ["g"])
    folder.run.write_run(folder.run.load_run().model_copy(update={"legato_rl": "0.0.1"}))
    assert examine(folder.run.root).notes[0].startswith("the run is of version 0.0.1, this is ")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """The command says so in one sentence, and does not call the folder true."""
    folder = make_spotless(tmp_path / "run")
    folder.run.rollouts.unlink()
    folder.run.rollouts.mkdir()
    with pytest.raises(RecordError, match=r"rollouts\.jsonl cannot be read \(Is a directory\)"):
        verify(folder.run.root)


def test_steps_without_ids_are_true(tmp_path: Path) -> None:
    """A server that gives no ids gives tokens as text, and no prompt ids."""
    folder = TrueFolder(tmp_path / "run", ["g"])
    draft = folder.draft("g", 0, Outcome.GRADED, 1.0, steps=2)
    for index, step in enumerate(draft.steps):
        response = step.response.model_copy(update={"token_ids": None, "tokens": ["a", "b"]})
        request = step.request.model_copy(update={"prompt": None})
        draft.steps[index] = step.model_copy(update={"response": response, "request": request})
    folder.append(draft)
    assert verify(folder.run.root) == []


def test_the_key_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the proxy takes it; a key that would be found by chance is not looked for, and that is said."""
    folder = make_spotless(tmp_path / "run")
    (folder.run.logs / "proxy.log").write_text("sent with sk-0123456789\n")
    assert verify(folder.run.root) == []
    monkeypatch.setenv("LEGATO_POLICY_KEY", "sk-0123456789")
    assert [(fault.code, fault.where) for fault in verify(folder.run.root)] == [("key-found", "logs/proxy.log")]
    report = examine(folder.run.root, "sk-0")
    assert report.faults == []
    assert any("shorter than 8 bytes" in note for note in report.notes)


def test_the_command(tmp_path: Path) -> None:
    """Exit code 0 and one word where the folder is true; 1 and a line per fault, or a JSON list; 2 where it is no run."""
    folder = make_spotless(tmp_path / "run")
    good = CliRunner().invoke(legato_rl, ["verify", str(folder.run.root)])
    assert (good.exit_code, good.stdout) == (ExitCode.DONE, "")
    assert good.stderr == "true: 6 rows, 7 steps, 4 messages and 3 images\n"
    folder.run.summary.unlink()
    bad = CliRunner().invoke(legato_rl, ["verify", str(folder.run.root), "--quiet"])
    assert (bad.exit_code, bad.stderr) == (ExitCode.SHORT, "")
    assert bad.stdout.startswith("summary.json: it is not there")
    assert bad.stdout.endswith(f"[summary-missing: {CODES['summary-missing']}]\n")
    listed = CliRunner().invoke(legato_rl, ["verify", str(folder.run.root), "--json"])
    assert listed.exit_code == ExitCode.SHORT
    (fault,) = json.loads(listed.stdout)
    assert fault.keys() == {"code", "where", "message"}
    assert (fault["code"], fault["where"]) == ("summary-missing", "summary.json")


@pytest.mark.parametrize("command", [["verify"], ["profile"], ["export", "--out", "-"]])
def test_what_is_no_run_folder(tmp_path: Path, command: list[str]) -> None:
    """One sentence and exit code 2; of a folder with runs in it, as a service's, it names them, the latest first."""
    file, empty, root = tmp_path / "file", tmp_path / "empty", tmp_path / "svc"
    file.touch()
    empty.mkdir()
    for n, name in enumerate(("b", "c", "a")):
        run = root / "runs" / name
        run.mkdir(parents=True)
        (run / "run.json").touch()
        os.utime(run / "run.json", (n, n))
    named = f"name a run in it: {root}/runs/a, {root}/runs/c, {root}/runs/b"
    for folder, why in (
        (file, "it is a file"),
        (file / "run", "there is no such folder"),
        (tmp_path / "none", "there is no such folder"),
        (empty, "it has no run.json"),
        (root, f"it has no run.json; {named}"),
        (root / "runs", f"it has no run.json; {named}"),
    ):
        result = CliRunner().invoke(legato_rl, [*command, str(folder)])
        assert (result.exit_code, result.stdout) == (ExitCode.BAD_INPUT, "")
        assert result.stderr == f"error: {folder} is no run folder: {why}\n"


def test_only_the_latest_runs_are_named(tmp_path: Path) -> None:
    """A service may have run thousands."""
    for n in range(12):
        (tmp_path / f"r{n}").mkdir()
        (tmp_path / f"r{n}" / "run.json").touch()
        os.utime(tmp_path / f"r{n}" / "run.json", (n, n))
    with pytest.raises(ConfigError, match=rf"name a run in it: {tmp_path}/r11, .*{tmp_path}/r4, … \(12 in all\)$"):
        verify(tmp_path)


def test_how_far_it_is_is_told(tmp_path: Path) -> None:
    """By batches of files and by rows, each to its end; the command says it at most once in some seconds, or not at all."""
    folder = make_spotless(tmp_path / "run")
    for n in range(300):
        folder.message({"role": "user", "content": str(n)})
    told: list[tuple[str, int, int]] = []
    examine(folder.run.root, tell=lambda what, done, of: told.append((what, done, of)))
    assert [done for what, done, _ in told if what == "messages"] == [256, 304]
    assert {what: (done, of) for what, done, of in told} == {
        "messages": (304, 304),
        "images": (3, 3),
        "bytes of rows": (folder.run.rollouts.stat().st_size,) * 2,
    }


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_for_what_takes_long(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first seconds, then a line in every so many."""
    clock = DrivenClock()
    progress = Progress(quiet, clock)
    for n in range(30):
        progress("images", n * 1000, 30000)
        clock.sleep(0.4)
    said = capsys.readouterr()
    lines = ["looked at 13,000 of 30,000 images", "looked at 26,000 of 30,000 images"]
    assert (said.out, said.err.splitlines()) == ("", [] if quiet else lines)


def test_the_page_lists_the_codes() -> None:
    """docs/verify.md has every code once, in order, with the words that the command says."""
    listed = re.findall(r"^\| `([a-z-]+)` \| (\S.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == list(CODES.items())
