"""Are the names that trainers import the same under both packages?"""

from __future__ import annotations

import pytest

import legato.rl
import legato_rl


@pytest.mark.parametrize("name", legato_rl.__all__)
def test_both_packages_give_the_same_object(name: str) -> None:
    """`from legato.rl import x` and `from legato_rl import x`."""
    assert getattr(legato.rl, name) is getattr(legato_rl, name)


def test_the_names_of_the_documentation_are_there() -> None:
    """Those of the quick start, and the policy client."""
    assert {"collect", "export_steps", "load_request", "PolicyConfig", "DesktopConfig", "policy"} <= set(legato.rl.__all__)
    assert callable(legato.rl.collect), "a function, not a module"


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'colect'"):
        legato_rl.colect  # noqa: B018
