"""Run folders, services, rows and blobs for the tests of the sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.endpoints import address
from legato_rl.records import (
    GRADED_OUTCOMES,
    Draft,
    ModelUse,
    Outcome,
    PolicyStamp,
    RolloutError,
    RolloutKey,
    Step,
    StepRequest,
    StepResponse,
    dump,
)
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.wire import BlobName

RUN = "r1"
GROUPS = ("g1", "g2")
GROUP = 2
"""G of the tests' runs; with `ATTEMPTS - GROUP` extras."""
ATTEMPTS = 4


def png(text: str, size: int = 64) -> bytes:
    """Bytes that start as a PNG does, different for each `text`."""
    return (b"\x89PNG\r\n\x1a\n" + text.encode()).ljust(size, b"\0")


def chat_message(text: str, *images: bytes) -> bytes:
    """A user's message as it is stored, with its images by name."""
    parts = [{"type": "image_url", "image_url": {"url": image_name(sha256_hex(image))}} for image in images]
    return canonical_json({"role": "user", "content": [*parts, {"type": "text", "text": text}]})


def blob_name(data: bytes) -> BlobName:
    """What a sender says of a blob."""
    kind = "image" if data.startswith(b"\x89PNG") else "message"
    return BlobName(sha256=sha256_hex(data), size=len(data), type=kind)


def step(*messages: bytes, content: str = "ok") -> Step:
    """A step whose request was these messages."""
    return Step(
        request=StepRequest(
            messages=[sha256_hex(message) for message in messages],
            params={"top_p": 1.0},
            body_sha256="0" * 64,
            prompt=None,
        ),
        response=StepResponse(
            content=content, reasoning=None, token_ids=[1, 2], logprobs=[-0.5, -0.25], tokens=None, finish_reason="stop"
        ),
        model=ModelUse(
            seconds=1.0,
            queued_s=0.0,
            attempts=1,
            prompt_tokens=9,
            completion_tokens=2,
            cached_tokens=None,
            version="v",
            server_version=None,
        ),
        parse_error=None,
        actions=[],
    )


def draft(
    group: str = "g1",
    attempt: int = 0,
    try_: int = 0,
    outcome: Outcome = Outcome.GRADED,
    *,
    run: str = RUN,
    steps: tuple[Step, ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    """A row as a writer sends it, with what its outcome asks for; `fields` replace."""
    key = RolloutKey(run=run, group=group, attempt=attempt, try_=try_)
    kind = "policy" if outcome is Outcome.POLICY_FAILED else "env"
    graded, quiet = outcome in GRADED_OUTCOMES, outcome in (Outcome.STOPPED, Outcome.NOT_STARTED)
    row = Draft(
        run_id=run,
        rollout_id=key.rollout_id,
        task_id=f"task-{group}",
        domain=None,
        group_id=group,
        attempt=attempt,
        try_=try_,
        policy=PolicyStamp(model="m", version="v", versions=["v"]),
        desktop="d0",
        outcome=outcome,
        reward=1.0 if graded else None,
        cancel_reason="asked" if outcome is Outcome.STOPPED else None,
        error=None if graded or quiet else RolloutError(kind=kind, phase="act", type="lost", message="gone"),  # type: ignore[arg-type]
        n_steps=len(steps),
        steps=list(steps),
    )
    return {**dump(row), **fields}


SETTINGS = Settings(
    policy=PolicyConfig("fake", "m"),
    desktop=DesktopConfig(backend="fake"),
    group=GROUP,
    oversample=ATTEMPTS / GROUP - 1,
)


def make_run(root: Path, sockets: Path, run_id: str = RUN) -> RunDir:
    """A run folder as it is before its first try."""
    root.mkdir(parents=True)
    run = RunDir(root)
    tasks = [
        TaskSpec(task_id=f"task-{group}", group_id=group, domain=None, config={"id": f"task-{group}"}, max_steps=5)
        for group in GROUPS
    ]
    run.write_tasks(tasks)
    run.write_run(
        RunFile(
            run_id=run_id,
            created_at="2030-01-01T00:00:00Z",
            today="2030-01-01",
            legato_rl="0",
            python="3",
            settings=SETTINGS,
            sockets=sockets,
            engine={},
        )
    )
    return run


def make_service(root: Path, sockets: Path, *runs: str) -> ServiceDir:
    """A service's root with these runs."""
    root.mkdir()
    service = ServiceDir(root)
    service.write(
        ServiceFile(
            created_at="2030-01-01T00:00:00Z",
            legato_rl="0",
            python="3",
            settings=SETTINGS,
            most_desktops=1,
            origins=[],
            sockets=sockets,
            control=address(sockets, "control"),
            engine={},
        )
    )
    for run_id in runs:
        make_run(service.runs / run_id, sockets, run_id)
    return service
