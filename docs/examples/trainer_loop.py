"""A small training loop over a service: `python docs/examples/trainer_loop.py svc docs/examples/tasks.json 2`.

That is the service's folder (legato-rl serve --dir svc …), a file of tasks, and a number of batches. Each batch is a run.
Groups are trained on as they close, while the others still run; then the calls stand still for as long as the weights change.
What trains, and what loads the weights into the server, is yours: `Trainer` only counts. A fourth argument names a file for
its checkpoint: a loop that was cut, and is started again with that, goes on with its run.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from legato_rl import ControlClient, ControlError


class Trainer:
    """Stands for a trainer and the server that samples from its weights; what is saved is as of the batch's start."""

    def __init__(self, checkpoint: str = "") -> None:
        self.checkpoint = Path(checkpoint) if checkpoint else None
        self.at: dict[str, Any] = {"batch": 0, "run": "", "tokens": 0, "signal": 0.0}
        if self.checkpoint and self.checkpoint.exists():
            self.at = json.loads(self.checkpoint.read_text(encoding="utf-8"))

    def save(self, batch: int, run: str) -> None:
        """Keep the weights, and which batch they are to be trained on, and by which run."""
        self.at.update(batch=batch, run=run)
        if self.checkpoint:
            new = self.checkpoint.with_suffix(".new")
            new.write_text(json.dumps(self.at), encoding="utf-8")
            new.replace(self.checkpoint)

    def train(self, rollout: dict[str, Any], advantage: float) -> None:
        """Take the tokens that were sampled, with the logprobs that they were sampled with."""
        for step in rollout["steps"]:
            response = step["response"]
            assert len(response["token_ids"]) == len(response["logprobs"])
            self.at["tokens"] += len(response["token_ids"])
            self.at["signal"] += advantage * sum(response["logprobs"])

    def publish(self, version: str) -> None:
        """Load the weights into the server, which must not be asked meanwhile."""
        print(f"weights {version}: {self.at['tokens']} tokens so far, signal {self.at['signal']:.3f}")


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
        yield from (rollout for rollout in map(json.loads, lines) if rollout["rollout_id"] in wanted)


def main(service: str, tasks_file: str, batches: str, checkpoint: str = "") -> None:
    """Train for some batches."""
    tasks, trainer = json.loads(Path(tasks_file).read_text(encoding="utf-8")), Trainer(checkpoint)
    with ControlClient(service) as control:
        for batch in range(trainer.at["batch"], int(batches)):
            # Named, and saved, before it is there: whenever the loop is cut, it finds its run again, or that there is none yet.
            trainer.save(batch, run := trainer.at["run"] or f"loop-{secrets.token_hex(4)}")
            try:
                folder = control.resume_run(run)  # wherever it stands: it tells its events from the first one on again
            except ControlError:
                folder = control.submit(tasks, {"group": 2}, name=run)[1]
            for group in closed_groups(control, run):
                advantages = dict(zip(group["rollouts"], group["advantages"], strict=True))
                for rollout in rollouts(folder, set(advantages)):
                    trainer.train(rollout, advantages[rollout["rollout_id"]])
                print(f"{run} {group['group']}: rewards {group['rewards']}, sampled from {', '.join(group['versions'])}")
            control.pause("abort")
            trainer.publish(version := f"step-{batch + 1}")
            control.set_policy(version=version)
            control.resume()
            trainer.save(batch + 1, "")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
