"""`legato-rl-proxy ROOT`: the policy-proxy of a service, in the foreground. The key comes from LEGATO_POLICY_KEY."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from legato_rl.broker.proxy.pool import Pool
from legato_rl.broker.proxy.server import ProxyServer
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.policy.upstream import Upstream
from legato_rl.role import Quit, raise_file_limit, run_folder, run_role
from legato_rl.service import ServiceDir
from legato_rl.sockets import Bell, Context
from legato_rl.supervisord import KEY_VARIABLE


def serve(root: Path, key: str | None, quit_: Quit) -> None:
    """Be the proxy of the service in `root` until asked to end."""
    service = ServiceDir(root).load()
    policy = service.settings.policy.model_copy(update={"api_key": SecretStr(key) if key else None})

    def open_pool(url: str, threads: int, bell: Bell) -> Pool:
        there = policy.model_copy(update={"url": url})
        return Pool(threads, lambda: Upstream(there, SYSTEM_CLOCK), SYSTEM_CLOCK, bell)

    with (
        Context() as context,
        context.server("policy", address(service.sockets, "policy")) as calls,
        context.client("orders", address(service.sockets, "orders"), b"proxy") as orders,
    ):
        proxy = ProxyServer(service, calls, orders, open_pool, SYSTEM_CLOCK)
        try:
            proxy.run(quit_)
        finally:
            proxy.close()


def main() -> None:
    """The console script."""
    raise_file_limit()
    # Out of the environment at once: nothing that this process may start should inherit it.
    key = os.environ.pop(KEY_VARIABLE, None)
    run_role("proxy", lambda quit_: serve(run_folder(), key, quit_))


if __name__ == "__main__":
    main()
