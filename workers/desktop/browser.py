"""Was Chrome's debugging port lost or closed? A watch over playwright's `connect_over_cdp`, which OSWorld's getters use.

They do not go through `requests`, and OSWorld makes the same of a port that is closed and of one that hangs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def watch_browser(guest: Guest, watch: Watch) -> Iterator[None]:
    """Within it a browser that runs in `guest` and does not speak is a loss of `watch`."""
    if find_spec("playwright") is None:
        yield
        return
    kind: Any = import_module("playwright.sync_api").BrowserType
    usual = kind.connect_over_cdp

    def connect_over_cdp(self: Any, *args: Any, **kwargs: Any) -> Any:
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


def _runs(guest: Guest, watch: Watch) -> bool:
    try:
        return guest.execute(BROWSERS, PROBE_S).rc == 0
    except DesktopFailure as failure:
        watch.losses.append(failure)
        return False
