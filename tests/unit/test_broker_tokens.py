"""How many desktops boot at once, and whose turn is it?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato_rl.broker.core import Core
from legato_rl.broker.roster import SILENCE_S
from legato_rl.broker.tokens import BootTokens
from legato_rl.config import PolicyConfig, Settings
from legato_rl.wire import Beat, PolicyName


def test_turns_come_in_the_order_of_asking() -> None:
    """The next one boots when one is done, whether it came up or not."""
    tokens = BootTokens(2)
    for name in "abcd":
        tokens.ask(name, 1)
    tokens.ask("a", 1)
    assert tokens.granted == {"a": 1, "b": 1}
    tokens.ask("b", 0)
    assert tokens.granted == {"a": 1, "c": 1}
    tokens.release("a")
    assert tokens.granted == {"c": 1, "d": 1}


def test_the_next_boot_waits_anew() -> None:
    """A grant is for one boot: the worker's next one goes to the end."""
    tokens = BootTokens(1)
    tokens.ask("a", 1)
    tokens.ask("b", 1)
    tokens.ask("a", 2)
    assert tokens.granted == {"b": 1}
    tokens.ask("b", 0)
    assert tokens.granted == {"a": 2}


def test_without_a_limit() -> None:
    """Everybody may at once."""
    tokens = BootTokens(None)
    for number in range(100):
        tokens.ask(str(number), 1)
    assert len(tokens.granted) == 100


EVENTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-1, 3)), max_size=60)


@given(most=st.integers(1, 3), events=EVENTS)
def test_never_more_than_the_limit_and_never_idle(most: int, events: list[tuple[str, int]]) -> None:
    """Whatever comes in whatever order: nobody has two, and nobody waits while a place is free."""
    tokens = BootTokens(most)
    for worker, number in events:
        if number < 0:
            tokens.release(worker)
        else:
            tokens.ask(worker, number)
        assert len(tokens.granted) <= most
        assert not tokens.granted.keys() & tokens.waiting.keys()
        assert not tokens.waiting or len(tokens.granted) == most


def beat(worker: str, boot_ask: int, boot: str = "1") -> Beat:
    """A worker that boots."""
    empty = {"holds": None, "stored": None, "built": 0, "build_failures": 0}
    return Beat(worker=worker, boot=boot, ready=False, phase="booting", boot_ask=boot_ask, **empty)  # type: ignore[arg-type]


def test_the_brokers_orders_say_it() -> None:
    """With the answer to the beat; what a worker that is gone or out held goes to the next."""
    core = Core(4, 1, PolicyName(model="m", version="0"), once=True, restarted=False, now=0.0)
    assert core.beat(beat("w0", 1), 0.0).may_boot == 1
    assert core.beat(beat("w1", 1), 0.0).may_boot == 0
    assert core.beat(beat("w2", 1), 0.0).may_boot == 0
    assert core.beat(beat("w0", 1, boot="2"), 0.0).may_boot == 1
    core.beat(beat("w1", 1), SILENCE_S)
    core.beat(beat("w2", 1), SILENCE_S)
    core.tick(SILENCE_S + 1.0)
    assert core.beat(beat("w1", 1), SILENCE_S + 1.0).may_boot == 1
    core.lost_desktop("w1", "its process does not stay up")
    assert core.beat(beat("w2", 1), SILENCE_S + 1.0).may_boot == 1


def test_what_is_said_by_default() -> None:
    """OSWorld's desktops wait their turn, others need not."""
    policy = PolicyConfig("fake", "m")
    limits = [Settings(policy=policy, desktop={"backend": name}).boots_at_once for name in ("osworld", "container", "fake")]
    assert limits == [8, 8, None]
    assert Settings(policy=policy, desktop={"backend": "fake"}, max_booting=3).boots_at_once == 3
