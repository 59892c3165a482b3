"""Does the sink answer blobs and rows with what is on the disk? Over real sockets, in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_rows import RUN, chat_message, draft, png, step
from sink_scene import House, lines, sink_of_a_run

from legato_rl.canonical import sha256_hex
from legato_rl.records import Outcome, RolloutKey, Status
from legato_rl.wire import (
    BlobName,
    BlobsNeeded,
    BlobsStored,
    PutBlobs,
    Refused,
    RowStored,
    StatusAsk,
)

KEY = RolloutKey(run=RUN, group="g1", attempt=0, try_=0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over an empty run."""
    with sink_of_a_run(tmp_path) as house:
        yield house


def test_blobs_are_stored_under_their_hash(house: House) -> None:
    """Whole batches are answered when every blob lies under its name, and again when it is there already."""
    image, message = png("a", 5000), chat_message("hello", png("a", 5000))
    for _ in range(2):
        answer = house.asker().put(image, message)
        assert answer == BlobsStored(hashes=[sha256_hex(image), sha256_hex(message)])
    assert house.run.image(sha256_hex(image)).read_bytes() == image
    assert house.run.message(sha256_hex(message)).read_bytes() == message
    assert [path.name for path in house.run.images.iterdir()] == [f"{sha256_hex(image)}.png"]


def test_a_bad_blob_spoils_its_batch_and_nothing_else(house: House) -> None:
    """Nothing of a refused batch is stored, and the sink goes on."""
    asker = house.asker()
    names = [
        BlobName(sha256=sha256_hex(png("a")), size=64, type="image"),
        BlobName(sha256="0" * 64, size=64, type="image"),
    ]
    answer = asker.ask(PutBlobs(run=RUN, blobs=names), Refused, blobs=[png("a"), png("b")])
    assert answer.about == "PutBlobs"
    assert "another hash" in answer.reason
    assert list(house.run.images.iterdir()) == []
    assert isinstance(asker.put(png("a")), BlobsStored)


def test_a_row_waits_for_the_blobs_that_it_names(house: House) -> None:
    """First the messages are asked for, then the images that they and the row name; then the row is stored."""
    asker = house.asker()
    first, last, other = png("first"), png("last"), chat_message("text only")
    message = chat_message("look", first)
    row = draft(steps=(step(message, other),), final_image=sha256_hex(last))
    needs = asker.row(row)
    assert isinstance(needs, BlobsNeeded)
    assert needs.hashes == sorted(map(sha256_hex, (message, other, last)))
    asker.put(message, other, last)
    assert asker.row(row) == BlobsNeeded(key=needs.key, hashes=[sha256_hex(first)])
    assert lines(house.run) == []
    asker.put(first)
    assert isinstance(asker.row(row), RowStored)
    assert [line["rollout_id"] for line in lines(house.run)] == ["r1:g1:0:0"]


def test_a_stored_row_is_the_draft_with_its_status(house: House) -> None:
    """One line of JSON with the schema; text of a model survives, lone surrogates included."""
    message = chat_message("hi")
    asker = house.asker()
    asker.put(message)
    row = draft(steps=(step(message, content="naïve \ud800"),))
    answer = asker.row(row)
    assert isinstance(answer, RowStored)
    assert (answer.row.n, answer.row.status, answer.duplicate) == (1, Status.OK, False)
    assert lines(house.run) == [{**row, "schema": "legato.rollout/v0", "status": "ok", "usable": True}]
    assert house.run.rollouts.read_bytes().isascii()


def test_a_duplicate_is_answered_with_the_row_that_stands(house: House) -> None:
    """The broker's `worker_lost` comes after the worker's own row: that one stands, and the file has one line."""
    first = house.asker().row(draft(reward=0.5))
    second = house.asker().row(draft(outcome=Outcome.WORKER_LOST))
    assert isinstance(first, RowStored)
    assert isinstance(second, RowStored)
    assert (second.duplicate, second.row) == (True, first.row)
    assert len(lines(house.run)) == 1


def test_a_wrong_row_is_refused(house: House) -> None:
    """Nothing is stored, and the reason is a sentence."""
    answer = house.asker().row(draft(reward=None))
    assert answer == Refused(about="PutRow", of=draft()["rollout_id"], reason="reward is missing: the outcome is graded")
    assert lines(house.run) == []


@pytest.mark.parametrize("damage", [b"x", b"", chat_message("ho")])
def test_a_damaged_message_is_asked_for_again(house: House, damage: bytes) -> None:
    """A stored message whose bytes are not those of its name is put aside; no row is stored upon it before it came again."""
    message = chat_message("hi")
    row, path, asker = draft(steps=(step(message),)), house.run.message(sha256_hex(message)), house.asker()
    asker.put(message)
    path.write_bytes(damage)
    assert asker.row(row) == BlobsNeeded(key=KEY, hashes=[sha256_hex(message)])
    assert (house.run.logs / f"{path.name}.damaged").read_bytes() == damage
    asker.put(message)
    assert isinstance(asker.row(row), RowStored)
    assert path.read_bytes() == message


def test_a_row_that_json_cannot_hold_is_refused(house: House) -> None:
    """NaN is no JSON; the file stays whole."""
    answer = house.asker().row(draft(meta={"x": float("nan")}))
    assert isinstance(answer, Refused)
    assert "the row of r1:g1:0:0 is no JSON" in answer.reason
    assert house.run.rollouts.read_bytes() == b""


def test_a_message_for_another_process_is_refused(house: House) -> None:
    """The sink says what it does not take, and counts it."""
    answer = house.asker().ask(StatusAsk(id="1"), Refused)
    assert "StatusAsk is not for a sink" in answer.reason
    assert house.server.bad == 1
