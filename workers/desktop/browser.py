"""What can OSWorld's playwright not reach: Chrome's debugging port, or a page in it? A watch over its calls.

They do not go through `requests`, and OSWorld makes the same of a port that is closed and of one that hangs, and of a page
that is not as it should be and of one that nobody served.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.guest import PROBE_S, Guest
from legato_rl.workers.desktop.watch import Watch

BROWSERS = ["pgrep", "-x", "chrome|chromium"]
"""Ends with 0 where a browser runs in the guest."""
_NO_ANSWER = re.compile(r"Timeout \d+ms exceeded|Unexpected status \d+ when connecting")
"""Playwright's words for a port that takes the connection and does not speak. A refused connection is none of these: the
policy may have closed the browser, or opened it anew without the port."""
_UNREACHABLE = re.compile(r"net::ERR_(?!ABORTED)")
"""Chrome's words for a page that nobody served. It calls a download aborted, and a page that sends the browser elsewhere."""
_OF_THE_GUEST = re.compile(r"net::ERR_(?:PROXY|TUNNEL|INTERNET_DISCONNECTED|BLOCKED_BY|ABORTED)|has been closed")
"""Words for a page that the browser's own settings or state kept from loading: within a rollout the policy's doing."""
LISTENS = "tcp-listen:"
"""How the address begins at which socat, in 79 of OSWorld's tasks, hands Chrome's debugging port on."""


def rebinding(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A task's setup steps, socat's with leave to take a port that was in use a moment ago.

    The kernel keeps the port of a connection that socat closed for a minute, longer than a fast reset takes: without leave
    the next task's socat ends at once, and its Chrome cannot be reached.
    """
    return [_rebinding(step) if step.get("type") == "launch" else step for step in steps]


def _rebinding(step: dict[str, Any]) -> dict[str, Any]:
    parameters = step.get("parameters", {})
    command = parameters.get("command")
    if not isinstance(command, list) or command[:1] != ["socat"]:
        return step
    words = [f"{word},reuseaddr" if word.lower().startswith(LISTENS) else word for word in command]
    return {**step, "parameters": {**parameters, "command": words}}


@contextmanager
def watch_browser(guest: Guest, watch: Watch) -> Iterator[None]:
    """Within it a browser that runs in `guest` and does not speak is a loss of `watch`."""
    if find_spec("playwright") is None:
        yield
        return
    kind: Any = import_module("playwright.sync_api").BrowserType
    usual = kind.connect_over_cdp

    def connect_over_cdp(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.check()  # the verdict is lost already: no further time-out is waited for
        try:
            return usual(self, *args, **kwargs)
        except Exception as error:
            if _NO_ANSWER.search(str(error)) and _runs(guest, watch):
                watch.losses.append(DesktopFailure("guest_timeout", f"the guest's browser: {str(error)[:200]}"))
            raise

    kind.connect_over_cdp = connect_over_cdp
    try:
        yield
    finally:
        kind.connect_over_cdp = usual


@dataclass
class Pages:
    """Pages that the guest's browser was sent to and that did not load, by address: why."""

    unloaded: dict[str, str] = field(default_factory=dict)

    def unserved(self) -> dict[str, str]:
        """Those for which the guest itself is no reason."""
        return {url: why for url, why in self.unloaded.items() if not _OF_THE_GUEST.search(why)}

    def unreachable(self) -> str:
        """Of a page that nobody served, its address and why; empty where there is none. One that is slow is not meant."""
        lost = [f"{url}: {why}" for url, why in self.unloaded.items() if _UNREACHABLE.search(why)]
        return lost[0] if lost else ""


@contextmanager
def watch_pages() -> Iterator[Pages]:
    """Within it the pages are noted that OSWorld's setup steps and getters open by playwright: they go on without."""
    pages = Pages()
    if find_spec("playwright") is None:
        yield pages
        return
    kind: Any = import_module("playwright.sync_api").Page
    usual = kind.goto

    def goto(self: Any, url: str, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = usual(self, url, *args, **kwargs)
        except Exception as error:
            pages.unloaded[url] = str(error)[:200]
            raise
        pages.unloaded.pop(url, None)
        return answer

    kind.goto = goto
    try:
        yield pages
    finally:
        kind.goto = usual


def _runs(guest: Guest, watch: Watch) -> bool:
    try:
        return guest.execute(BROWSERS, PROBE_S).rc == 0
    except DesktopFailure as failure:
        watch.losses.append(failure)
        return False
