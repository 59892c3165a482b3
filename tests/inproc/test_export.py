"""An export holds every step that may be trained on, token by token, and nothing else."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from run_folder import PAD, PARAMS, RunFolder

from legato_rl.cli.export import in_words
from legato_rl.errors import ConfigError, RecordError
from legato_rl.export.profile import profile_run
from legato_rl.export.steps import export_steps
from legato_rl.records import Outcome, Rollout, RolloutError, Status, dump


def two_graded(folder: RunFolder, group: str) -> None:
    """Close `group` (G = 2) with rewards 0 and 1 of attempts 1 and 0, stored in that order."""
    folder.row(group, 1, 0.0, steps=folder.steps(1))
    folder.row(group, 0, 1.0, steps=folder.steps(3))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of an export."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_every_field_of_a_line(tmp_path: Path) -> None:
    """A line has exactly the documented fields, and each says what the record says."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    out = tmp_path / "train.jsonl"
    report = export_steps(folder.run.root, out, max_versions=2)
    lines = lines_of(out)
    assert (report.steps, report.rollouts, report.groups_closed) == (4, 2, 1)
    assert [(line["attempt"], line["step"]) for line in lines] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    images = lines[1].pop("images")
    messages = lines[1].pop("messages")
    assert lines[1] == {
        "rollout_id": "r:g:0:0",
        "group_id": "g",
        "task_id": "task-g",
        "attempt": 0,
        "status": "ok",
        "step": 1,
        "n_steps": 3,
        "prompt_token_ids": [1, 2, *[PAD] * 4, 7, 1000, 2000, *[PAD] * 4, 7],
        "response_text": "answer 1 \ud83d",
        "response_reasoning": "hm",
        "response_token_ids": [1001, 2001],
        "response_logprobs": [-0.5, -0.25],
        "response_tokens": None,
        "finish_reason": "stop",
        "parse_error": "no tool call",
        "sampling": {"temperature": 1.0, "top_k": -1, "seed": 5},
        "reward": 1.0,
        "advantage": 1.0,
        "group_asked": 2,
        "group_usable": 2,
        "policy_version": "v1",
        "meta": {"of": "g"},
    }
    assert lines[3]["advantage"] == -1.0
    assert lines[2]["policy_version"] == "v2"
    assert [(image["index"], image["length"]) for image in images] == [(2, 4), (9, 4)]
    assert [image["path"] for image in images] == [f"images/{image['sha256']}.png" for image in images]
    assert all((folder.run.root / image["path"]).is_file() for image in images)
    urls = [part["image_url"]["url"] for message in messages for part in message["content"] if isinstance(part, dict)
            and part["type"] == "image_url"]  # fmt: skip
    assert urls == [f"legato-image://{image['sha256']}" for image in images]


def test_sampling_leaves_out_what_is_none() -> None:
    """The parameters of the test's own requests hold keys of both kinds, so that the test above means something."""
    assert {"temperature", "top_k", "seed"} < PARAMS.keys()
    assert {"model", "n", "stream", "logprobs", "return_token_ids"} < PARAMS.keys()


def test_inline_images(tmp_path: Path) -> None:
    """With `inline_images` every image is in the messages, and the places in the prompt are still told."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    export_steps(folder.run.root, tmp_path / "train.jsonl", inline_images=True, max_versions=2)
    text = (tmp_path / "train.jsonl").read_text()
    assert "legato-image://" not in text
    assert text.count("data:image/png;base64,") == 1 + 2 + 3 + 1
    assert len(lines_of(tmp_path / "train.jsonl")[2]["images"]) == 3


def test_only_usable_rollouts_of_ended_groups(tmp_path: Path) -> None:
    """Open groups are counted and left out; of the others only `ok` and `truncated` are there, the last try of each."""
    folder = RunFolder(tmp_path / "run", ["open", "short", "closed", "empty"], group=2, oversample=0.5)
    error = RolloutError(kind="env", phase="act", type="lost", message="no answer")
    failed = {"status": Status.RETRIED, "outcome": Outcome.DESKTOP_FAILED, "error": error}
    folder.row("open", 0, 1.0, steps=folder.steps(1))
    folder.row("closed", 1, None, steps=folder.steps(2), **failed)
    folder.row("closed", 1, 1.0, steps=folder.steps(1), try_=1, status=Status.TRUNCATED, outcome=Outcome.TIMED_OUT_GRADED)
    folder.row("short", 0, 1.0, steps=folder.steps(1))
    for attempt in (1, 2):
        folder.row("short", attempt, None, **{**failed, "status": Status.ERROR})
    folder.row("closed", 2, 0.0, steps=folder.steps(1))
    folder.row("closed", 0, 1.0, steps=folder.steps(1), status=Status.SURPLUS)
    out = tmp_path / "train.jsonl"
    report = export_steps(folder.run.root, out)
    kept = [(line["group_id"], line["attempt"], line["status"], line["advantage"]) for line in lines_of(out)]
    assert kept == [("short", 0, "ok", 0.0), ("closed", 1, "truncated", 1.0), ("closed", 2, "ok", -1.0)]
    assert (report.groups_closed, report.groups_short, report.groups_open, report.groups_flat) == (1, 1, 2, 1)
    report = export_steps(folder.run.root, out, overwrite=True, min_group=2)
    assert {line["group_id"] for line in lines_of(out)} == {"closed"}
    assert report.groups_small == 1


def test_rollouts_that_mix_policy_versions(tmp_path: Path) -> None:
    """They are left out and counted unless they are asked for; the others keep the advantage among all of the group."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    out = tmp_path / "train.jsonl"
    report = export_steps(folder.run.root, out)
    assert (report.rollouts, report.rollouts_mixed, report.groups_closed) == (1, 1, 1)
    [line] = lines_of(out)
    assert (line["rollout_id"], line["advantage"], line["group_usable"]) == ("r:g:1:0", -1.0, 2)
    assert "1 usable rollouts left out: they have more policy versions" in in_words(report, "-")
    report = export_steps(folder.run.root, out, overwrite=True, max_versions=2)
    assert (report.rollouts, report.rollouts_mixed) == (2, 0)


def test_an_attempt_that_goes_on_keeps_its_group_open(tmp_path: Path) -> None:
    """An error that a resume was asked to try again is no result, so that nothing is exported that may still change."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    error = RolloutError(kind="env", phase="act", type="lost", message="no answer")
    folder.row("g", 0, 1.0, steps=folder.steps(1))
    folder.row("g", 1, None, status=Status.ERROR, outcome=Outcome.DESKTOP_FAILED, error=error)
    assert export_steps(folder.run.root, tmp_path / "out", overwrite=True).groups_short == 1
    folder.run.write_run(folder.run.load_run().model_copy(update={"again": ["r:g:1:0"]}))
    assert export_steps(folder.run.root, tmp_path / "out", overwrite=True).groups_open == 1
    assert profile_run(folder.run.root)["attempts"]["unfinished"] == 1
    folder.row("g", 1, 0.0, steps=folder.steps(1), try_=1)
    assert export_steps(folder.run.root, tmp_path / "out", overwrite=True).groups_closed == 1


def test_without_prompt_ids(tmp_path: Path) -> None:
    """Where the server gave no ids there are none, images have no place, and the report counts such steps."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    step = folder.steps(1)[0]
    response = step.response.model_copy(update={"token_ids": None, "tokens": ["a", "b"]})
    bare = step.model_copy(update={"request": step.request.model_copy(update={"prompt": None}), "response": response})
    folder.row("g", 0, 1.0, steps=[bare])
    report = export_steps(folder.run.root, tmp_path / "out")
    [line] = lines_of(tmp_path / "out")
    assert (line["prompt_token_ids"], line["response_token_ids"], line["response_tokens"]) == (None, None, ["a", "b"])
    assert [(image["index"], image["length"]) for image in line["images"]] == [(None, None)]
    assert report.steps_without_prompt_ids == 1


def test_torn_tail_is_reported(tmp_path: Path) -> None:
    """A last line that was being written is no row and no error; its bytes are reported."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    for tail in (b'{"schema": "lega', b'{"half": \n'):
        whole = folder.run.rollouts.read_bytes()
        folder.run.rollouts.write_bytes(whole + tail)
        report = export_steps(folder.run.root, tmp_path / "out", overwrite=True, max_versions=2)
        assert report.torn_bytes == len(tail)
        assert len(lines_of(tmp_path / "out")) == 4
        folder.run.rollouts.write_bytes(whole)


def damage(row: Rollout, path: list[str | int], value: object) -> bytes:
    """The row's line with the field at `path` replaced."""
    record = json.loads(json.dumps(dump(row)))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["steps", 0, "response", "logprobs"], [-0.5], "2 token ids and 1 logprobs"),
        (["steps", 0, "response", "logprobs"], [-0.5, float("nan")], "NaN is no JSON number"),
        (["steps", 1, "request", "prompt", "sha256"], "0" * 64, r"step 1: prompt\.sha256"),
        (["steps", 0, "request", "messages", 0], "../x", "must be a SHA-256"),
        (["steps", 0, "request", "messages", 0], "0" * 64, "is missing"),
        (["steps", 1, "request", "prompt", "images", 0, 2], "0" * 64, r"prompt\.images are not the 2 images"),
        (["reward"], None, "reward is null"),
        (["attempt"], 9, "attempt is 9, but a group has 1"),
        (["group_id"], "other", "is no group of this run"),
        (["status"], "fine", "line 1: status is 'fine'"),
    ],
)
def test_damaged_row_is_refused(tmp_path: Path, path: list[str | int], value: object, words: str) -> None:
    """A row that is not true to itself stops the export in one sentence, and what stood at `out` still stands."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    row = folder.row("g", 0, 1.0, steps=folder.steps(2))
    folder.run.rollouts.write_bytes(damage(row, path, value) + json.dumps(dump(row)).encode() + b"\n")
    out = tmp_path / "out"
    out.write_text("before")
    with pytest.raises(RecordError, match=words):
        export_steps(folder.run.root, out, overwrite=True)
    assert out.read_text() == "before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "run"]


def test_bad_input(tmp_path: Path) -> None:
    """A folder that is no run, a place that cannot be written, and the run's own files are refused by name."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    with pytest.raises(ConfigError, match="is no run folder: there is no such folder"):
        export_steps(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ConfigError, match="cannot be written"):
        export_steps(folder.run.root, tmp_path / "no" / "out")
    with pytest.raises(ConfigError, match="cannot be written"):
        export_steps(folder.run.root, tmp_path)
    run = folder.run
    for own in (run.rollouts, run.run_file, run.image("a"), run.end, run.command_lock):
        with pytest.raises(ConfigError, match="the run's own"):
            export_steps(run.root, own, overwrite=True)
    with pytest.raises(ConfigError, match="min_group is 0"):
        export_steps(folder.run.root, tmp_path / "out", min_group=0)
    with pytest.raises(ConfigError, match="max_versions is 0"):
        export_steps(folder.run.root, tmp_path / "out", max_versions=0)
    folder.run.tasks.unlink()
    with pytest.raises(RecordError, match=r"tasks\.jsonl cannot be read"):
        export_steps(folder.run.root, tmp_path / "out")


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    """It may be the one that a trainer reads: it is replaced, whole, only where that is asked for."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    out = tmp_path / "out"
    out.write_text("before")
    with pytest.raises(ConfigError, match=r"out' *: the file exists; name another, or have it replaced \(--overwrite\)$"):
        export_steps(folder.run.root, out)
    assert out.read_text() == "before"
    assert export_steps(folder.run.root, out, overwrite=True, max_versions=2).steps == len(lines_of(out)) == 4
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "run"]


def test_run_without_rows(tmp_path: Path) -> None:
    """A run that has stored nothing yet exports nothing."""
    folder = RunFolder(tmp_path / "run", ["g"], group=1)
    report = export_steps(folder.run.root, tmp_path / "out")
    assert (report.steps, report.groups_open) == (0, 1)
    assert (tmp_path / "out").read_bytes() == b""


def test_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`-` writes the same lines to standard output."""
    folder = RunFolder(tmp_path / "run", ["g"], group=2)
    two_graded(folder, "g")
    export_steps(folder.run.root, tmp_path / "out")
    export_steps(folder.run.root, "-")
    assert capfdbinary.readouterr().out == (tmp_path / "out").read_bytes()


def peak_of_export(folder: Path, rows: int, tokens: int) -> int:
    """Bytes that an export of `rows` rollouts with a step of `tokens` tokens takes at most."""
    attempts = 8
    run = RunFolder(folder, [f"g{index}" for index in range(rows // attempts)], group=attempts)
    [step] = run.steps(1)
    long = step.response.model_copy(update={"token_ids": [7] * tokens, "logprobs": [-0.125] * tokens})
    line = json.dumps(dump(run.row("g0", 0, 1.0, steps=[step.model_copy(update={"response": long})])))
    with run.run.rollouts.open("w") as file:
        for index in range(rows):
            row = line.replace('"attempt": 0', f'"attempt": {index % attempts}')
            file.write(row.replace('"group_id": "g0"', f'"group_id": "g{index // attempts}"') + "\n")
    tracemalloc.start()
    try:
        report = export_steps(run.run.root, folder / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.rollouts == rows
    return peak


def test_memory_is_flat(tmp_path: Path) -> None:
    """A further rollout costs its few facts, and none of its steps: far less than its line in the file."""
    peak_of_export(tmp_path / "warm", 8, 1000)
    few, many = peak_of_export(tmp_path / "few", 16, 1000), peak_of_export(tmp_path / "many", 160, 1000)
    assert many - few < 144 * 3000
