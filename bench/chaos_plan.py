"""What goes wrong in one chaos run, and when? Everything is drawn from one seed. PURE but for the dice."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from legato_rl.fake.policy_config import FakePolicyConfig

ROLES = ("worker", "worker", "broker", "broker", "proxy", "sink", "sink", "supervisord", "command")
"""Whom a blow hits, by weight. `command` is `collect` itself, or `serve`."""
WITH_CLIENT = (("client",), ("client",), ("client", "broker"), ("client", "command"))
"""Whom the further blows on a service hit. `client` is a `collect --connect`."""
FAULTS = ("fail_boot", "fail_reset", "fail_observe", "fail_act", "fail_evaluate", "bug_evaluate", "hang", "crash")
EVALUATOR = {"func": "exact_match"}
ACT_S = 3.0
"""The deadline of an action: what a hung one costs."""


@dataclass(frozen=True)
class Blow:
    """SIGKILL for `victims`, all at once, `wait_s` after so many rows of the run are stored (and its command was started)."""

    after_rows: int
    wait_s: float
    victims: tuple[str, ...]


@dataclass(frozen=True)
class Outage:
    """The model server dies, as `Blow`, and is there again `down_s` later."""

    after_rows: int
    wait_s: float
    down_s: float


@dataclass(frozen=True)
class Plan:
    """One run: what is asked, and what goes wrong."""

    seed: int
    service: bool
    tasks: list[dict[str, Any]]
    desktops: int
    of_run: tuple[str, ...]
    """Options of a run, alone or at a service."""
    of_place: tuple[str, ...]
    """Options of whoever has the desktops."""
    server: FakePolicyConfig
    blows: tuple[Blow, ...]
    outages: tuple[Outage, ...]
    again: bool
    """Whether the finished run is resumed once more, which must change nothing."""


def draw(seed: int, service_share: float = 0.0) -> Plan:
    """The plan of a seed."""
    dice = Random(f"chaos {seed}")
    groups, group, oversample = dice.randint(1, 3), dice.randint(2, 3), dice.choice((0.0, 0.0, 0.5))
    rows = groups * group
    steps = dice.randint(3, 6)
    of_run = ["--group", group, "--oversample", oversample, "--max-steps", steps, "--seed", seed]
    of_run += ["--close", dice.choice(("first", "first", "all")), "--env-retries", dice.randint(1, 3)]
    of_run += ["--stop-failures", dice.choice((1, 1, 1, 0.5)), "--step-timeout", 10, "--retries", dice.randint(0, 3)]
    if dice.random() < 0.15:
        of_run += ["--rollout-timeout", round(dice.uniform(1.0, 4.0), 2)]
    of_place = ["--deadline", f"act={ACT_S}", "--server-wait", dice.choice((2, 60)), *_fakes(dice)]
    if dice.random() < 0.3:
        of_place += ["--max-inflight", dice.randint(1, 2)]
    blows = [
        Blow(dice.randrange(rows), round(dice.uniform(0.0, 4.0), 2), _victims(dice))
        for _ in range(dice.choice((0, 1, 2, 2, 3, 3, 5)))
    ]
    outages = [
        Outage(dice.randrange(rows), round(dice.uniform(0.0, 2.0), 2), round(dice.uniform(0.2, 4.0), 2))
        for _ in range(dice.choice((0, 0, 0, 1, 2)))
    ]
    service = dice.random() < service_share
    return Plan(
        seed=seed,
        service=service,
        tasks=[_task(f"task-{number}") for number in range(groups)],
        desktops=dice.randint(2, 4),
        of_run=tuple(map(str, of_run)),
        of_place=tuple(map(str, of_place)),
        server=_server(dice, seed),
        blows=tuple(sorted([*blows, *(_on_clients(seed, rows) if service else ())], key=lambda blow: blow.after_rows)),
        outages=tuple(sorted(outages, key=lambda outage: outage.after_rows)),
        again=dice.random() < 0.3,
    )


def _on_clients(seed: int, rows: int) -> list[Blow]:
    """One to three more, with dice of their own: while the runs are submitted, and while they go on."""
    dice = Random(f"clients {seed}")
    return [
        Blow(dice.choice((0, 1, 1 + dice.randrange(rows))), round(dice.uniform(0.0, 4.0), 2), dice.choice(WITH_CLIENT))
        for _ in range(dice.randint(1, 3))
    ]


def _victims(dice: Random) -> tuple[str, ...]:
    """One most of the time, two at once else."""
    return tuple(dice.choice(ROLES) for _ in range(2 if dice.random() < 0.3 else 1))


def _fakes(dice: Random) -> list[str]:
    """The desktop's waits and faults: none in one run of three, up to four kinds in the others."""
    waits = {"act_s": dice.choice((0.02, 0.1, 0.3)), "reset_s": 0.1, "eval_s": dice.choice((0.02, 0.3, 1.0)), "tail": 0.5}
    kinds = dice.sample(FAULTS, dice.choice((0, 1, 3, 4)))
    rates = {kind: round(dice.uniform(0.02, 0.15), 3) for kind in kinds}
    return [part for name, value in {**waits, **rates}.items() for part in ("--fake", f"{name}={value}")]


def _server(dice: Random, seed: int) -> FakePolicyConfig:
    """The model server: slow at times, full at times, and at times answering 500."""
    return FakePolicyConfig(
        latency=dice.choice((0.0, 0.05, 0.3)),
        tail=dice.choice((0.0, 1.0)),
        skill=0.8,
        malformed=dice.choice((0.0, 0.1)),
        fail=dice.choice((0.0, 0.0, 0.03, 0.1)),
        concurrency=dice.choice((1, 64)),
        max_queued=dice.choice((None, None, 1)),
        seed=seed,
    )


def _task(name: str) -> dict[str, Any]:
    return {"task_id": name, "config": {"id": name, "instruction": "Do what the window asks.", "evaluator": EVALUATOR}}
