"""`legato-rl-proxy RUN_DIR`: the policy-proxy of one run, in the foreground. The key comes from LEGATO_POLICY_KEY."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from legato_rl.broker.proxy.pool import Pool
from legato_rl.broker.proxy.server import ProxyServer, inflight
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.endpoints import address
from legato_rl.policy.upstream import Upstream
from legato_rl.role import Quit, run_folder, run_role
from legato_rl.rundir import RunDir
from legato_rl.sockets import Context
from legato_rl.supervisord import KEY_VARIABLE


def serve(root: Path, key: str | None, quit_: Quit) -> None:
    """Be the proxy of the run in `root` until asked to end."""
    run = RunDir(root).load_run()
    policy = run.settings.policy.model_copy(update={"api_key": SecretStr(key) if key else None})
    pool = Pool(inflight(run.settings), lambda: Upstream(policy, SYSTEM_CLOCK), SYSTEM_CLOCK)
    try:
        with (
            Context() as context,
            context.server("policy", address(run.sockets, "policy")) as calls,
            context.client("orders", address(run.sockets, "orders"), b"proxy") as orders,
        ):
            ProxyServer(run.settings, calls, orders, pool, SYSTEM_CLOCK).run(quit_)
    finally:
        pool.close()


def main() -> None:
    """The console script."""
    # Out of the environment at once: nothing that this process may start should inherit it.
    key = os.environ.pop(KEY_VARIABLE, None)
    run_role("proxy", lambda quit_: serve(run_folder(), key, quit_))


if __name__ == "__main__":
    main()
