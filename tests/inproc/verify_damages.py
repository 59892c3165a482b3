"""Every kind of damage that can be done to a true run folder, and under which code it must be found in which place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from true_folder import (
    G0,
    G1,
    G1_RETRIED,
    G2_CANCELLED,
    H1,
    H2_SURPLUS,
    I0_ERROR,
    I2_ERROR,
    J0,
    J2_SKIPPED,
)

from legato_rl.canonical import canonical_json, sha256_hex
from legato_rl.rundir import RunDir

KEY = 'sk-"0123456789'
"""A key that JSON writes in another way than it is."""

Damage = Callable[[RunDir], Any]
Change = Callable[[dict[str, Any]], Any]
CASES: list[tuple[str, Damage, dict[str, str]]] = []
"""Damages to the eventful folder: (name, damage, {code: where}); a `where` that ends in * is a beginning."""


# --- ways to damage --------------------------------------------------------------------------------------------------


def lines(run: RunDir, change: Callable[[list[bytes]], Any]) -> None:
    """Change the list of lines of rollouts.jsonl."""
    rows = run.rollouts.read_bytes().splitlines(keepends=True)
    change(rows)
    run.rollouts.write_bytes(b"".join(rows))


def row(line: int, change: Change) -> Damage:
    """Change one row's JSON."""

    def damage(run: RunDir) -> None:
        def edit(rows: list[bytes]) -> None:
            value = json.loads(rows[line - 1])
            change(value)
            rows[line - 1] = json.dumps(value).encode() + b"\n"

        lines(run, edit)

    return damage


def step(index: int, change: Change, line: int = G0) -> Damage:
    """Change one step of a row."""
    return row(line, lambda value: change(value["steps"][index]))


def file(name: str, change: Change, line: int = 0) -> Damage:
    """Change a file of JSON, or one line of such."""

    def damage(run: RunDir) -> None:
        path = run.root / name
        texts = path.read_text().splitlines(keepends=True) if line else [path.read_text()]
        value = json.loads(texts[line - 1])
        change(value)
        texts[line - 1] = json.dumps(value) + "\n"
        path.write_text("".join(texts))

    return damage


def text(name: str, change: Callable[[str], str]) -> Damage:
    """Change a file's text."""

    def damage(run: RunDir) -> None:
        path = run.root / name
        path.write_text(change(path.read_text() if path.exists() else ""))

    return damage


def named(run: RunDir, kind: str) -> Path:
    """A message or an image that a prompt names."""
    value = json.loads(run.rollouts.read_bytes().splitlines()[0])
    request = value["steps"][0]["request"]
    return run.message(request["messages"][0]) if kind == "message" else run.image(request["prompt"]["images"][0][2])


def stored(folder: str, data: bytes) -> Damage:
    """Put a file under its true hash into a folder of blobs."""
    suffix = "json" if folder == "messages" else "png"
    return lambda run: (run.root / folder / f"{sha256_hex(data)}.{suffix}").write_bytes(data)


def put(**fields: Any) -> Change:
    """Set fields."""
    return lambda value: value.update(fields)


def within(name: str, change: Change) -> Change:
    """Change the object in a field."""
    return lambda value: change(value[name])


def case(name: str, damage: Damage, **where: str) -> None:
    """One damage, and where each code of it is found."""
    CASES.append((name, damage, {code.replace("_", "-"): place for code, place in where.items()}))


# --- the damages -----------------------------------------------------------------------------------------------------

ROW = "rollouts.jsonl:{}".format
FIRST = ROW(G0)

case("run.json is cut", text("run.json", lambda t: t[:40]), run_file="run.json")
case("run.json is of another format", file("run.json", put(schema="legato.run/v9")), run_file="run.json")
case("run.json has an unknown field", file("run.json", put(colour=1)), run_file="run.json")
case("tasks.jsonl is missing", lambda run: run.tasks.unlink(), tasks_file="tasks.jsonl")
case("tasks.jsonl is cut", text("tasks.jsonl", lambda t: t[:-20]), tasks_file="tasks.jsonl")
case("tasks.jsonl has a group twice", text("tasks.jsonl", lambda t: t + t.splitlines()[0]), tasks_file="tasks.jsonl")
case("tasks.jsonl has a path for an id", file("tasks.jsonl", put(group_id="../g"), 1), tasks_file="tasks.jsonl")
case("end.json has another state", file("end.json", put(state="lost")), end_file="end.json")
case("end.json is cut", text("end.json", lambda t: t[:9]), end_file="end.json")
case("end.json has no time", file("end.json", put(at="noon")), end_file="end.json")
case("a desktop event twice", text("desktops.jsonl", lambda t: t + t), desktop_events="desktops.jsonl:*")
case("a desktop event with another's id", file("desktops.jsonl", put(id="1"), 2), desktop_events="desktops.jsonl:2")
case("a desktop event before its turn", file("desktops.jsonl", put(after=1), 2), desktop_events="desktops.jsonl:2")
case("a desktop event is lost", text("desktops.jsonl", lambda t: t.partition("\n")[2]), desktop_events="desktops.jsonl:1")
case("a desktop event of no kind", file("desktops.jsonl", put(event="hot"), 1), desktop_events="desktops.jsonl:1")
case("a desktop event without a desktop", file("desktops.jsonl", put(desktop=None), 1), desktop_events="desktops.jsonl:1")
case("a desktop event that is none", text("desktops.jsonl", lambda t: "[]\n" + t), desktop_events="desktops.jsonl")

case("a row is torn in the middle", lambda run: lines(run, lambda r: r.insert(1, r[1][:50] + b"\n")), row_form=ROW(2))
case("a row is a list", lambda run: lines(run, lambda r: r.insert(1, b"[]\n")), row_form=ROW(2))
case("a row is nested without end", lambda run: lines(run, lambda r: r.insert(1, b"[" * 10**5 + b"\n")), row_form=ROW(2))
case("a field is missing", row(H1, lambda v: v.pop("task_id")), row_form=ROW(H1))
case("a field that has a default is missing", row(H1, lambda v: v.pop("cancel_reason")), row_form=ROW(H1))
case("a field is unknown", row(H1, put(colour=1)), row_form=ROW(H1))
case("a number is text", row(H1, put(reward="0.25")), row_form=ROW(H1))
case("a field deep inside is missing", step(0, within("response", lambda v: v.pop("content"))), row_form=FIRST)
case("another schema", row(H1, put(schema="legato.rollout/v9")), row_form=ROW(H1))
case("an outcome that is none", row(H1, put(outcome="won")), row_form=ROW(H1))
case("a reward above 1", row(H1, put(reward=1.5)), row_form=ROW(H1))
case("a logprob is NaN", step(0, within("response", put(logprobs=[-0.5, float("nan")]))), row_form=FIRST)

case("another run's row", row(H1, put(run_id="s", rollout_id="s:h:1:0")), row_contradiction=ROW(H1))
case("a rollout id that is not the key's", row(H1, put(rollout_id="r:h:2:0")), row_contradiction=ROW(H1))
case("a group that the run has not", row(H1, put(group_id="x", rollout_id="r:x:1:0")), row_contradiction=ROW(H1))
case("another group's task", row(H1, put(task_id="task-g")), row_contradiction=ROW(H1))
case("an attempt too many", row(H1, put(attempt=3, rollout_id="r:h:3:0")), row_contradiction=ROW(H1))
case("a reward without a verdict", row(G2_CANCELLED, put(reward=1.0)), row_contradiction=ROW(G2_CANCELLED))
case("a verdict without a reward", row(H1, put(reward=None)), row_contradiction=ROW(H1))
case("a failure without an error", row(I2_ERROR, put(error=None)), row_contradiction=ROW(I2_ERROR))
case("a failure on the other side", row(I0_ERROR, within("error", put(kind="env"))), row_contradiction=ROW(I0_ERROR))
case("a reason to cancel that is none", row(G2_CANCELLED, put(cancel_reason="bored")), row_contradiction=ROW(G2_CANCELLED))
case(
    "a graded try with an error",
    row(H1, put(error={"kind": "env", "phase": "act", "type": "t", "message": "m"})),
    row_contradiction=ROW(H1),
)
case("a last screenshot that is no hash", row(H1, put(final_image="x")), row_contradiction=ROW(H1))
case("a step is lost", row(G0, lambda v: v["steps"].pop()), row_contradiction=FIRST)
case("a message that is no hash", step(0, within("request", put(messages=["../../x"]))), row_contradiction=FIRST)
case("meta of another task", row(H1, put(meta={"of": "g"})), row_contradiction=ROW(H1))
case("a domain that the task has not", row(H1, put(domain="chrome")), row_contradiction=ROW(H1))

case("a row twice", lambda run: lines(run, lambda r: r.append(r[0])), duplicate_key=ROW(15))
case(
    "a key twice, with other rows",
    lambda run: lines(run, lambda r: r.insert(2, r[0].replace(b"0.25", b"0.26"))),
    duplicate_key=ROW(3),
)
case("surplus told as ok", row(H2_SURPLUS, put(status="ok", usable=True)), row_status=ROW(H2_SURPLUS))
case("ok told as surplus", row(H1, put(status="surplus", usable=False)), row_status=ROW(H1))
case("usable is not as the status", row(H2_SURPLUS, put(usable=True)), row_status=ROW(H2_SURPLUS))
case(
    "a retried try told as error",
    row(G1_RETRIED, put(status="error")),
    row_status=ROW(G1_RETRIED),
    attempt_order=ROW(G1),
)
case("another reason to cancel", row(G2_CANCELLED, put(cancel_reason="asked")), row_status=ROW(G2_CANCELLED))
case("a skipped attempt told as error", row(J2_SKIPPED, put(status="error")), row_status=ROW(J2_SKIPPED))
case(
    "rows in another order",
    lambda run: lines(run, lambda r: r.__setitem__(slice(H1 - 1, H2_SURPLUS), [r[H2_SURPLUS - 1], r[H1 - 1]])),
    row_status=ROW("*"),
)
case("versions lack a step's", row(G0, within("policy", put(versions=["v1"]))), row_versions=FIRST)
case("version is not the first", row(G0, within("policy", put(version="v2"))), row_versions=FIRST)
case("phases are longer than the try", row(G0, within("timing", put(total_s=5.0))), row_timing=FIRST)
case("a negative phase", row(G0, within("timing", put(act_s=-0.5))), row_timing=FIRST)
case("model calls longer than their phase", row(G0, within("timing", put(model_s=5.0))), row_timing=FIRST)
case("a negative model call", step(0, within("model", put(seconds=-1.0))), row_timing=FIRST)
case("a time that is none", row(G0, put(started_at="yesterday")), row_timing=FIRST)
case("an earlier try is lost", lambda run: lines(run, lambda r: r.pop(G1_RETRIED - 1)), attempt_order=ROW(G1 - 1))
case(
    "an attempt goes on after its end",
    lambda run: lines(run, lambda r: r.append(r[I0_ERROR - 1].replace(b"r:i:0:0", b"r:i:0:1").replace(b'"try":0', b'"try":1'))),
    attempt_order=ROW(15),
)
case("the last row is lost", lambda run: lines(run, lambda r: r.pop()), end_unfinished="end.json")
case(
    "the last row is cut in a finished run", lambda run: lines(run, lambda r: r.append(r.pop()[:-9])), end_unfinished="end.json"
)
case("all rows are lost", lambda run: run.rollouts.unlink(), end_unfinished="end.json")

case("the body's hash", step(1, within("request", put(body_sha256="0" * 64))), step_body=f"{FIRST} step 1")
case("a param that was sent", step(1, lambda v: v["request"]["params"].update(seed=6)), step_body=f"{FIRST} step 1")
case("messages in another order", step(0, lambda v: v["request"]["messages"].reverse()), step_body=f"{FIRST} step 0")
case("an id of the prompt", step(1, lambda v: v["request"]["prompt"].update(add=[99, 8])), step_prompt=f"{FIRST} step 1")
case("the prompt's hash", step(0, lambda v: v["request"]["prompt"].update(sha256="0" * 64)), step_prompt=f"{FIRST} step 0")
case("the prompt's common part", step(2, lambda v: v["request"]["prompt"].update(keep=5)), step_prompt=f"{FIRST} step 2")
case("the prompt keeps too much", step(2, lambda v: v["request"]["prompt"].update(keep=500)), step_prompt=f"{FIRST} step 2")
case(
    "an image is longer",
    step(0, lambda v: v["request"]["prompt"]["images"][0].__setitem__(1, 5)),
    step_prompt=f"{FIRST} step 0",
)
case(
    "ids of other images",
    step(1, lambda v: v["request"]["prompt"]["images"][0].__setitem__(2, "0" * 64)),
    step_prompt=f"{FIRST} step 1",
)
case("an id of an answer", step(0, lambda v: v["response"]["token_ids"].__setitem__(0, 5)), step_prompt=f"{FIRST} step 1")
case("a logprob is lost", step(0, lambda v: v["response"]["logprobs"].pop()), step_ids=f"{FIRST} step 0")
case("an id is lost", step(0, lambda v: v["response"]["token_ids"].pop()), step_ids=f"{FIRST} step 0")
case("an id that is none", step(0, within("response", put(token_ids=[1, -1]))), step_ids=f"{FIRST} step 0")
case("a logprob that stands for none", step(0, within("response", put(logprobs=[-0.5, -9999.0]))), step_ids=f"{FIRST} step 0")
case("the server's count", step(0, within("model", put(completion_tokens=3))), step_ids=f"{FIRST} step 0")
case("tokens beside ids", step(0, within("response", put(tokens=["a", "b"]))), step_ids=f"{FIRST} step 0")
case("fewer tokens than logprobs", step(0, within("response", put(token_ids=None, tokens=["a"]))), step_ids=f"{FIRST} step 0")

case("a message is missing", lambda run: named(run, "message").unlink(), blob_missing="messages/*")
case("an image is missing", lambda run: named(run, "image").unlink(), blob_missing="images/*")
case("a last screenshot is missing", row(J0, put(final_image="0" * 64)), blob_missing=f"images/{'0' * 64}.png")
case("a message is changed", lambda run: named(run, "message").write_bytes(b"{}"), blob_hash="messages/*")
case(
    "an image is cut", lambda run: named(run, "image").write_bytes(named(run, "image").read_bytes()[:-9]), blob_hash="images/*"
)
case("an image is empty", lambda run: named(run, "image").write_bytes(b""), blob_hash="images/*")
case("a message that is not canonical", stored("messages", b'{"role": "user"}'), blob_message="messages/*")
case("a message that is no object", stored("messages", b"[]"), blob_message="messages/*")
case("a message that is no JSON", stored("messages", b"{"), blob_message="messages/*")
case(
    "a message with an image inside",
    stored("messages", canonical_json({"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}]})),
    blob_message="messages/*",
)
case("an image that is no PNG", stored("images", b"GIF89a"), blob_image="images/*")
case(
    "a PNG that was cut when it was stored",
    lambda run: stored("images", named(run, "image").read_bytes()[:-20])(run),
    blob_image="images/*",
)
case("a foreign file", text("images/notes.txt", lambda t: "hello"), blob_foreign="images/notes.txt")
case("a foreign folder", lambda run: (run.messages / f"{'0' * 64}.json").mkdir(), blob_foreign="messages/0*")
case("an image among messages", text(f"messages/{'0' * 64}.png", lambda t: "x"), blob_foreign="messages/0*")

case("the summary is missing", lambda run: run.summary.unlink(), summary_missing="summary.json")
case("the summary is cut", text("summary.json", lambda t: t[:-9]), summary_differs="summary.json")
case("a count of groups", file("summary.json", within("groups", put(closed=4))), summary_differs="summary.json")
case("a mean reward", file("summary.json", within("rewards", put(mean=0.9))), summary_differs="summary.json")
case("a notice is gone", file("summary.json", put(notices=[])), summary_differs="summary.json")
case("a number is gone", file("summary.json", lambda v: v.pop("hours")), summary_differs="summary.json")
case("a verdict is changed", row(H1, put(reward=0.75)), summary_differs="summary.json", export_differs="train.jsonl:*")
case("an advantage", file("train.jsonl", put(advantage=0.5), 2), export_differs="train.jsonl:1")
case("an exported id", file("train.jsonl", put(response_token_ids=[1, 2]), 1), export_differs="train.jsonl:1")
case("an exported step is lost", text("train.jsonl", lambda t: t.partition("\n")[2]), export_differs="train.jsonl:1")
case("an exported rollout twice", text("train.jsonl", lambda t: t + t.splitlines()[0] + "\n"), export_differs="train.jsonl:*")
case("an export of a surplus", file("train.jsonl", put(rollout_id="r:h:2:0"), 8), export_differs="train.jsonl:8")

case("the key in a log", text("logs/proxy.log", lambda t: f"sent {KEY}\n"), key_found="logs/proxy.log")
case("the key between two pieces", text("logs/proxy.log", lambda t: " " * (2**20 - 5) + KEY), key_found="logs/proxy.log")
case("the key in the settings", file("run.json", put(python=KEY)), key_found="run.json")
case("the key in a row", row(I0_ERROR, within("error", put(message=f"401 for {KEY}"))), key_found="rollouts.jsonl")
case("the key in a message", stored("messages", canonical_json({"content": KEY})), key_found="messages/*")
case("the key in a damaged row", row(I0_ERROR, put(domain=KEY)), key_found="rollouts.jsonl", row_contradiction=ROW(I0_ERROR))
case("the key in a name", text(f"logs/{KEY}", lambda t: ""), key_found="logs/*")
case(
    "a header in a log",
    text("logs/proxy.log", lambda t: "Authorization: Bearer ab12cd34"),
    authorization_found="logs/proxy.log",
)
case("a header in the settings", file("run.json", put(python="bearer ab12cd34")), authorization_found="run.json")

SPOTLESS: list[tuple[str, Damage, dict[str, str]]] = [
    ("a message of no row", stored("messages", canonical_json({"role": "user"})), {"blob-orphan": "messages/*"}),
    ("a part of a blob", text("images/.part", lambda t: "x"), {"blob-foreign": "images/.part"}),
]
"""Damages to the spotless one, in which nothing can have left what is found."""
