"""Do the broker's promises hold whatever happens in whatever order? Several runs, dying workers, late and repeated messages."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from service_on_paper import World

from legato_rl.records import Status

EVENTS = 400
"""Of each example, before everything runs on undisturbed."""
ROUNDS = 200
"""In which a service that is left alone must come to its end."""


def disturb(world: World, rng: Random) -> None:
    """One event, by lot."""

    def late(things: list[object]) -> int:
        return rng.randrange(len(things)) if things and rng.random() < 0.3 else 0

    worker = rng.choice(list(world.workers.values()))
    match rng.choices(
        ["say", "hear", "obey", "work", "ask", "learn", "owe", "put", "wait", "die", "restart", "steer", "submit", "long"],
        [9, 12, 12, 9, 9, 12, 3, 5, 4, 0.4, 0.3, 1, 0.5, 0.1],
    )[0]:
        case "say":
            world.say(worker)
        case "hear":
            world.hear(late(list(world.beats)))
        case "obey":
            world.obey(late(list(world.orders)))
        case "work":
            world.work(worker)
        case "ask":
            world.ask(rng.choice(list(world.sinks.values())))
        case "learn":
            world.learn(late(list(world.feeds)))
        case "owe":
            world.owe()
        case "put":
            world.put(late(world.puts))
        case "wait":
            world.wait(rng.choice([0.1, 0.3, 1.0]))
        case "long":
            world.wait(31.0)
        case "die":
            world.die(worker)
        case "restart":
            world.restart()
        case "steer":
            world.steer()
        case "submit" if len(world.sinks) < 4:
            world.submit()


def settle(world: World) -> bool:
    """One round in which everything comes through; whether all runs have finished."""
    world.resume()
    for worker in list(world.workers.values()):
        if not worker.alive:
            world.die(worker)
        world.say(worker)
        world.work(worker)
    for sink in world.sinks.values():
        world.ask(sink)
    world.owe()
    for things, take in (
        (world.beats, world.hear), (world.feeds, world.learn), (world.orders, world.obey), (world.puts, world.put)
    ):  # fmt: skip
        while things:
            take()
    world.wait(1.0)
    return all(run.state == "finished" for run in world.core.runs.values())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_every_attempt_ends_once(seed: int) -> None:
    """No key twice, nothing where it may not be, no pair that the tables do not know; left alone, every run finishes."""
    rng = Random(seed)
    world = World(rng)
    world.submit()
    for _ in range(EVENTS):
        disturb(world, rng)
    world.holding = world.core.holding = False
    world.desktops = world.core.desktops = 4
    assert any(settle(world) for _ in range(ROUNDS)), "it does not come to its end"
    for sink in world.sinks.values():
        keys = [row.key for row in sink.rows]
        assert len(set(keys)) == len(keys)
        final = Counter((row.key.group, row.key.attempt) for row in sink.rows if row.status is not Status.RETRIED)
        assert final == {(task.group_id, n): 1 for task in sink.tasks for n in range(sink.settings.attempts)}
        run = world.core.runs[sink.run_id]
        assert run.rows == Counter(row.status.value for row in sink.rows)
        assert run.group_counts().open == 0
