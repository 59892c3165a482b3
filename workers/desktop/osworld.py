"""How is an OSWorld desktop driven? Its own DesktopEnv, setup steps and evaluators; reset, act and wait are ours.

One DesktopEnv is kept up between rollouts. `OSWorldDesktop` is the backends `osworld` and `container`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import DesktopConfig
from legato_rl.desktop import ActResult, DesktopFailure, Ready
from legato_rl.records import ResetWay
from legato_rl.workers.desktop.cache import Cache, default_cache
from legato_rl.workers.desktop.cleaner import find_cleaner
from legato_rl.workers.desktop.env import Provider, find_token, open_env
from legato_rl.workers.desktop.evaluate import evaluate
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.keys import guest_code
from legato_rl.workers.desktop.lease import Lease
from legato_rl.workers.desktop.ready import Readiness
from legato_rl.workers.desktop.reset import Resets
from legato_rl.workers.desktop.sense import HEALTH, OwnSense, StockSense
from legato_rl.workers.desktop.watch import Watch

log = logging.getLogger("legato_rl.worker")

MOST_SCREENSHOTS = 210
"""Pictures that one boot of OSWorld's own server may give: each leaves an X connection open, and X takes 256, of which the
session's programs have some thirty."""
FRESH = 50
"""Pictures that the boot itself may take."""
STEPS = 15
"""Steps of a rollout whose task does not say how many it may have."""


class OSWorldDesktop:
    """A Desktop (the protocol). `clock` is the time that it waits by."""

    clock: Clock = SYSTEM_CLOCK
    boot_token: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered around every boot but the first; its worker makes it wait until one more desktop may boot."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        self.config = config
        self._task: dict[str, Any] = {}
        self._evaluated = True
        self._watch = Watch()
        self._lease: Lease | None = None
        self._boot = -1
        self._cache = Cache(config.cache_dir or default_cache(), name)
        self._env: Any = open_env(config, name, self._cache.folder, self._watch, self._provider(name))
        try:
            self._meet()
        except BaseException:
            self.close()
            raise
        self.resets = Resets(self._env, self._watch, self._cleaner, config.fast_reset)

    def _provider(self, name: str) -> Provider | None:
        """The provider of ours that this desktop runs on, or None for OSWorld's."""
        if "container" not in (self.config.backend, self.config.provider):
            return None
        # Imported here: it needs Docker's client, which OSWorld's other providers do not.
        from legato_rl.workers.desktop.container_provider import ContainerProvider

        return lambda: ContainerProvider(self.config, name)

    def reset(self, task: dict[str, Any]) -> None:
        """As Desktop.reset."""
        self._evaluated, self.resets.way = True, None
        # a look and a try that was lost for each step; a rollout that no boot has pictures enough for gets a fresh one
        room = min(2 * task["legato"].get("max_steps", STEPS), MOST_SCREENSHOTS - FRESH)
        if not self._own and self._guest.screenshots + room > MOST_SCREENSHOTS:
            self.resets.dirty(f"{self._guest.screenshots} screenshots")
        folder = self._cache.begin(task["legato"]["rollout_id"], task)
        with self._noted("reset"):
            self.resets.reset(task, folder, self.boot_token)
            self._meet()
            self.resets.cleaner = self._cleaner
        self._cache.keep()
        self._task, self._evaluated = task, False

    @property
    def reset_way(self) -> ResetWay | None:
        """How the last reset went, also one that failed; None where it failed before anything was done."""
        return self.resets.way

    def wait_after_reset(self) -> Ready:
        """As Desktop.wait_after_reset."""
        with self._noted("wait_after_reset"):
            return self._readiness.after_reset(self._task)

    def observe(self) -> bytes:
        """As Desktop.observe. The picture with which the last wait ended is the screen still."""
        with self._noted("observe"):
            frame, self._readiness.frame = self._readiness.frame, None
            return (frame or self._guest.screenshot(self.config.screen_size)).png

    def act(self, action: str) -> ActResult:
        """As Desktop.act: sent once, and a lost answer is a DesktopFailure."""
        self._env.action_history.append(action)
        if action in ("DONE", "FAIL"):
            return ActResult(0, "", 0.0, Ready("ready", 0.0))
        self._env.is_environment_used = True
        with self._noted("act"):
            if action == "WAIT":
                return ActResult(0, "", 0.0, self._readiness.pause())
            answer, seconds, ready = self._readiness.act(guest_code(action))
            return ActResult(answer.rc, answer.stderr, seconds, ready)

    def wait_before_eval(self) -> Ready:
        """As Desktop.wait_before_eval."""
        with self._noted("wait_before_eval"):
            return self._readiness.before_eval(self._task)

    def evaluate(self) -> float:
        """As Desktop.evaluate. Once for each reset: OSWorld's evaluation changes the desktop."""
        if self._evaluated:
            raise DesktopFailure("evaluated_twice", "evaluate was called without a reset before it")
        self._evaluated = True
        with self._noted("evaluate"):
            verdict: float = evaluate(self._env, self._guest, self._watch)
        self._cache.keep()
        return verdict

    def close(self) -> None:
        """As Desktop.close."""
        if self._lease is not None:
            self._lease.end()
        with suppress(Exception):
            self._env.close()
        self._cache.delete()

    def _meet(self) -> None:
        """Get to know the guest, which a boot has put in another place."""
        if self._env.boots == self._boot:
            return
        if self._lease is not None:
            self._lease.end()
            self._lease = None
        config, clock, host, port = self.config, self.clock, self._env.vm_ip, int(self._env.server_port)
        token = find_token(self._env)
        self._guest = Guest(host, port, clock, token)
        self._own = self._guest.offers(HEALTH)
        sense = OwnSense(self._guest) if self._own else StockSense(self._guest, config.screen_size, clock)
        fixed = None if config.ready_signal else config.fixed_wait
        self._readiness = Readiness(self._guest, sense, config.screen_size, clock, fixed)
        if self._own:
            self._lease = Lease(host, port, clock, token)
        self._cleaner = find_cleaner(self._guest, self._own, config.screen_size) if config.fast_reset else None
        self._boot = self._env.boots

    @contextmanager
    def _noted(self, phase: str) -> Iterator[None]:
        """Whatever is raised in `phase` leaves the desktop in no known state: the next reset is a revert."""
        try:
            yield
        except BaseException as error:
            self._env.is_environment_used = True
            self.resets.dirty(f"{type(error).__name__} in {phase}")
            raise
