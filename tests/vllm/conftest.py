"""Which server do the `vllm` tests share?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from install_vllm import install
from serve_vllm import VllmServer, serve


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A real vLLM on CPU, installed where it is missing, serving the tiny model for the whole session."""
    with serve(install(), tmp_path_factory.mktemp("vllm") / "server.log") as server:
        yield server
