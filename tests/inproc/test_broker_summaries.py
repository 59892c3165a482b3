"""Has every run of a service that ended its summary, whatever became of the broker, and of the disk? Real files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from control_scene import Service, service
from driven_clock import DrivenClock
from held_up import held_up

from legato_rl.broker.closing import Closing
from legato_rl.broker.summaries import AGAIN_S, Summaries, without_summary
from legato_rl.export.profile import profile_run, write_summary
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir
from legato_rl.wire import RunClosed, StopAsk

LONG_AGO = 10**18


@pytest.fixture
def one(tmp_path: Path) -> Service:
    """A service with the run `r`."""
    broker = Service(tmp_path)
    broker.submit(name="r")
    return broker


def folder(one: Service, name: str = "r") -> RunDir:
    """A run's folder."""
    return RunDir(one.root / "runs" / name)


def closing(one: Service) -> Closing:
    """What is left to do, as a broker that starts finds it."""
    return Closing(one.core, ServiceDir(one.root), service(one.root), one.control.told, DrivenClock())


def written(summaries: Summaries) -> None:
    """Wait until all that is due was written; no test here has more than a few."""
    for _ in range(5):
        summaries.step()
        summaries.finish()


def stored(run: RunDir) -> dict[str, object]:
    """`summary.json`."""
    summary: dict[str, object] = json.loads(run.summary.read_bytes())
    return summary


def test_what_a_broker_that_died_left_is_written_by_the_next(one: Service) -> None:
    """Where it is missing, and where it is of an earlier end; what is right is not touched, nor what goes on."""
    for name in ("stale", "right", "bare"):
        one.submit(id_=name, name=name)
    for name in ("r", "stale", "right", "bare"):
        folder(one, name).write_end("finished", "", "now")
    for name in ("stale", "right"):
        folder(one, name).summary.write_text("{}")
    os.utime(folder(one, "stale").summary, ns=(LONG_AGO, LONG_AGO))
    folder(one, "bare").run_file.unlink()
    one.submit(id_="on", name="on")
    assert without_summary(one.root / "runs") == [folder(one), folder(one, "stale")]
    left = closing(one).summaries
    written(left)
    for name in ("r", "stale"):
        assert stored(folder(one, name)) == json.loads(json.dumps(profile_run(folder(one, name).root)))
    assert stored(folder(one, "right")) == {}
    assert not folder(one, "on").summary.exists()
    assert without_summary(one.root / "runs") == []


def test_a_run_of_its_own_is_summed_up_by_its_collect(tmp_path: Path) -> None:
    """The broker looks at no folder below it."""
    one = Service(tmp_path)
    one.submit(name="r")
    folder(one).write_end("finished", "", "now")
    own = service(one.root).model_copy(update={"once": "r"})
    left = Closing(one.core, ServiceDir(one.root), own, one.control.told, DrivenClock()).summaries
    written(left)
    assert not folder(one).summary.exists()


def test_a_run_that_ends_is_summed_up(one: Service) -> None:
    """Once the sink has closed it; the service has not ended before."""
    one.load("r")
    one.ask(StopAsk(id="s", reason="enough"))
    one.core.tick(0.0)
    desk = closing(one)
    assert [ask.run for ask in desk.due()] == ["r"]
    desk.done(RunClosed(run="r").run)
    written(desk.summaries)
    assert desk.all_done
    assert stored(folder(one))["end"] == folder(one).load_end()


def test_a_full_disk_is_tried_again(one: Service, caplog: pytest.LogCaptureFixture) -> None:
    """After a while, until there is room; that is said once, and no shutdown waits for it."""
    run, clock = folder(one), DrivenClock()
    run.write_end("finished", "", "now")
    run.summary.mkdir()
    summaries = Summaries(clock)
    summaries.add(run)
    for _ in range(3):
        written(summaries)
        assert summaries.settled
        clock.now += AGAIN_S
    assert caplog.text.count("it is tried again") == 1
    run.summary.rmdir()
    clock.now -= 1.0
    written(summaries)
    assert not run.summary.exists()
    clock.now += 1.0
    written(summaries)
    assert stored(run)["run_id"] == "r"


def test_a_shutdown_waits_for_no_summary_that_an_earlier_broker_left(one: Service) -> None:
    """Once the runs that ended now are summed up it is over, and begins none of the others."""
    for name in ("old", "older"):
        one.submit(id_=name, name=name)
    for name in ("r", "old", "older"):
        folder(one, name).write_end("finished", "", "now")
    summaries = Summaries(DrivenClock(), [folder(one, "old"), folder(one, "older")])
    assert summaries.settled
    with held_up(folder(one).tasks):
        summaries.add(folder(one))
        assert not summaries.settled
    assert summaries.settled
    assert stored(folder(one))["run_id"] == "r"
    assert without_summary(one.root / "runs") == [folder(one, "old"), folder(one, "older")]


def test_a_shutdown_waits_for_a_run_that_ended_behind_a_summary_that_was_left(one: Service) -> None:
    """One is written at a time: the run that ended now is the next, whatever else was left."""
    for name in ("old", "older"):
        one.submit(id_=name, name=name)
    for name in ("r", "old", "older"):
        folder(one, name).write_end("finished", "", "now")
    summaries = Summaries(DrivenClock(), [folder(one, "old"), folder(one, "older")])
    with held_up(folder(one, "old").tasks):
        summaries.step()
        assert summaries.settled
        summaries.add(folder(one))
        assert not summaries.settled
    with held_up(folder(one).tasks):
        assert not summaries.settled
    assert summaries.settled
    assert without_summary(one.root / "runs") == [folder(one, "older")]


def test_a_try_that_falls_due_again_holds_up_no_shutdown_that_has_begun(one: Service) -> None:
    """A service that tells everybody to leave is still looked after: what is due is begun, and not waited for."""
    run, clock = folder(one), DrivenClock()
    run.write_end("finished", "", "now")
    run.summary.mkdir()
    summaries = Summaries(clock)
    summaries.add(run)
    summaries.finish()
    assert summaries.settled
    run.summary.rmdir()
    clock.now += AGAIN_S
    with held_up(run.tasks):
        summaries.step()
        assert summaries.settled
    summaries.finish()
    assert stored(run)["run_id"] == "r"


def test_a_run_that_goes_on_while_it_is_summed_up_has_no_summary(one: Service) -> None:
    """Its next end is summed up."""
    run = folder(one)
    run.write_end("stopped", "enough", "now")
    summaries = Summaries(DrivenClock())
    with held_up(run.tasks):
        summaries.add(run)
        run.forget_end()
    summaries.finish()
    assert not run.summary.exists()
    run.write_end("finished", "", "later")
    summaries.add(run)
    written(summaries)
    assert stored(run)["end"] == run.load_end()


def test_a_run_that_goes_on_meanwhile_is_left_alone(one: Service) -> None:
    """It is summed up at its next end."""
    run, clock = folder(one), DrivenClock()
    run.write_end("stopped", "enough", "now")
    summaries = Summaries(clock, [run])
    run.end.unlink()
    written(summaries)
    assert not run.summary.exists()
    run.write_end("finished", "", "now")
    summaries.add(run)
    written(summaries)
    assert stored(run)["end"] == run.load_end()


def test_a_damaged_run_keeps_no_other_from_its_summary(one: Service, caplog: pytest.LogCaptureFixture) -> None:
    """It is said in the log, and not tried again."""
    one.submit(id_="torn", name="torn")
    for name in ("r", "torn"):
        folder(one, name).write_end("finished", "", "now")
    folder(one, "torn").run_file.write_text("{")
    clock = DrivenClock()
    summaries = Summaries(clock, [folder(one, "torn"), folder(one)])
    written(summaries)
    clock.now += AGAIN_S
    written(summaries)
    assert (folder(one).summary.exists(), folder(one, "torn").summary.exists()) == (True, False)
    assert caplog.text.count("cannot be written") == 1


def test_what_is_right_is_recognised_after_it_was_written(one: Service) -> None:
    """A summary is written after the end that it tells."""
    folder(one).write_end("finished", "", "now")
    write_summary(folder(one).root)
    assert without_summary(one.root / "runs") == []
