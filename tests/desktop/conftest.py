"""What these tests need: OSWorld's own package, in an environment of its own (`make test-desktop` makes it)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from container_desktops import desktop_image, engine
from patience import be_patient

__all__ = ["desktop_image", "engine"]

HERE = find_spec("desktop_env") is not None

collect_ignore_glob = [] if HERE else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """For every desktop of this process."""
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """OSWorld's evaluators leave files and archives open; that is theirs."""
    if HERE:
        config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
