"""How does a desktop get to a task's start? By the fast reset where that is enough and proves clean, else by a revert.

A revert is what OSWorld calls a snapshot revert: the provider's clean start. Whoever last raised on this desktop has
left it in no known state, so after any exception the next reset is a revert.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from legato_rl.desktop import DesktopFailure
from legato_rl.records import ResetWay
from legato_rl.workers.desktop.browser import rebinding, watch_pages
from legato_rl.workers.desktop.env import find_token, programs
from legato_rl.workers.desktop.watch import Watch

log = logging.getLogger("legato_rl.worker")

REVERT_DOMAINS = frozenset({"os", "multi_apps"})
"""OSWorld's domains whose tasks change what no fast reset undoes: users, packages, services, many programs at once."""
_ROOT = re.compile(r"\bsudo\b|\bapt(?:-get)? |\bsnap install\b|\bdpkg -|\{CLIENT_PASSWORD\}|\bpkexec\b|\buseradd\b")


class Cleaner(Protocol):
    """The fast reset of a guest: back to its clean baseline without booting it."""

    def clean(self) -> list[str]:
        """Clean the guest, check it, and say what is not as in the baseline; empty where all is."""


def why_revert(task: dict[str, Any], domain: str | None, dirty: str, fast: bool) -> str:
    """Why this task must begin with a revert; empty where the fast reset may do. `dirty`: what is wrong with the desktop."""
    if dirty:
        return dirty
    if not fast:
        return "fast reset is off"
    if domain in REVERT_DOMAINS:
        return f"domain {domain}"
    if _ROOT.search(json.dumps([task.get("config"), task.get("evaluator")])):
        return "the task needs root or installs packages"
    return ""


BootToken = Callable[[], AbstractContextManager[None]]


class Resets:
    """The resets of one desktop. `way` is the last one's, None where none came so far; `counts` has all."""

    def __init__(self, env: Any, watch: Watch, cleaner: Cleaner | None, fast: bool) -> None:
        self.env, self.cleaner = env, cleaner
        self.way: ResetWay | None = None
        self.counts: Counter[str] = Counter()
        self._watch, self._fast = watch, fast
        self._dirty = ""
        self._untouched = True

    def dirty(self, reason: str) -> None:
        """The desktop is in no known state: the next reset is a revert, because of `reason`."""
        self._dirty = self._dirty or reason

    def reset(self, task: dict[str, Any], cache: Path, boot_token: BootToken = nullcontext) -> None:
        """Bring the desktop to the start of `task`, its files below `cache`. DesktopFailure where that did not work.

        A revert is done inside of `boot_token()`.
        """
        way: ResetWay
        revert = why_revert(task, task.get("legato", {}).get("domain"), self._dirty, self._fast)
        if self._untouched and not self._dirty:
            way = "booted"
        elif not revert:
            revert = self._clean()
            way = "escalated" if revert else "fast"
        else:
            way = "revert"
        self.way = way
        self.counts[way] += 1
        log.info("reset number %d: %s%s", self.counts.total(), way, f" ({revert})" if revert and way != "booted" else "")
        # From here on until the setup has ended well, nobody knows what is on the desktop.
        self._dirty, self._untouched = "the setup did not end well", False
        env = self.env
        env.cache_dir_base = str(cache)
        with self._watch.on(env.vm_ip, int(env.server_port), programs(env), find_token(env)):
            if way in ("revert", "escalated"):
                with boot_token():
                    env.is_environment_used = True
                    self._env_reset("boot", None)
            env.is_environment_used = False
            self._set_up(task)
        self._dirty = ""

    def _clean(self) -> str:
        """Clean the guest in place; why it must be reverted after all, else empty."""
        if self.cleaner is None:
            return "this guest has no fast reset"
        try:
            left = self.cleaner.clean()
        except DesktopFailure as failure:
            return f"the fast reset failed: {failure}"
        return f"the fast reset left {', '.join(left[:5])}" if left else ""

    def _set_up(self, task: dict[str, Any]) -> None:
        given = {key: value for key, value in task.items() if key != "legato"}
        if "config" in given:
            given["config"] = rebinding(given["config"])
        with watch_pages() as pages:
            self._env_reset("setup", given)
        if lost := pages.unreachable():
            raise DesktopFailure("download", f"the setup opened {lost}")
        refused = [no.text for no in self._watch.noes if no.plain]
        if refused:
            # No policy has acted yet: what the guest refuses now was never set up.
            raise DesktopFailure("setup_refused", refused[0])

    def _env_reset(self, what: str, task: dict[str, Any] | None) -> None:
        """DesktopEnv.reset, whose every fault is a DesktopFailure."""
        try:
            self.env.reset(task_config=task)
        except DesktopFailure:
            raise
        except Exception as error:
            self._watch.check()
            raise DesktopFailure("download" if self._watch.outside else what, f"{error}") from error
        self._watch.check()
