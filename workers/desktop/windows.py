"""Which windows must a task's start show, and which must it not? PURE."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

PROGRAMS: dict[str, str] = {
    "google-chrome": r"chrom",
    "chromium": r"chrom",
    "gimp": r"gimp",
    "vlc": r"vlc",
    "code": r"\bcode\b",
    "thunderbird": r"thunderbird|\bmail\b|betterbird",
    "libreoffice": r"libreoffice|soffice",
    "soffice": r"libreoffice|soffice",
    "nautilus": r"nautilus",
    "gnome-terminal": r"gnome-terminal",
    "gedit": r"gedit",
    "mousepad": r"mousepad",
    "xterm": r"xterm",
    "pcmanfm": r"pcmanfm",
}
"""Programs that a setup launches, and what the class of their window has in it. Others are not waited for."""

WINDOWLESS = re.compile(r"(?:^|\s)--(?:headless|convert-to|install-extension|version)\b")
"""Ways to start such a program without a window."""
ENDING = re.compile(r"\b(?:p?kill|killall|wmctrl -c|xdotool windowkill)\b")
"""A setup that also ends programs: what it launched may be gone by its own doing."""
UNWANTED = re.compile(
    r"document recovery|restore pages|not responding|unlock (?:login )?keyring|authentication required"
    r"|software updater|updates? available|system program problem",
    re.IGNORECASE,
)
"""Titles of windows that come up by themselves and take a policy's clicks."""


@dataclass(frozen=True)
class Window:
    """One line of `wmctrl -lx`: the window's id, its class and its title."""

    id: int
    kind: str
    title: str


@dataclass(frozen=True)
class Expected:
    """A window that must be there: by its class, or by whole words in its title, lower case."""

    what: str
    kind: str = ""
    titles: tuple[str, ...] = ()

    def among(self, windows: list[Window]) -> list[Window]:
        """Those of `windows` that are it."""
        if self.kind:
            return [window for window in windows if re.search(self.kind, window.kind.lower())]
        return [window for window in windows if any(_names(window.title.lower(), title) for title in self.titles)]


def _names(title: str, words: str) -> bool:
    """Whether a title has the words as whole ones: `a` is neither in `data.txt` nor in `a.txt`, `a.txt` not in `a.txt.bak`."""
    return re.search(rf"(?<![\w.-]){re.escape(words)}(?!\w|\.\w)", title) is not None


def parse_windows(text: str) -> list[Window]:
    """The windows that `wmctrl -lx` lists: id, desktop, class, host, title."""
    windows = []
    for line in text.splitlines():
        parts = line.split(None, 4)
        if len(parts) >= 4 and parts[0].startswith("0x"):
            windows.append(Window(int(parts[0], 16), parts[2], parts[4] if len(parts) == 5 else ""))
    return windows


def expected_windows(task: dict[str, Any]) -> list[Expected]:
    """What the setup of `task` launches or opens, as the windows that show it."""
    expected = []
    steps = task.get("config", [])
    ends = any(step["type"] in ("close_window", "chrome_close_tabs") or ENDING.search(_command(step)) for step in steps)
    if ends:
        return []
    for step in steps:
        if step["type"] == "launch":
            program = _program(_command(step))
            if program:
                expected.append(Expected(program, kind=PROGRAMS[program]))
        elif step["type"] == "open":
            path = PurePosixPath(str(step.get("parameters", {}).get("path", "")))
            if path.name in PROGRAMS:
                expected.append(Expected(path.name, kind=PROGRAMS[path.name]))
            elif path.name:
                expected.append(Expected(path.name, titles=(path.name.lower(), path.stem.lower())))
    return expected


def _command(step: dict[str, Any]) -> str:
    command = step.get("parameters", {}).get("command", "")
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


def _program(command: str) -> str | None:
    """The known program with a window that a command line starts, if any."""
    if WINDOWLESS.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for word in words:
        if "=" in word.partition("/")[0]:
            continue  # a variable of its environment
        name = PurePosixPath(word).name
        return name if name in PROGRAMS else None
    return None
