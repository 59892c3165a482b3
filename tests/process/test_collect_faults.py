"""Does a run on desktops that fail in every way account for every attempt, true to the token? Real processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from whole_runs import EXAMPLES, check_accounts, collect, naming

from legato_rl.errors import ExitCode
from legato_rl.fake.tokens import token_logprobs
from legato_rl.prompt_ids import rebuild
from legato_rl.records import PromptRecord
from legato_rl.request import body_sha256, load_request
from legato_rl.rundir import RunDir

pytestmark = pytest.mark.process

FAULTS = {
    "fail_reset": 0.1,
    "fail_observe": 0.02,
    "fail_act": 0.02,
    "fail_evaluate": 0.05,
    "bug_evaluate": 0.1,
    "hang": 0.02,
    "crash": 0.02,
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run in which everything failed at times."""
    out = tmp_path_factory.mktemp("faults") / "run"
    faults = [arg for name, rate in FAULTS.items() for arg in ("--fake", f"{name}={rate}")]
    options = ("--desktops", 4, "--group", 4, "--oversample", 0.5, "--seed", 7, "--env-retries", 2, "--stop-failures", 1)
    with collect(out, EXAMPLES, *options, "--deadline", "act=4", *faults) as cli:
        code = cli.end()
    assert code in (ExitCode.DONE, ExitCode.SHORT), cli.output
    summary = json.loads(RunDir(out).summary.read_bytes())
    assert code == (ExitCode.DONE if summary["groups"]["closed"] == summary["groups"]["asked"] else ExitCode.SHORT)
    assert naming(str(out)) == [], "no process is left"
    return out


def test_every_attempt_is_accounted_for(faulty: Path) -> None:
    """One final row an attempt, every earlier try retried, and the statuses follow from the order of the file."""
    rows = check_accounts(faulty)
    outcomes = Counter(row["outcome"] for row in rows)
    assert {"graded", "desktop_failed", "evaluator_failed", "worker_lost"} <= set(outcomes)
    for row in rows:
        assert (row["error"] is None) == (row["outcome"] in ("graded", "timed_out_graded", "stopped", "not_started"))
        if row["outcome"] == "worker_lost":
            assert row["steps"] == []
            assert row["desktop"].startswith("worker-00")


def test_the_summary_counts_the_rows(faulty: Path) -> None:
    """Statuses, errors and attempts in summary.json are those of the rows."""
    rows, summary = check_accounts(faulty), json.loads(RunDir(faulty).summary.read_bytes())
    assert {name: n for name, n in summary["statuses"].items() if n} == Counter(row["status"] for row in rows)
    told = {kind: Counter(types) for kind, types in summary["errors"].items()}
    counted = {kind: Counter(r["error"]["type"] for r in rows if r["error"] and r["error"]["kind"] == kind) for kind in told}
    assert told == counted
    assert summary["attempts"] == {"asked": 30, "ended": 30, "unfinished": 0}
    assert summary["desktops"]["out"] == [], "a crash is no verdict on a desktop"


def test_every_request_is_what_was_sent(faulty: Path) -> None:
    """The body's hash, its messages and its prompt ids are rebuilt from the folder; ids and logprobs are the server's."""
    steps = 0
    for row in check_accounts(faulty):
        before: list[int] = []
        for step in row["steps"]:
            request, response = step["request"], step["response"]
            assert body_sha256(faulty, request) == request["body_sha256"]
            urls = list(image_urls(load_request(faulty, request)))
            assert urls
            assert all(url.startswith("data:image/png;base64,") for url in urls)
            prompt = rebuild(before, PromptRecord.model_validate(request["prompt"]))
            assert len(prompt) == step["model"]["prompt_tokens"]
            assert response["logprobs"] == token_logprobs(prompt, response["token_ids"])
            before = [*prompt, *response["token_ids"]]
            steps += 1
    assert steps > 30


def image_urls(messages: list[dict[str, Any]]) -> Iterator[str]:
    """The images of a request."""
    for message in messages:
        if isinstance(message["content"], list):
            yield from (part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url")


def test_seeds_differ_by_call(faulty: Path) -> None:
    """One seed for all would make the attempts of a group copies of each other."""
    seeds = [step["request"]["params"]["seed"] for row in check_accounts(faulty) for step in row["steps"]]
    assert len(set(seeds)) == len(seeds)


def test_the_groups_are_closed_by_their_first_graded_attempts(faulty: Path) -> None:
    """Of a closed group exactly G are usable, and the others say why they are not."""
    by_group: dict[str, Counter[str]] = {}
    for row in check_accounts(faulty):
        by_group.setdefault(row["group_id"], Counter())[row["status"]] += 1
    for counts in by_group.values():
        assert counts["ok"] + counts["truncated"] <= 4
        assert sum(counts.values()) - counts["retried"] == 6
