"""Does the control client ask until it is answered, and say what went wrong? A scripted broker on a real socket."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_scene import run_file

from legato_rl.control import ANSWER_S, ASK_AGAIN_S, ControlClient
from legato_rl.endpoints import address
from legato_rl.errors import ConfigError, ControlError, NoAnswer
from legato_rl.frames import Message
from legato_rl.rundir import RunDir
from legato_rl.sockets import Bell, Context, wait
from legato_rl.wire import (
    Accepted,
    CancelAsk,
    DesktopOut,
    DesktopsAsk,
    DrainAsk,
    Event,
    Events,
    EventsAsk,
    GroupCounts,
    InflightAsk,
    PauseAsk,
    PolicyAsk,
    Refused,
    ResumeAsk,
    RunStatus,
    ShutdownAsk,
    StatusAsk,
    StopAsk,
    Submitted,
)

Script = Callable[[Any], list[Message]]


class Broker:
    """Answers each ask with what `script` makes of it, and keeps what was asked."""

    def __init__(self, sockets: Path) -> None:
        self.asked: list[Any] = []
        self.script: Script = lambda ask: [Accepted(id=ask.id)]
        self._sockets = sockets
        self._closing = False
        self._bell = Bell()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait(60.0)

    def _run(self) -> None:
        with Context() as context, context.server("control", address(self._sockets, "control")) as control:
            self._ready.set()
            while not self._closing:
                wait([control, self._bell], 60.0)
                for received in control.receive():
                    self.asked.append(received.message)
                    for answer in self.script(received.message):
                        control.send(received.peer, answer)

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._bell.ring()
        self._thread.join()
        self._bell.close()


def status(id_: str, **changes: Any) -> RunStatus:
    """Where a run stands."""
    fields: dict[str, Any] = {
        "run": "r1",
        "state": "running",
        "reason": "",
        "groups": GroupCounts(total=1, closed=0, short=0, open=1),
        "rows": {},
        "attempts_total": 4,
        "attempts_ended": 0,
        "desktops": {},
        "policy": "up",
        "policy_message": "",
        "sink_message": "",
        "queued": 0,
        "running": 0,
    }
    return RunStatus(id=id_, **(fields | changes))


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder of a short name."""
    with tempfile.TemporaryDirectory(prefix="lr-") as folder:
        yield Path(folder)


@pytest.fixture
def broker(sockets: Path) -> Iterator[Broker]:
    """A broker that accepts everything."""
    broker = Broker(sockets)
    yield broker
    broker.close()


@pytest.fixture
def client(sockets: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlClient]:
    """A client of it, which does not take a busy machine for silence."""
    monkeypatch.setattr("legato_rl.control.ASK_AGAIN_S", ANSWER_S)
    with ControlClient(sockets) as client:
        yield client


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        (lambda c: c.resume(), ResumeAsk(id="x")),
        (lambda c: c.drain(), DrainAsk(id="x")),
        (lambda c: c.set_max_inflight(8), InflightAsk(id="x", max_inflight=8)),
        (lambda c: c.set_max_inflight(None), InflightAsk(id="x", max_inflight=None)),
        (lambda c: c.add_desktops(2), DesktopsAsk(id="x", change=2)),
        (lambda c: c.remove_desktops(2), DesktopsAsk(id="x", change=-2)),
        (lambda c: c.shutdown(), ShutdownAsk(id="x")),
        (lambda c: c.cancel("r1", group="g1", attempt=0), CancelAsk(id="x", run="r1", group="g1", attempt=0)),
        (lambda c: c.cancel(task="t1"), CancelAsk(id="x", task="t1")),
        (lambda c: c.set_policy(version="v2"), PolicyAsk(id="x", run="*", version="v2", when="paused")),
        (lambda c: c.set_policy("m", run="r1", when="new"), PolicyAsk(id="x", run="r1", model="m", when="new")),
    ],
)
def test_what_is_asked(broker: Broker, client: ControlClient, call: Callable[[ControlClient], None], ask: Any) -> None:
    """Each method sends its message, and returns when that is accepted."""
    call(client)
    (asked,) = broker.asked
    assert asked.model_copy(update={"id": "x"}) == ask
    assert len(asked.id) >= 16


def test_a_submitted_run(broker: Broker, client: ControlClient) -> None:
    """Its id and folder; tasks and settings arrive as they are; a stopped one goes on by its name."""
    broker.script = lambda ask: [Submitted(id=ask.id, run=ask.name or "r7", folder="/runs/r7")]
    task = {"task_id": "t1", "config": {"instruction": "Öffne"}}
    assert client.submit([task], {"group": 2, "policy": {"version": "v2"}}, priority=3) == ("r7", Path("/runs/r7"))
    assert client.resume_run("r7", retry_errors=True) == Path("/runs/r7")
    first, second = broker.asked
    assert (first.tasks, first.settings, first.name, first.priority) == (
        [task], {"group": 2, "policy": {"version": "v2"}}, "", 3
    )  # fmt: skip
    assert (second.name, second.resume, second.retry_errors) == ("r7", True, True)


def test_events_stop_and_out(broker: Broker, client: ControlClient) -> None:
    """They are answered by what they are about."""
    event = Event(n=3, kind="run_finished", data={})

    def script(ask: Any) -> list[Message]:
        match ask:
            case EventsAsk():
                return [Events(id=ask.id, run="r1", events=[event], last=3)]
            case StopAsk() | DesktopOut() | StatusAsk():
                return [status(ask.id, state="stopping")]
        return []

    broker.script = script
    assert client.events(2, wait_s=5.0, run="r1", limit=7).events == [event]
    for answer in (client.stop("enough", "r1"), client.desktop_out("w1", "gone"), client.status("r1")):
        assert answer is not None
        assert answer.state == "stopping"
    assert [type(ask) for ask in broker.asked] == [EventsAsk, StopAsk, DesktopOut, StatusAsk]
    assert (broker.asked[0].after, broker.asked[0].wait_s, broker.asked[0].limit) == (2, 5.0, 7)


def test_a_question_is_asked_again_until_answered(
    broker: Broker, client: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its id; an answer to something else, and a refusal of something else, are passed over."""
    monkeypatch.setattr("legato_rl.control.ASK_AGAIN_S", ASK_AGAIN_S)

    def script(ask: Any) -> list[Message]:
        strange = [Accepted(id="another"), Refused(about="ResumeAsk", of="another", reason="no")]
        return [*strange, *([Accepted(id=ask.id)] if len(broker.asked) >= 3 else [])]

    broker.script = script
    client.resume()
    assert len({ask.id for ask in broker.asked}) == 1
    assert len(broker.asked) >= 3


@pytest.mark.parametrize("known", [True, False])
def test_a_refusal_is_an_error(broker: Broker, client: ControlClient, known: bool) -> None:
    """With the broker's sentence; also of a message that it could not even read."""
    broker.script = lambda ask: [Refused(about="ResumeAsk", of=ask.id if known else "", reason="it is not paused")]
    with pytest.raises(ControlError, match=r"^it is not paused$"):
        client.resume()


def test_what_is_refused_for_now_is_asked_again(broker: Broker, client: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may have space later."""
    monkeypatch.setattr("legato_rl.control.ASK_AGAIN_S", ASK_AGAIN_S)
    broker.script = lambda ask: [
        Refused(about="Submit", of=ask.id, reason="the disk is full", again=True)
        if len(broker.asked) < 2
        else Submitted(id=ask.id, run="r1", folder="/r1")
    ]
    assert client.submit([], {}) == ("r1", Path("/r1"))


def test_what_is_refused_for_now_until_the_end(broker: Broker, client: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not done; where what was asked last is not answered, that is not said."""
    broker.script = lambda ask: [Refused(about="ShutdownAsk", of=ask.id, reason="the disk is full", again=True)]
    with pytest.raises(ControlError, match=r"^the disk is full$") as refused:
        client.shutdown(wait_s=3.0)
    assert not isinstance(refused.value, NoAnswer)
    broker.asked.clear()
    monkeypatch.setattr("legato_rl.control.ASK_AGAIN_S", 3.0)
    broker.script = lambda ask: (
        [Refused(about="ShutdownAsk", of=ask.id, reason="full", again=True)] if len(broker.asked) < 2 else []
    )
    with pytest.raises(NoAnswer, match=r"^full; what it was asked then is not answered, and may be done yet$"):
        client.shutdown(wait_s=5.0)


def test_nobody_answers(sockets: Path, tmp_path: Path) -> None:
    """Status is None, everything else a sentence that says where nobody is. What else is up is waited for, as ever."""
    RunDir(tmp_path).write_run(run_file(sockets))
    with Context() as context, context.server("rows", address(sockets, "rows")), ControlClient(tmp_path) as client:
        assert client.status(wait_s=0.1) is None
        assert client.stop("enough", wait_s=0.1) is None
        with pytest.raises(
            NoAnswer, match=r"nobody answered a EventsAsk at ipc://.*/control within 0.1 s: is the service up\?"
        ):
            client.events(answer_s=0.1)


def test_a_pause_lasts_until_calls_stand_still(broker: Broker, client: ControlClient) -> None:
    """Not before the proxy says paused, and none is running."""
    looks = iter([{"policy": "up", "running": 3}, {"policy": "paused", "running": 1}, {"policy": "paused", "running": 0}])
    broker.script = lambda ask: [Accepted(id=ask.id)] if isinstance(ask, PauseAsk) else [status(ask.id, **next(looks))]
    assert client.pause("wait").running == 0
    assert broker.asked[0].mode == "wait"
    assert list(looks) == []


def test_a_pause_that_takes_too_long(broker: Broker, client: ControlClient) -> None:
    """Says what still runs."""
    broker.script = lambda ask: [Accepted(id=ask.id)] if isinstance(ask, PauseAsk) else [status(ask.id, running=2)]
    said = r"the pause holds, but calls do not stand still after 0.3 s \(2 calls run, the policy is up\)"
    with pytest.raises(NoAnswer, match=said):
        client.pause(wait_s=0.3)


def test_a_run_folder_names_its_sockets(sockets: Path, broker: Broker, tmp_path: Path) -> None:
    """A client of a run that collect started connects to what its run.json names."""
    RunDir(tmp_path).write_run(run_file(sockets))
    with ControlClient(tmp_path) as client:
        client.resume()
    assert [type(ask) for ask in broker.asked] == [ResumeAsk]


def test_a_place_that_is_none() -> None:
    """Told at once."""
    with pytest.raises(ConfigError, match="it must be tcp://HOST:PORT"):
        ControlClient("tcp://nowhere")
    with pytest.raises(ConfigError, match="keys is missing"):
        ControlClient("tcp://127.0.0.1:5555")
