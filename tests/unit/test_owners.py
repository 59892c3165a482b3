"""Is a process that has ended told from one that lives, whatever has its pid now?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from legato_rl.workers.desktop.owners import gone, owner


def test_the_living() -> None:
    """This process is there, as often as it is asked, and its name has no clock in it."""
    assert owner() == owner()
    assert not gone(owner())


def test_the_ended() -> None:
    """A child is there until it has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        named = owner(child.pid)
        assert not gone(named)
        child.communicate(b"\n")
    assert gone(named)
    with pytest.raises(ProcessLookupError):
        owner(child.pid)


@pytest.mark.parametrize(("place", "other", "dead"), [(0, "another-host", False), (1, "another-boot", True), (3, "1", True)])
def test_another_of_the_same_pid(place: int, other: str, dead: bool) -> None:
    """One that began at another time, or in another boot; of another host's nothing is known."""
    words = owner().split(" ")
    words[place] = other
    assert gone(" ".join(words)) is dead


@pytest.mark.parametrize("named", ["", "host 1 1.00", "a b c d", "a b c d e"])
def test_what_is_no_name(named: str) -> None:
    """It is left alone."""
    assert not gone(named)
