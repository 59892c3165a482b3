"""What surrounds the broker's core in tests? Beats and rows on paper; no socket, no clock."""

from __future__ import annotations

from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.config import PolicyConfig, Settings
from legato_rl.records import Outcome, RolloutKey, Status
from legato_rl.rundir import TaskSpec
from legato_rl.wire import Beat, Feed, FeedRow, Holding, Order, PolicyName


def make_core(groups: int = 1, restarted: bool = False, **settings: object) -> Core:
    """The core of a run of `groups` groups of two attempts, unless `settings` say otherwise."""
    tasks = [
        TaskSpec(task_id=f"t{i}", group_id=f"t{i}", domain=None, config={"id": f"t{i}"}, max_steps=5) for i in range(groups)
    ]
    made = Settings(policy=PolicyConfig("fake", "m"), **{"group": 2, "desktops": 2, **settings})
    core = Core(made.desktops, made.boots_at_once, PolicyName(model="m", version="0"), True, restarted, now=0.0)
    core.begin(Run("r", made, tasks))
    return core


def run_of(core: Core) -> Run:
    """The one run of a core that `make_core` made."""
    return core.runs["r"]


def key(attempt: int, try_: int = 0, group: str = "t0") -> RolloutKey:
    """A key of this run."""
    return RolloutKey(run="r", group=group, attempt=attempt, try_=try_)


def beat(worker: str = "w0", **changes: object) -> Beat:
    """An idle worker's beat; `changes` are laid over it."""
    fields: dict[str, object] = {
        "worker": worker,
        "boot": worker + "-1",
        "ready": True,
        "phase": "idle",
        "holds": None,
        "stored": None,
        "built": 1,
        "build_failures": 0,
    }
    return Beat.model_validate(fields | changes)


def holding(held: RolloutKey, past_actions: bool = False) -> Holding:
    """What a worker says that it holds."""
    return Holding(key=held, lease=1, phase="act", step=1, past_actions=past_actions)


def feed(core: Core, *rows: tuple[RolloutKey, Outcome, Status], now: float = 0.0) -> list[Order]:
    """Tell the core further rows; the orders that leave at once."""
    start = run_of(core).feed_last
    numbered = [
        FeedRow(n=start + i + 1, key=k, outcome=outcome, status=status, reward=None)
        for i, (k, outcome, status) in enumerate(rows)
    ]
    return core.feed(Feed(run="r", rows=numbered, last=start + len(rows)), now)
