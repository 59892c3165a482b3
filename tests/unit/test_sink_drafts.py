"""Is every row and blob that must not be stored refused, in a sentence that names the field?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_rows import ATTEMPTS, GROUPS, RUN, blob_name, chat_message, draft, png, step

from legato_rl.broker.sink.drafts import PNG_SIGNATURE, Expected, check_blobs, read_draft
from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.errors import WireError
from legato_rl.records import Outcome, dump
from legato_rl.wire import BlobName

EXPECTED = Expected(run_id=RUN, tasks={group: f"task-{group}" for group in GROUPS}, attempts=ATTEMPTS)
ERROR = {"kind": "env", "phase": "act", "type": "lost", "message": ""}


@pytest.mark.parametrize("outcome", Outcome)
def test_a_row_of_every_outcome_is_read(outcome: Outcome) -> None:
    """What a writer sends comes back field by field."""
    row = draft(outcome=outcome, steps=(step(b"m"),))
    assert dump(read_draft(row, EXPECTED)) == row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (draft(run_id="r2"), "run_id is 'r2'"),
        (draft(group_id="../../x"), "group_id is '../../x': an id has"),
        (draft(group_id="g9"), "group_id is 'g9': the run has no such group"),
        (draft(task_id="other"), "task_id is 'other': group g1 is of task 'task-g1'"),
        (draft(attempt=ATTEMPTS), "attempt is 4: a group of this run has the attempts 0 to 3"),
        (draft(attempt=1, rollout_id="r1:g1:0:0"), "rollout_id is 'r1:g1:0:0': the key makes it 'r1:g1:1:0'"),
        (draft(reward=None), "reward is missing: the outcome is graded"),
        (draft(reward=1.5), "reward is 1.5: it must be at most 1"),
        (draft(reward=math.nan), "reward is nan"),
        (draft(outcome=Outcome.DESKTOP_FAILED, reward=0.0), "reward is 0.0: the outcome is desktop_failed"),
        (draft(outcome=Outcome.NOT_STARTED, reward=0.0), "reward is 0.0: the outcome is not_started"),
        (draft(error=ERROR), "error is of type 'lost': the outcome is graded"),
        (draft(outcome=Outcome.WORKER_LOST, error=None), "error is missing"),
        (draft(outcome=Outcome.POLICY_FAILED, error=ERROR), "error is of kind env: the outcome is policy_failed"),
        (draft(outcome=Outcome.STOPPED, cancel_reason=None), "cancel_reason is missing"),
        (draft(n_steps=2), "n_steps is 2: the row holds 0 steps"),
        (draft(final_image="../x"), "final_image is '../x'"),
        (draft(status="ok"), "status is unknown here"),
        ({}, "run_id is missing"),
    ],
)
def test_a_wrong_row_is_refused(row: dict[str, Any], said: str) -> None:
    """One sentence names the field, its value and what it should be."""
    with pytest.raises(WireError) as refusal:
        read_draft(row, EXPECTED)
    assert said in str(refusal.value)


def test_a_message_hash_that_is_none_is_refused() -> None:
    """Hashes become file names, so they are checked before any path is made."""
    row = draft(steps=(step(b"m"),))
    row["steps"][0]["request"]["messages"] = ["../../etc/passwd"]
    with pytest.raises(WireError, match=r"steps\.0\.request\.messages holds '\.\./\.\./etc/passwd'"):
        read_draft(row, EXPECTED)


def test_good_blobs_pass() -> None:
    """An image and a message that names it; text outside ASCII and lone surrogates are escaped, so they are bytes."""
    blobs = [png("a"), chat_message("grüße \ud800", png("a"))]
    check_blobs([blob_name(blob) for blob in blobs], blobs)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 3}, "frame has 64 bytes"),
        ({"sha256": "0" * 64}, "another hash"),
        ({"sha256": "../x"}, "no SHA-256"),
        ({"type": "message"}, "no JSON object"),
    ],
)
def test_a_blob_that_is_not_what_its_name_says_is_refused(change: dict[str, Any], said: str) -> None:
    """Size, hash and type are checked against the bytes."""
    with pytest.raises(WireError, match=said):
        check_blobs([blob_name(png("a")).model_copy(update=change)], [png("a")])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"role": "user"}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        '{"a":"ü"}'.encode(),
        b'{"a":\xff}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_a_message_that_is_not_canonical_is_refused(data: bytes) -> None:
    """One message has one hash, so only its canonical bytes are stored."""
    with pytest.raises(WireError, match="no JSON object in canonical form"):
        check_blobs([BlobName(sha256=sha256_hex(data), size=len(data), type="message")], [data])


@pytest.mark.parametrize("url", ["data:image/png;base64,AAAA", "legato-image://xyz", "http://host/a.png", None])
def test_a_message_with_an_image_of_another_name_is_refused(url: str | None) -> None:
    """Images of stored messages are found by their hash, or the record could not be rebuilt."""
    data = canonical_json({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    with pytest.raises(WireError, match="not named by its hash"):
        check_blobs([blob_name(data)], [data])


def test_blobs_and_names_are_as_many() -> None:
    """A frame without a name, or a name without its frame, is refused."""
    with pytest.raises(WireError, match="names 1 blobs: the message has 0"):
        check_blobs([blob_name(b"{}")], [])


@given(st.binary(max_size=200).filter(lambda data: not data.startswith(PNG_SIGNATURE)))
def test_random_bytes_are_an_image_only_with_the_signature(data: bytes) -> None:
    """What is no PNG is never stored as one."""
    with pytest.raises(WireError, match="no PNG"):
        check_blobs([BlobName(sha256=sha256_hex(data), size=len(data), type="image")], [data])
