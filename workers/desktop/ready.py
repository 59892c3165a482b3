"""Is the task's start on the screen, has the action's effect come, is all written? The three waits of a rollout.

After a reset a time-out is a desktop failure. After an action and before the evaluation a wait has a cap, since videos
and spinners never settle: at the cap, with the guest answering, the rollout goes on, and says so.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from legato_rl.clock import Clock
from legato_rl.desktop import DesktopFailure, Ready
from legato_rl.workers.desktop.guest import NOT_STARTED, PROBE_S, Guest, Ran
from legato_rl.workers.desktop.look import LOOK, Look, read_look
from legato_rl.workers.desktop.picture import Frame
from legato_rl.workers.desktop.sense import Sense, Wait
from legato_rl.workers.desktop.settle import Settled
from legato_rl.workers.desktop.windows import UNWANTED, Expected, Window, expected_windows, parse_windows

log = logging.getLogger("legato_rl.worker")

AFTER_RESET = Wait(quiet_s=0.5, cap_s=5.0)
AFTER_RESET_S = 120.0
"""Seconds in which a task's start must be on the screen."""
AT_WORK_S = 30.0
"""Seconds after which a program that is still at work is taken for one that always is."""
AFTER_ACTION = Wait(quiet_s=0.3, cap_s=5.0)
BEFORE_EVAL = Wait(quiet_s=0.5, cap_s=20.0)
WAIT_S = 1.0
"""Seconds that the action WAIT lasts at least."""
TURN_S = 0.25
"""Seconds between two looks at what is not there yet."""

PROFILE = frozenset(
    {
        *("bookmarks", "history", "cookie_data", "default_search_engine", "chrome_language", "chrome_font_size"),
        *("profile_name", "enable_do_not_track", "enable_enhanced_safety_browsing", "enable_safe_browsing"),
        *("new_startup_page", "find_unpacked_extension_path", "find_installed_extension_name", "data_delete_automacally"),
        *("enabled_experiments", "shortcuts_on_desktop"),
    }
)
"""Getters that read the files of Chrome's profile."""
BEING_WRITTEN = (
    "find ~ -xdev \\( -path ~/server -o -path ~/.cache -o -path '*/gvfs-metadata' -o -path '*/tracker*' \\) -prune "
    "-o -type f -newermt '-1.5 seconds' -print -quit"
)
"""A file of the user's that was written just now, if there is one; the server's own screenshots do not count."""


@dataclass
class Readiness:
    """The waits on one guest. `fixed_s`: wait that long instead, looking at nothing."""

    guest: Guest
    sense: Sense
    size: tuple[int, int]
    clock: Clock
    fixed_s: float | None
    frame: Frame | None = field(default=None, init=False)
    """The picture with which the last wait ended, where one was taken: nothing has been done on the desktop since."""

    def after_reset(self, task: dict[str, Any]) -> Ready:
        """Return when the task's windows are there and drawn, their programs at rest and the screen quiet.

        DesktopFailure, type `not_ready`, after 120 s.
        """
        if self.fixed_s is not None:
            return self._fixed(self.fixed_s)
        self.frame = None
        expected, start = expected_windows(task), self.clock.monotonic()
        while True:
            missing = self._missing(expected, self.clock.monotonic() - start)
            seconds = self.clock.monotonic() - start
            if not missing:
                return Ready("ready", seconds)
            if seconds > AFTER_RESET_S:
                raise DesktopFailure("not_ready", f"after {seconds:.0f} s {missing}")
            self.clock.sleep(TURN_S)

    def act(self, code: str) -> tuple[Ran, float, Ready]:
        """Run `code` once and wait for the screen."""
        self.frame = None
        if self.fixed_s is not None:
            answer, seconds, _ = self.sense.act(code, None)
            return answer, seconds, self._fixed(self.fixed_s)
        answer, seconds, settled = self.sense.act(code, AFTER_ACTION)
        assert settled is not None
        return answer, seconds, self._ready(settled)

    def pause(self) -> Ready:
        """The action WAIT: let the screen go on, then wait for it."""
        self.frame = None
        if self.fixed_s is not None:
            return self._fixed(max(self.fixed_s, WAIT_S))
        self.clock.sleep(WAIT_S)
        ready = self._ready(self.sense.settle(AFTER_ACTION))
        return Ready(ready.state, ready.seconds + WAIT_S)

    def before_eval(self, task: dict[str, Any]) -> Ready:
        """Return when the screen and the user's files have settled."""
        self.frame = None
        if self.fixed_s is not None:
            return self._fixed(self.fixed_s)
        start = self.clock.monotonic()
        self.sense.settle(BEFORE_EVAL)
        while self._being_written(task, self.clock.monotonic() - start):
            if self.clock.monotonic() - start >= BEFORE_EVAL.cap_s:
                return Ready("capped", self.clock.monotonic() - start)
            self.clock.sleep(TURN_S)
        seconds = self.clock.monotonic() - start
        return Ready("ready" if seconds < BEFORE_EVAL.cap_s else "capped", seconds)

    def _ready(self, settled: Settled) -> Ready:
        self.frame = settled.frame
        return Ready("ready" if settled.ready else "capped", settled.seconds)

    def _fixed(self, seconds: float) -> Ready:
        self.frame = None
        self.clock.sleep(seconds)
        return Ready("fixed", seconds)

    def _missing(self, expected: list[Expected], waited: float) -> str:
        """What the screen does not show yet; empty where it shows the task's start, and then `frame` is that picture.

        The picture comes last: whatever was found before is on it, or it is found that it is not.
        """
        windows = self._windows()
        if windows is not None and (said := _out_of_place(expected, windows)):
            return said
        settled = self.sense.settle(AFTER_RESET)
        if not settled.ready:
            return "the screen has not settled"
        look = read_look(self.guest.execute(LOOK, PROBE_S, shell=True).stdout)
        windows, before = self._windows(), windows
        if _ids(windows) != _ids(before):
            return "windows come and go"
        frame = self.guest.screenshot(self.size)
        if frame.blank():
            return "the screen is of one colour"
        for window in windows or ():
            if window.id in look.working and waited < AT_WORK_S:
                return f"the program of {window.title!r} is still at work"
        if windows is not None:
            for one in expected:
                if not any(_drawn(window, look, frame) for window in one.among(windows)):
                    return f"the window of {one.what} is not drawn"
        self.frame = frame
        return ""

    def _windows(self) -> list[Window] | None:
        """The guest's windows; None where it has no wmctrl, and can only be looked at."""
        listed = self.guest.execute(["wmctrl", "-lx"], PROBE_S)
        return None if listed.rc == NOT_STARTED else parse_windows(listed.stdout)

    def _being_written(self, task: dict[str, Any], waited: float) -> bool:
        if writes_late(task):
            return waited < BEFORE_EVAL.cap_s
        return bool(self.guest.execute(BEING_WRITTEN, PROBE_S, shell=True).stdout.strip())


def _out_of_place(expected: list[Expected], windows: list[Window]) -> str:
    missing = [one.what for one in expected if not one.among(windows)]
    if missing:
        return f"there is no window of {', '.join(missing)}"
    unwanted = [window.title for window in windows if UNWANTED.search(window.title)]
    return f"the window {unwanted[0]!r} is in the way" if unwanted else ""


def _ids(windows: list[Window] | None) -> set[int]:
    return {window.id for window in windows or ()}


def _drawn(window: Window, look: Look, frame: Frame) -> bool:
    """Whether there is something on a window; so it is taken where the guest did not say its place."""
    if window.id not in look.areas:
        return True
    area = look.areas[window.id]
    return area is not None and not frame.empty(area)


def writes_late(task: dict[str, Any]) -> bool:
    """Whether what is graded is written seconds after it was done, and nothing makes it be written before.

    Chrome writes its profile by a timer of up to ten seconds; most tasks that read it end Chrome first.
    """
    evaluator = task.get("evaluator", {})
    results = evaluator.get("result") or []
    kinds = {result.get("type") for result in (results if isinstance(results, list) else [results]) if result}
    return bool(kinds & PROFILE) and "pkill" not in json.dumps(evaluator.get("postconfig", []))
