"""Who is believed what? A message that is good on one socket, sent on another; texts that no file can hold."""

from __future__ import annotations

import msgpack
import pytest
from broker_scene import scene
from proxy_scene import proxy_before

from legato_rl.frames import WIRE_VERSION, Message
from legato_rl.records import FeedRow, Outcome, RolloutKey, Status
from legato_rl.wire import Feed, PolicyName, ProxyOrder, Refused, RowStored, RunClosed, RunPolicy

ROW = FeedRow(
    n=1, key=RolloutKey(run="r1", group="g0", attempt=0, try_=0), outcome=Outcome.GRADED, status=Status.OK, reward=1.0
)


@pytest.mark.parametrize(
    "message",
    [
        Feed(run="r1", rows=[ROW], last=1),
        RowStored(row=ROW, duplicate=False),
        RunClosed(run="r1"),
        Refused(about="a", reason="b"),
    ],
)
def test_a_worker_is_not_believed_what_the_sink_says(message: Message) -> None:
    """A forged row would count as a reward."""
    with scene() as run:
        run.loaded()
        worker = run.client("w0")
        worker.send(message)
        assert "the broker takes no" in run.hear(worker, Refused).reason
        assert (run.run.feed_last, run.run.attempts_ended) == (0, 0)


def test_a_worker_is_not_obeyed_as_the_broker_is() -> None:
    """It would have the proxy leave, or call whom it likes; it may know the proxy's boot."""
    with proxy_before("http://127.0.0.1:9/v1") as here:
        worker = here.worker()
        boot = here.beat(lambda beat: True).boot
        policies = [RunPolicy(run="r", names=[PolicyName(model="evil", version="v")], step_timeout=1.0, retries=0)]
        worker.socket.send(ProxyOrder(boot=boot, number=99, policies=policies, leave=True))
        assert worker.hear(Refused).about == "ProxyOrder"
        assert here.beat(lambda beat: True).order != 99


@pytest.mark.parametrize("field", ["version", "model", "run"])
def test_a_text_that_no_file_can_hold_is_refused(field: str) -> None:
    """It would be kept in memory, and no later ask could be written to state.json."""
    with scene() as run:
        run.loaded()
        body = msgpack.packb({"id": "bad", "when": "new", field: "\ud800"}, unicode_errors="surrogatepass")
        run.control.raw.send_multipart([WIRE_VERSION, b"PolicyAsk", body])
        assert field in run.hear(run.control, Refused).reason
        assert "\ud800" not in run.core.policies.current("r1").version
