"""What is an example of each message? One of every kind, with its optional parts; their bytes are in unit/golden_wire.json."""

from __future__ import annotations

import json
from pathlib import Path

from legato_rl.frames import Message, encode
from legato_rl.records import FeedRow, ModelUse, Outcome, PromptRecord, RolloutKey, Status, StepResponse
from legato_rl.wire import (
    Accepted,
    Assignment,
    Beat,
    BlobName,
    BlobsNeeded,
    BlobsStored,
    CallAsk,
    CallCancel,
    CallFailed,
    CallGone,
    CallId,
    CallNeeds,
    CallPending,
    CallReply,
    CancelAsk,
    CloseRun,
    DesktopEvent,
    DesktopEventStored,
    DesktopOut,
    DesktopsAsk,
    DrainAsk,
    Event,
    Events,
    EventsAsk,
    Feed,
    FeedAsk,
    GroupCounts,
    Holding,
    InflightAsk,
    Leave,
    Order,
    PauseAsk,
    PolicyAsk,
    PolicyName,
    ProxyBeat,
    ProxyOrder,
    PutBlobs,
    PutDesktopEvent,
    PutRow,
    Refused,
    ResumeAsk,
    RowStored,
    RunBrief,
    RunClosed,
    RunPolicy,
    RunStatus,
    RunWithoutModel,
    ShutdownAsk,
    StatusAsk,
    StopAsk,
    Submit,
    Submitted,
)

GOLDEN = Path(__file__).with_name("unit") / "golden_wire.json"
KEY = RolloutKey(run="r1", group="g1", attempt=2, try_=1)
AT = "2030-01-01T00:00:00.000Z"
CALL = CallId(rollout=KEY.rollout_id, lease=7, step=3, digest="d" * 64)
HOLDING = Holding(key=KEY, lease=7, phase="policy", step=3)
ASSIGNMENT = Assignment(
    key=KEY,
    task_id="t1",
    domain="os",
    task={"id": "t1", "instruction": "Öffne"},
    max_steps=15,
    meta={"k": [1, None]},
    settings={"group": 4},
    today="Tuesday, January 01, 2030",
    policy=1,
)
ROW = FeedRow(n=9, key=KEY, outcome=Outcome.GRADED, status=Status.OK, reward=0.5, versions=["step-41"])
RESPONSE = StepResponse(
    content="a\ud800b", reasoning=None, token_ids=[1, 2], logprobs=[-0.5, -1.25], tokens=None, finish_reason="stop"
)
PROMPT = PromptRecord(keep=4, add=[5, 6], images=[(3, 70, "a" * 64)], sha256="b" * 64)
USE = ModelUse(
    seconds=1.5,
    queued_s=0.25,
    attempts=1,
    prompt_tokens=90,
    completion_tokens=2,
    cached_tokens=None,
    version="step-41",
    server_version=None,
)
BLOB = BlobName(sha256="a" * 64, size=5, type="image")
COUNTS = GroupCounts(total=2, closed=1, short=0, open=1)
POLICY = RunPolicy(run="r1", names=[PolicyName(model="m", version="step-41")], step_timeout=60.0, retries=1)
CLOSED = Event(
    n=5,
    kind="group_closed",
    data={
        "group": "g1",
        "task": "t1",
        "asked": 2,
        "graded": 2,
        "usable": 2,
        "rewards": [1.0, 0.0],
        "advantages": [1.0, -1.0],
        "rollouts": ["r1:g1:0:0", "r1:g1:1:0"],
        "versions": ["step-41"],
    },
)
EXAMPLES: list[Message] = [
    Refused(about="PutRow", reason="the disk is full"),
    Beat(
        worker="w1",
        boot="b1",
        ready=False,
        phase="policy",
        holds=HOLDING,
        stored=KEY,
        built=1,
        build_failures=0,
        dropped=KEY,
        started=812.5,
    ),
    Order(boot="b1", assign=ASSIGNMENT, held=KEY, stop="group_closed", rebuild=2),
    ProxyBeat(
        boot="b2",
        state="down",
        queued=3,
        running=0,
        down_s=4.5,
        message="connection refused",
        without_model=[RunWithoutModel(run="r2", message="model 'x': the server does not know the model")],
    ),
    ProxyOrder(boot="b2", number=2, url="http://127.0.0.1:8000/v1", policies=[POLICY], max_inflight=8, pause="wait"),
    CallAsk(
        call=CALL,
        messages=["c" * 64],
        params={"top_p": 0.9, "stop": None},
        deadline_s=None,
        blobs=[BLOB],
        policy=1,
        previous="f" * 64,
    ),
    CallPending(call=CALL, state="queued", queued_s=1.0, running_s=0.0, down_s=0.0, paused_s=0.0, taken="ab-1"),
    CallNeeds(call=CALL, hashes=["c" * 64]),
    CallReply(call=CALL, response=RESPONSE, params={"n": 1}, body_sha256="e" * 64, prompt=PROMPT, model=USE, stood_s=0.25),
    CallFailed(call=CALL, type="timeout", message="no answer in 60 s", queued_s=0.5),
    CallCancel(call=CALL),
    CallGone(call=CALL),
    PutBlobs(run="r1", blobs=[BLOB]),
    BlobsStored(hashes=["a" * 64]),
    PutRow(row={"run_id": "r1", "steps": [], "text": "\udcff"}),
    RowStored(row=ROW, duplicate=False),
    BlobsNeeded(key=KEY, hashes=["a" * 64]),
    FeedAsk(run="r1", after=8, events_after=1),
    Feed(
        run="r1",
        rows=[ROW],
        last=9,
        events=[DesktopEvent(n=2, after=8, desktop="d1", event="out", at=AT, reason="3 rebuilds failed")],
        events_last=2,
        free_mb=1200,
    ),
    CloseRun(run="r1"),
    RunClosed(run="r1"),
    Leave(reason="the service was shut down"),
    PutDesktopEvent(run="r1", id="e1", desktop="d1", event="out", at=AT, reason="3 rebuilds failed"),
    DesktopEventStored(run="r1", id="e1"),
    Submit(
        id="q1",
        tasks=[{"task_id": "t1", "config": {"instruction": "Öffne", "evaluator": {"func": "exact_match"}}}],
        settings={"group": 2, "policy": {"version": "step-41"}},
        name="r1",
        priority=1,
    ),
    Submitted(id="q1", run="r1", folder="/srv/legato/runs/r1"),
    Accepted(id="q2"),
    StatusAsk(id="q3", run="r1"),
    RunStatus(
        id="q3",
        run="r1",
        state="running",
        reason="",
        groups=COUNTS,
        rows={"ok": 4},
        attempts_total=10,
        attempts_ended=5,
        desktops={"policy": 3, "out": 1},
        policy="up",
        policy_message="",
        sink_message="",
        queued=0,
        running=3,
        version="step-41",
        model="m",
        url="http://127.0.0.1:8000/v1",
        events=5,
        runs=[RunBrief(run="r1", state="running", priority=1, version="step-41", groups=COUNTS)],
    ),
    StopAsk(id="q4", reason="Ctrl-C", run="r1"),
    CancelAsk(id="q5", run="r1", group="g1", attempt=2),
    PauseAsk(id="q6", mode="abort"),
    ResumeAsk(id="q7"),
    PolicyAsk(id="q8", version="step-42"),
    DrainAsk(id="q9"),
    InflightAsk(id="q10", max_inflight=8),
    DesktopsAsk(id="q11", change=-1),
    ShutdownAsk(id="q12"),
    DesktopOut(id="q13", desktop="d1", reason="exited 4 times"),
    EventsAsk(id="q14", run="r1", after=4, wait_s=30.0),
    Events(id="q14", run="r1", events=[CLOSED], last=5),
]
"""One of each message, with its optional parts."""


def golden_text() -> str:
    """The table of bodies as it is stored: kind to hexadecimal; docs/protocol.md is made of it."""
    return json.dumps({message.kind.decode(): encode(message)[2].hex() for message in EXAMPLES}, indent=1) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8")
