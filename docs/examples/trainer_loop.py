"""A small training loop over a service: `python trainer_loop.py SERVICE_DIR TASKS_JSON BATCHES`.

Each batch is a run. Groups are trained on as they close, while the others still run; then the calls stand still for as long
as the weights change. What trains, and what loads the weights into the server, is yours: `Trainer` only counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from legato_rl import ControlClient


class Trainer:
    """Stands for a trainer and the server that samples from its weights."""

    def __init__(self) -> None:
        self.tokens = 0
        self.signal = 0.0

    def train(self, rollout: dict[str, Any], advantage: float) -> None:
        """Take the tokens that were sampled, with the logprobs that they were sampled with."""
        for step in rollout["steps"]:
            response = step["response"]
            assert len(response["token_ids"]) == len(response["logprobs"])
            self.tokens += len(response["token_ids"])
            self.signal += advantage * sum(response["logprobs"])

    def publish(self, version: str) -> None:
        """Load the weights into the server, which must not be asked meanwhile."""
        print(f"weights {version}: {self.tokens} tokens so far, signal {self.signal:.3f}")


def closed_groups(control: ControlClient, run: str) -> Iterator[dict[str, Any]]:
    """Each group of a run as it closes, once, until the run is over."""
    seen = 0
    while True:
        events = control.events(seen, wait_s=30, run=run).events
        for event in events:
            seen = event.n
            if event.kind == "group_closed":
                yield event.data
            if event.kind == "run_finished":
                return
        status = control.status(run)
        if not events and status is not None and status.state == "stopped":
            raise SystemExit(f"{run} stopped early: {status.reason}")


def rollouts(folder: Path, wanted: set[str]) -> Iterator[dict[str, Any]]:
    """The rollouts of those ids, from a run's folder; every line that was told of is whole."""
    with (folder / "rollouts.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            rollout = json.loads(line)
            if rollout["rollout_id"] in wanted:
                yield rollout


def main(service: str, tasks_file: str, batches: int) -> None:
    """Train for some batches."""
    tasks = json.loads(Path(tasks_file).read_text(encoding="utf-8"))
    trainer = Trainer()
    with ControlClient(service) as control:
        for batch in range(batches):
            run, folder = control.submit(tasks, {"group": 2}, name=f"batch-{batch}")
            for group in closed_groups(control, run):
                advantages = dict(zip(group["rollouts"], group["advantages"], strict=True))
                for rollout in rollouts(folder, set(advantages)):
                    trainer.train(rollout, advantages[rollout["rollout_id"]])
                print(f"{run} {group['group']}: rewards {group['rewards']}, sampled from {', '.join(group['versions'])}")
            control.pause("abort")
            trainer.publish(version := f"step-{batch + 1}")
            control.set_policy(version=version)
            control.resume()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
