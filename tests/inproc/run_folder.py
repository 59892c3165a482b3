"""A small run folder, made by hand from the records' own models: what the sink would have left."""

from __future__ import annotations

import hashlib
import io
import struct
from pathlib import Path
from typing import Any

from PIL import Image

from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.records import (
    ModelUse,
    Outcome,
    PolicyStamp,
    PromptRecord,
    ResetWay,
    Rollout,
    RolloutError,
    Status,
    Step,
    StepRequest,
    StepResponse,
    Timing,
    dump,
)
from legato_rl.rundir import RunDir, RunFile, TaskSpec

PAD = 99
"""The image placeholder's token id."""
PAD_RUN = 4
"""Placeholders per image."""

PARAMS = {
    "model": "m",
    "temperature": 1.0,
    "top_k": -1,
    "seed": 5,
    "n": 1,
    "stream": False,
    "logprobs": True,
    "return_token_ids": True,
}


def ids_hash(ids: list[int]) -> str:
    """The hash of token ids: over little-endian uint32, written out here apart from the product's own code."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


class RunFolder:
    """Makes a run folder in `root` and puts rows into it."""

    def __init__(self, root: Path, groups: list[str], **settings: Any) -> None:
        self.run = RunDir(root)
        self.run.images.mkdir(parents=True)
        self.run.messages.mkdir()
        self.settings = Settings(
            policy=PolicyConfig("fake", "m", version="v1"), desktop=DesktopConfig(backend="fake"), **settings
        )
        self.run.write_run(
            RunFile(
                run_id="r",
                created_at="2026-01-01T00:00:00.000Z",
                today="2026-01-01",
                legato_rl="0",
                python="3",
                settings=self.settings,
                sockets=root,
                engine={},
            )
        )
        tasks = [TaskSpec(task_id=f"task-{g}", group_id=g, domain=None, config={}, max_steps=9, meta={"of": g}) for g in groups]
        self.run.write_tasks(tasks)

    def image(self, shade: int) -> str:
        """Store a grey PNG; its hash."""
        buffer = io.BytesIO()
        Image.new("L", (8, 8), shade).save(buffer, "PNG")
        sha256 = sha256_hex(buffer.getvalue())
        self.run.image(sha256).write_bytes(buffer.getvalue())
        return sha256

    def message(self, message: dict[str, Any]) -> str:
        """Store a chat message; its hash."""
        data = canonical_json(message)
        self.run.message(sha256_hex(data)).write_bytes(data)
        return sha256_hex(data)

    def screenshot(self, shade: int) -> tuple[str, str]:
        """Store a user message with one image; the message's hash and the image's."""
        image = self.image(shade)
        content = [{"type": "image_url", "image_url": {"url": image_name(image)}}, {"type": "text", "text": "go on"}]
        return self.message({"role": "user", "content": content}), image

    def steps(self, count: int) -> list[Step]:
        """Steps whose prompts grow by an answer and a screenshot each; step i answers with ids 1000+i, 2000+i."""
        hashes, places, steps = [self.message({"role": "system", "content": "be good"})], [], []
        full = [1, 2]
        for index in range(count):
            message, image = self.screenshot(index)
            hashes.append(message)
            keep = len(full)
            places.append((len(full), PAD_RUN, image))
            full = [*full, *[PAD] * PAD_RUN, 7]
            messages = [self.run.message(sha256).read_bytes() for sha256 in hashes]
            start = canonical_json(PARAMS)[:-1].decode()
            # Keys are sorted, so `messages` comes between `logprobs` and `model`.
            joined = b",".join(messages).decode()
            body = start.replace('"model":', f'"messages":[{joined}],"model":')
            steps.append(
                Step(
                    request=StepRequest(
                        messages=list(hashes),
                        params=PARAMS,
                        body_sha256=sha256_hex(f"{body}}}".encode("ascii")),
                        prompt=PromptRecord(
                            keep=keep if index else 0,
                            add=[PAD, 7] if index else [1, 2, PAD, 7],
                            images=list(places),
                            sha256=ids_hash(full),
                        ),
                    ),
                    response=StepResponse(
                        content=f"answer {index} \ud83d",
                        reasoning="hm",
                        token_ids=[1000 + index, 2000 + index],
                        logprobs=[-0.5, -0.25],
                        tokens=None,
                        finish_reason="stop",
                    ),
                    model=ModelUse(
                        seconds=1.0 + index,
                        queued_s=0.5,
                        attempts=1 + (index == 1),
                        prompt_tokens=len(full),
                        completion_tokens=2,
                        cached_tokens=keep if index else 0,
                        version=f"v{1 + index // 2}",
                        server_version=None,
                    ),
                    parse_error="no tool call" if index == 1 else None,
                    actions=[],
                )
            )
            full = [*full, 1000 + index, 2000 + index]
            hashes.append(self.message({"role": "assistant", "content": f"answer {index}"}))
        return steps

    def row(
        self,
        group: str,
        attempt: int,
        reward: float | None,
        *,
        try_: int = 0,
        status: Status = Status.OK,
        outcome: Outcome = Outcome.GRADED,
        steps: list[Step] | None = None,
        error: RolloutError | None = None,
        reset: ResetWay | None = None,
    ) -> Rollout:
        """Append a row to the file; the row."""
        steps = steps or []
        versions = list(dict.fromkeys(step.model.version for step in steps)) or ["v1"]
        row = Rollout(
            run_id="r",
            rollout_id=f"r:{group}:{attempt}:{try_}",
            task_id=f"task-{group}",
            domain=None,
            group_id=group,
            attempt=attempt,
            try_=try_,
            policy=PolicyStamp(model="m", version=versions[0], versions=versions),
            desktop="fake-0",
            reset=reset,
            meta={"of": group},
            outcome=outcome,
            reward=reward,
            error=error,
            n_steps=len(steps),
            started_at="2026-01-01T00:00:00.000Z",
            ended_at="2026-01-01T00:30:00.000Z",
            timing=Timing(reset_s=1.0, model_s=2.0, eval_s=1.0, total_s=5.0),
            steps=steps,
            status=status,
            usable=status in (Status.OK, Status.TRUNCATED),
        )
        with self.run.rollouts.open("ab") as file:
            file.write(canonical_json(dump(row)) + b"\n")
        return row
