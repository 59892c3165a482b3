"""Does one sink keep many runs apart, and open and close each in time? Over real sockets, in one thread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sink_rows import blob_name, chat_message, draft, make_run, png, step
from sink_scene import House, device, lines, sink_of_a_run, sink_of_a_service

from legato_rl.broker.sink.lock import FolderLock
from legato_rl.broker.sink.runs import QUIET_S, Runs
from legato_rl.canonical import sha256_hex
from legato_rl.errors import ConfigError
from legato_rl.rundir import RunDir
from legato_rl.wire import (
    BlobsStored,
    CloseRun,
    DesktopEventStored,
    Feed,
    FeedAsk,
    Leave,
    Message,
    PutBlobs,
    PutDesktopEvent,
    PutRow,
    Refused,
    RowStored,
    RunClosed,
)

FDS_OF_A_RUN = 5
"""Descriptors of an open run: its lock, two files and two folders."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A sink over a service with the runs r1 and r2, which are empty."""
    with sink_of_a_service(tmp_path, "r1", "r2") as house:
        yield house


def folder(house: House, run: str) -> RunDir:
    """The folder of a run."""
    return RunDir(house.root.runs / run)


def event(run: str) -> PutDesktopEvent:
    """A desktop is out."""
    return PutDesktopEvent(run=run, id="e1", desktop="d0", event="out", at="2030-01-01T00:00:00Z", reason="gone")


def is_locked(run: RunDir) -> bool:
    """Whether some sink holds the folder."""
    try:
        FolderLock(run.lock).close()
    except ConfigError:
        return True
    return False


def open_fds() -> int:
    """Descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def test_runs_are_apart(house: House) -> None:
    """The same group, attempt and blob of two runs are two rows and two files; numbers and closing are each run's own."""
    asker, image = house.asker(), png("a")
    for run in ("r1", "r2"):
        asker.put(image, run=run)
        for attempt in range(2):
            answer = asker.row(draft(run=run, attempt=attempt, final_image=sha256_hex(image)))
            assert isinstance(answer, RowStored)
            assert (answer.row.key.run, answer.row.n, answer.row.status.value) == (run, attempt + 1, "ok")
        asker.ask(event(run), DesktopEventStored)
    for run in ("r1", "r2"):
        assert [line["rollout_id"] for line in lines(folder(house, run))] == [f"{run}:g1:0:0", f"{run}:g1:1:0"]
        assert folder(house, run).image(sha256_hex(image)).read_bytes() == image
        feed = asker.ask(FeedAsk(run=run, after=0), Feed)
        assert (feed.run, feed.last, feed.events_last) == (run, 2, 1)


def test_a_row_needs_the_blobs_of_its_own_run(house: House) -> None:
    """What another run stored under the same hash does not count: folders are read one by one."""
    asker, message = house.asker(), chat_message("hi")
    asker.put(message, run="r1")
    assert not isinstance(asker.row(draft(run="r2", steps=(step(message),))), RowStored)
    assert isinstance(asker.row(draft(run="r1", steps=(step(message),))), RowStored)


def test_a_follower_hears_of_the_runs_that_it_asked_about(house: House) -> None:
    """And of no other."""
    follower, writer = house.asker(), house.asker()
    follower.ask(FeedAsk(run="r2", after=0), Feed)
    for run in ("r1", "r2"):
        writer.row(draft(run=run))
    assert follower.hear(5.0, Feed).run == "r2"
    assert follower.hear(0.1, Feed) is None


@pytest.mark.parametrize(
    "message",
    [PutBlobs(run="r2", blobs=[blob_name(png("a"))]), PutRow(row=draft(run="r2")), FeedAsk(run="r2", after=0), event("r2")],
    ids=lambda message: message.kind.decode(),
)
def test_a_run_is_opened_by_the_first_message_about_it(house: House, message: Message) -> None:
    """Before it nothing of the folder is touched."""
    assert not folder(house, "r2").lock.exists()
    blobs = [png("a")] if isinstance(message, PutBlobs) else None
    house.asker().ask(message, BlobsStored, RowStored, Feed, DesktopEventStored, blobs=blobs)
    assert is_locked(folder(house, "r2"))
    assert not folder(house, "r1").lock.exists()


@pytest.mark.parametrize(
    "run", ["r9", "", ".", "..", "../r1", "r1/", "r1/../r2", "/tmp", "-r1", "r\0", "r" * 200, 7, None, ["r1"]]
)
def test_an_id_of_no_run_is_refused_for_good(house: House, run: Any) -> None:
    """In a sentence, and no path is made of it."""
    before = sorted(house.root.root.rglob("*"))
    messages: list[Message] = [PutRow(row={**draft(), "run_id": run})]
    if isinstance(run, str):
        messages += [FeedAsk(run=run, after=0), PutBlobs(run=run, blobs=[]), event(run)]
    for message in messages:
        refused = house.asker().ask(message, Refused)
        assert (refused.about, refused.again) == (message.kind.decode(), False)
        assert refused.reason
    assert sorted(house.root.root.rglob("*")) == before


def test_a_sink_of_a_single_run_takes_no_other(tmp_path: Path) -> None:
    """Its root is the run's folder, so there is no place for one."""
    with sink_of_a_run(tmp_path) as house:
        refused = house.asker().ask(FeedAsk(run="r2", after=0), Refused)
        assert (refused.reason, refused.again) == ("run is 'r2': this folder is of run 'r1'", False)


def test_a_locked_folder_is_refused_until_it_is_free(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Its rows come again and again; the log says it once, no descriptor is lost, and the other run goes on."""
    asker, other = house.asker(), FolderLock(folder(house, "r1").lock)
    asker.row(draft(run="r1"))
    before = open_fds()
    for _ in range(3):
        refused = asker.row(draft(run="r1"))
        assert isinstance(refused, Refused)
        assert (refused.again, refused.of) == (True, "r1:g1:0:0")
        assert f"{folder(house, 'r1').root} is locked by another sink" in refused.reason
    assert open_fds() == before
    assert isinstance(asker.row(draft(run="r2")), RowStored)
    other.close()
    assert isinstance(asker.row(draft(run="r1")), RowStored)
    assert caplog.text.count("is locked by another sink") == 1


def test_a_closed_run_is_unlocked_and_opens_again(house: House) -> None:
    """Closing twice is answered twice; a line that comes late is stored as ever, or answered as the duplicate that it is."""
    asker, run = house.asker(), folder(house, "r1")
    first = asker.row(draft(run="r1"))
    before = open_fds()
    for _ in range(2):
        assert asker.ask(CloseRun(run="r1"), RunClosed) == RunClosed(run="r1")
    assert open_fds() == before - FDS_OF_A_RUN
    assert not is_locked(run)
    again = asker.row(draft(run="r1"))
    assert isinstance(first, RowStored)
    assert again == RowStored(row=first.row, duplicate=True)
    assert isinstance(asker.row(draft(run="r1", attempt=1)), RowStored)
    assert is_locked(run)
    assert len(lines(run)) == 2


def test_closing_what_is_not_open_is_answered(house: House) -> None:
    """The sink may have started again since; it opens nothing for it."""
    for run in ("r1", "r9", "../r1"):
        assert house.asker().ask(CloseRun(run=run), RunClosed) == RunClosed(run=run)
    assert not folder(house, "r1").lock.exists()


def test_a_run_that_ended_is_closed_when_nobody_speaks_of_it(house: House) -> None:
    """One that goes on stays open for as long as its broker is away; one that ended, while it is spoken of."""
    asker = house.asker()
    for run in ("r1", "r2"):
        asker.row(draft(run=run))
    folder(house, "r1").write_end("finished", "", "2030-01-01T00:00:00Z")
    house.clock.now += QUIET_S - 1
    asker.ask(FeedAsk(run="r1", after=0), Feed)
    house.clock.now += QUIET_S - 1
    house.runs.close_quiet()
    assert is_locked(folder(house, "r1"))
    house.clock.now += 1
    house.runs.close_quiet()
    assert not is_locked(folder(house, "r1"))
    assert is_locked(folder(house, "r2"))


def test_fifty_open_runs_are_served(tmp_path: Path) -> None:
    """With few descriptors for each."""
    names = [f"run-{n}" for n in range(50)]
    with sink_of_a_service(tmp_path, *names) as house:
        asker = house.asker()
        asker.ask(FeedAsk(run=names[0], after=0), Feed)
        before = open_fds()
        for name in names:
            assert isinstance(asker.row(draft(run=name)), RowStored)
        assert open_fds() <= before + FDS_OF_A_RUN * (len(names) - 1)
        for name in names:
            assert asker.ask(FeedAsk(run=name, after=0), Feed).last == 1


def test_a_damaged_run_holds_up_no_other(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """It is refused, and may come again when a person has looked at it."""
    run, asker = folder(house, "r1"), house.asker()
    run.rollouts.write_bytes(b"x\n{}\n")
    for _ in range(2):
        refused = asker.row(draft(run="r1"))
        assert isinstance(refused, Refused)
        assert refused.again
        assert "rollouts.jsonl is damaged: its line 1 is no JSON object" in refused.reason
    assert caplog.text.count("is damaged") == 1
    assert isinstance(asker.row(draft(run="r2")), RowStored)
    run.rollouts.write_bytes(b"")
    assert isinstance(asker.row(draft(run="r1")), RowStored)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", b"{}", "run.json"),
        ("run.json", None, "holds run 'r2': give the folder that name"),
        ("tasks.jsonl", b"{}\n", "tasks.jsonl, line 1: task_id is missing"),
        ("images", b"a file", "File exists"),
    ],
)
def test_a_folder_that_cannot_be_opened_is_refused(house: House, name: str, content: bytes | None, said: str) -> None:
    """Whatever is wrong with it, it is said in a sentence, the sink stays up, and no descriptor is lost."""
    asker = house.asker()
    asker.ask(CloseRun(run="r1"), RunClosed)
    before = open_fds()
    (folder(house, "r1").root / name).write_bytes(content or folder(house, "r2").run_file.read_bytes())
    refused = asker.row(draft(run="r1"))
    assert isinstance(refused, Refused)
    assert refused.again
    assert said in refused.reason
    assert open_fds() == before


def test_a_disk_that_is_full_for_one_run_is_no_trouble_of_another(house: House) -> None:
    """Each feed tells its own run's."""
    asker = house.asker()
    asker.row(draft(run="r2"))
    with device(house.runs.get("r1").store.rows.fileno(), "/dev/full"):
        refused = asker.row(draft(run="r1"))
    assert isinstance(refused, Refused)
    assert "(No space left on device): make space there; nothing acknowledged is lost" in refused.reason
    assert asker.ask(FeedAsk(run="r2", after=0), Feed).trouble == ""
    assert isinstance(asker.row(draft(run="r2", attempt=1)), RowStored)
    assert asker.ask(FeedAsk(run="r1", after=0), Feed).trouble == "", "the folder has space again: tried and found"
    assert isinstance(asker.row(draft(run="r1")), RowStored)


def test_a_second_sink_of_a_service_is_refused(house: House, tmp_path: Path) -> None:
    """Its root is locked while no run is open yet."""
    with pytest.raises(ConfigError, match=f"{house.root.root} is locked by another sink"):
        Runs(house.root, house.service, house.clock)
    house.restart()


def test_a_run_that_is_submitted_later_is_served(house: House) -> None:
    """Its folder was not there when the sink began."""
    asker = house.asker()
    assert isinstance(asker.row(draft(run="r3")), Refused)
    make_run(house.root.runs / "r3", house.service.sockets, "r3")
    assert isinstance(asker.row(draft(run="r3")), RowStored)
    assert json.loads(folder(house, "r3").rollouts.read_bytes())["run_id"] == "r3"


def test_a_sink_leaves_when_its_service_has_ended(house: House) -> None:
    """Told so by the broker once every run is closed; with one open it is refused, since somebody still stores there."""
    asker, leave = house.asker(), Leave(reason="the service was shut down")
    asker.ask(FeedAsk(run="r1", after=0), Feed)
    asker.ask(leave, Refused)
    assert not house.sink.left
    asker.ask(CloseRun(run="r1"), RunClosed)
    asker.client.send(leave)
    asker.hear(0.2)
    assert house.sink.left
