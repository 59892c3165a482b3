"""`legato-rl-worker ROOT`: one desktop of a service, in the foreground. Its name is supervisord's, or `worker-000`."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

from legato_rl.backend import load_backend
from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import Settings
from legato_rl.desktop import Desktop
from legato_rl.endpoints import address
from legato_rl.role import Quit, run_folder, run_role
from legato_rl.service import ServiceDir
from legato_rl.sockets import Context, wait
from legato_rl.supervisord import START_S
from legato_rl.workers.agent import Agent
from legato_rl.workers.agent.checkout import CheckoutAgent, load_agent
from legato_rl.workers.agent.qwen import QwenAgent
from legato_rl.workers.link import Link
from legato_rl.workers.policy import PolicyLine
from legato_rl.workers.rows import RowLine
from legato_rl.workers.worker import Worker


def serve(root: Path, quit_: Quit) -> None:
    """Be one worker of the service in `root` until asked to end or told to leave."""
    began = SYSTEM_CLOCK.monotonic()
    service = ServiceDir(root).load()
    settings = service.settings
    name = os.environ.get("SUPERVISOR_PROCESS_NAME", "worker-000")

    def build_desktop() -> Desktop:
        # Imported here, where the link already beats: a backend whose import takes the process down is counted too.
        desktop_class = load_backend(settings.desktop.backend)
        desktop: Desktop = desktop_class(settings.desktop, f"{service.once or service.sockets.name}-{name}")
        return desktop

    agent_class = load_agent(settings.desktop.osworld_path) if settings.osworld_agent else None

    def build_agent(run: Settings, today: str) -> Agent:
        model, most, fold = run.policy.model, run.image_max, run.fold_size
        if agent_class is None:
            return QwenAgent(model=model, today=today, image_max=most, fold_size=fold)
        return CheckoutAgent(
            agent_class, model=model, today=today, image_max=most, fold_size=fold, thinking=run.policy.thinking
        )

    link = Link(name, secrets.token_hex(8), settings.desktop, SYSTEM_CLOCK, quit_)
    with (
        Context() as context,
        context.client("policy", address(service.sockets, "policy")) as policy,
        context.client("rows", address(service.sockets, "rows")) as rows,
        context.client("orders", address(service.sockets, "orders")) as orders,
    ):
        thread = threading.Thread(target=link.run, args=(orders,), name="link", daemon=True)
        thread.start()
        try:
            Worker(
                name,
                settings,
                build_desktop,
                build_agent,
                PolicyLine(policy, link, SYSTEM_CLOCK),
                RowLine(rows, link, SYSTEM_CLOCK),
                link,
                SYSTEM_CLOCK,
            ).run(quit_)
        finally:
            link.quit()
            thread.join()
    stay_up(began, SYSTEM_CLOCK, quit_)


def stay_up(began: float, clock: Clock, quit_: Quit) -> None:
    """Return once this process, which began at `began`, counts as started, or is asked to end.

    One that leaves sooner is started again by supervisord, whatever its exit code, and the broker takes a new process for
    one that somebody started: a desktop that is out would come back by itself.
    """
    while (left := began + START_S - clock.monotonic()) > 0:
        quit_.bell.clear()
        if quit_.asked:
            return
        wait([quit_.bell], left)


def main() -> None:
    """The console script."""
    run_role("worker", lambda quit_: serve(run_folder(), quit_))


if __name__ == "__main__":
    main()
