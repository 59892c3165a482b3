"""Which policy does a try get, before and after it is changed?"""

from __future__ import annotations

from legato_rl.broker.policies import EVERY, Policies
from legato_rl.config import PolicyConfig, Settings
from legato_rl.wire import PolicyName, RunPolicy


def name(version: str, model: str = "m") -> PolicyName:
    """A policy."""
    return PolicyName(model=model, version=version)


def two_runs() -> Policies:
    """Runs a and b, both on version 1."""
    policies = Policies(name("1"))
    policies.begin("a", name("1"))
    policies.begin("b", name("1"))
    return policies


def test_new_weights_are_every_trys() -> None:
    """Changed while calls stand still: tries that run get the new name under their number."""
    policies = two_runs()
    policies.set(EVERY, "", "2", only_new=False)
    assert policies.names == {"a": [name("2")], "b": [name("2")]}
    assert (policies.number("a"), policies.default) == (0, name("2"))


def test_another_policy_for_new_tries_only() -> None:
    """Tries that run keep their number and its name; a change to what is in force makes no number."""
    policies = two_runs()
    for _ in range(2):
        policies.set("a", "lora-2", "2", only_new=True)
    assert policies.names == {"a": [name("1"), name("2", "lora-2")], "b": [name("1")]}
    assert (policies.number("a"), policies.current("a")) == (1, name("2", "lora-2"))
    assert policies.default == name("1"), "a run's own policy is no other run's"
    policies.set("a", "", "3", only_new=False)
    assert policies.names["a"] == [name("3", "lora-2")] * 2


def test_a_run_that_is_known_keeps_what_it_has() -> None:
    """Also one that is begun again after a restart; one that is over is forgotten."""
    policies = two_runs()
    policies.set("a", "", "2", only_new=False)
    policies.begin("a", name("1"))
    policies.end("b")
    assert policies.names == {"a": [name("2")]}


def test_what_the_proxy_is_told() -> None:
    """Each run's names, and how its calls are made."""
    asked = Settings(policy=PolicyConfig("fake", "m", step_timeout=7.0, retries=3))
    assert two_runs().told({"a": asked}) == [RunPolicy(run="a", names=[name("1")], step_timeout=7.0, retries=3)]
