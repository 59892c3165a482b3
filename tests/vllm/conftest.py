"""Which server do the `vllm` tests share, and what do those need that drive real desktops too?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_desktops import desktop_image, engine
from install_vllm import install
from serve_vllm import VllmServer, serve

__all__ = ["desktop_image", "engine"]

INSTALL_OSWORLD = Path(__file__).resolve().parents[1] / "desktop" / "install_osworld.py"


@pytest.fixture(scope="session")
def osworld_python() -> Path:
    """The interpreter of an environment with OSWorld's own package, installed where it is missing."""
    done = subprocess.run([sys.executable, INSTALL_OSWORLD], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A real vLLM on CPU, installed where it is missing, serving the tiny model for the whole session."""
    with serve(install(), tmp_path_factory.mktemp("vllm") / "server.log") as server:
        yield server
