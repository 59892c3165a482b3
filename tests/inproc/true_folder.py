"""Run folders that are true: rows with every outcome, settled by the sink's own index, with summary and export."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from run_folder import RunFolder

from legato_rl._version import __version__
from legato_rl.broker.sink.index import Index
from legato_rl.canonical import canonical_json
from legato_rl.export.profile import write_summary
from legato_rl.export.steps import export_steps
from legato_rl.records import ActionRecord, Draft, Outcome, PolicyStamp, Rollout, RolloutError, Timing, dump

AT = "2026-01-01T00:00:00.000Z"
STARTED = "2026-01-01 00:00:00,000 INFO supervisord started with pid 7\n"
SPAWNED = "2026-01-01 00:00:00,100 INFO spawned: '{}' with pid 8\n"
ROLES = ("sink", "proxy", "broker", "worker-000")
KIND = {
    Outcome.POLICY_FAILED: "policy",
    Outcome.DESKTOP_FAILED: "env",
    Outcome.WORKER_LOST: "env",
    Outcome.EVALUATOR_FAILED: "env",
}


class TrueFolder(RunFolder):
    """A run folder whose rows are appended as the sink does: their statuses follow from their order."""

    def __init__(self, root: Path, groups: list[str], **settings: Any) -> None:
        super().__init__(root, groups, group=2, oversample=0.5, **settings)
        self.run.write_run(self.run.load_run().model_copy(update={"legato_rl": __version__}))
        self.index = Index("r", self.settings.closing, self.settings.env_retries)
        self.run.logs.mkdir()
        (self.run.logs / "supervisord.log").write_text(STARTED + "".join(SPAWNED.format(name) for name in ROLES))
        (self.run.logs / "worker-000.log").touch()
        (self.run.logs / "sink.log").write_text("a server that asks for bearer authorization: none\n")
        self.run.rollouts.touch()

    def put(
        self, group: str, attempt: int, outcome: Outcome, reward: float | None = None, *, try_: int = 0, steps: int = 0
    ) -> None:
        """Append the row of one try, with so many steps."""
        self.append(self.draft(group, attempt, outcome, reward, try_=try_, steps=steps))

    def draft(
        self, group: str, attempt: int, outcome: Outcome, reward: float | None = None, *, try_: int = 0, steps: int = 0
    ) -> Draft:
        """What the worker, or the broker, sends of one try."""
        action = ActionRecord(action="WAIT", rc=0, stderr="", act_s=0.1, wait_s=0.2, ready_s=None, ready="capped", obs_s=0.25)
        made = [step.model_copy(update={"actions": [action]}) for step in self.steps(steps)]
        versions = list(dict.fromkeys(step.model.version for step in made))
        model_s = math.fsum(step.model.seconds + step.model.queued_s for step in made)
        error = None
        if outcome in KIND:
            error = RolloutError.model_validate({"kind": KIND[outcome], "phase": "act", "type": "t", "message": "m"})
        return Draft(
            run_id="r",
            rollout_id=f"r:{group}:{attempt}:{try_}",
            task_id=f"task-{group}",
            domain=None,
            group_id=group,
            attempt=attempt,
            try_=try_,
            policy=PolicyStamp(model="m", version="v1", versions=versions),
            desktop="fake-0" if steps else None,
            meta={"of": group},
            outcome=outcome,
            reward=reward,
            cancel_reason="group_closed" if outcome is Outcome.STOPPED else None,
            error=error,
            n_steps=steps,
            started_at=AT if steps else None,
            ended_at="2026-01-01T00:30:00.000Z",
            timing=Timing(model_s=model_s, obs_s=0.25 * steps, total_s=model_s + 0.25 * steps + 1.0) if steps else Timing(),
            steps=made,
            final_image=self.image(200) if steps else None,
        )

    def append(self, draft: Draft) -> Rollout:
        """Append a row with the status that the rows before it give."""
        row = self.index.settle(draft)
        with self.run.rollouts.open("ab") as file:
            file.write(canonical_json(dump(row)) + b"\n")
        self.index.add(dump(row))
        if row.desktop is not None:
            with (self.run.logs / "worker-000.log").open("a") as log:
                log.write(
                    f"2026-01-01T00:30:00.000 worker INFO {row.rollout_id} is stored: {row.status.value}, reward {row.reward}\n"
                )
        return row

    def finish(self) -> None:
        """End the run, sum it up, and export it into its own folder."""
        self.run.write_end("finished", "", AT)
        write_summary(self.run.root)
        export_steps(self.run.root, self.run.root / "train.jsonl")

    def remove_unnamed(self) -> None:
        """Remove the messages that no row names: the last answer of each rollout, which no prompt repeats."""
        rows = [json.loads(line) for line in self.run.rollouts.read_bytes().splitlines()]
        named = {sha256 for row in rows for step in row["steps"] for sha256 in step["request"]["messages"]}
        for path in self.run.messages.iterdir():
            if path.stem not in named:
                path.unlink()


def make_eventful(root: Path) -> TrueFolder:
    """A finished run with every outcome and status; each constant below is the line of a row."""
    folder = TrueFolder(root, ["g", "h", "i", "j"])
    folder.put("g", 0, Outcome.GRADED, 1.0, steps=3)
    folder.put("g", 1, Outcome.DESKTOP_FAILED, steps=1)
    folder.put("g", 1, Outcome.GRADED, 0.0, try_=1, steps=2)
    folder.put("g", 2, Outcome.STOPPED, steps=1)
    folder.put("h", 0, Outcome.TIMED_OUT_GRADED, 0.5, steps=2)
    folder.put("h", 1, Outcome.GRADED, 0.25, steps=1)
    folder.put("h", 2, Outcome.GRADED, 1.0, steps=1)
    folder.put("i", 0, Outcome.POLICY_FAILED)
    folder.put("i", 1, Outcome.WORKER_LOST)
    folder.put("i", 1, Outcome.GRADED, 1.0, try_=1, steps=1)
    folder.put("i", 2, Outcome.EVALUATOR_FAILED, steps=1)
    folder.put("j", 0, Outcome.GRADED, 1.0, steps=1)
    folder.put("j", 1, Outcome.GRADED, 0.0, steps=1)
    folder.put("j", 2, Outcome.NOT_STARTED)
    event = {"n": 1, "after": 2, "id": "1", "desktop": "fake-3", "event": "rebuilt", "at": AT, "reason": "broken"}
    folder.run.desktop_events.write_text(json.dumps(event) + "\n" + json.dumps({**event, "n": 2, "id": "2"}) + "\n")
    folder.finish()
    return folder


G0, G1_RETRIED, G1, G2_CANCELLED, H0, H1, H2_SURPLUS, I0_ERROR, I1_LOST, I1, I2_ERROR, J0, J1, J2_SKIPPED = range(1, 15)


def make_spotless(root: Path) -> TrueFolder:
    """A finished run in which every try was graded or never started: nothing in it can have left a blob without a row."""
    folder = TrueFolder(root, ["g", "h"])
    for group in ("g", "h"):
        folder.put(group, 0, Outcome.GRADED, 1.0, steps=2)
        folder.put(group, 1, Outcome.GRADED, 0.0, steps=1)
    folder.put("g", 2, Outcome.GRADED, 0.0, steps=1)
    folder.put("h", 2, Outcome.NOT_STARTED)
    folder.remove_unnamed()
    folder.finish()
    return folder
