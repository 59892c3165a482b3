"""Which windows are open, and what do OSWorld's routes do with them? Found by the window manager's list, moved by wmctrl."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from Xlib.display import Display
from Xlib.error import XError

from .answers import Answer, Request, Routes, as_json, as_text, failed
from .clock import now, sleep
from .identity import User
from .run import launch, run

OPEN_S = 120.0
"""Seconds that an opened file's window is waited for; OSWorld's server waits 30 minutes, and its client with it."""
LOOK_S = 0.1
OPENER = ("env", "BROWSER=false", "xdg-open")
"""A file of a type that no program opens would else go to the browser, whose window never has its name."""


@dataclass(frozen=True)
class Window:
    """A window that the window manager lists. `kind` is both parts of WM_CLASS, joined by a dot, as wmctrl shows it."""

    id: int
    title: str
    kind: str
    width: int
    height: int


def open_windows(display: Display) -> list[Window]:
    """The windows of a display, in the order in which they were opened."""
    name = display.intern_atom("_NET_WM_NAME")
    ids = display.screen().root.get_full_property(display.intern_atom("_NET_CLIENT_LIST"), 0)
    found = []
    for id_ in ids.value if ids else ():
        with suppress(XError):  # it closed meanwhile
            window = display.create_resource_object("window", int(id_))
            title = window.get_full_property(name, 0)
            words = title.value.decode("utf-8", "replace") if title else window.get_wm_name() or ""
            size = window.get_geometry()
            kind = ".".join(window.get_wm_class() or ())
            found.append(Window(int(id_), str(words), kind, size.width, size.height))
    return found


def listed(display_name: str) -> list[Window]:
    """`open_windows` over a connection of its own."""
    display = Display(display_name)
    try:
        return open_windows(display)
    finally:
        display.close()


class Windows:
    """The routes for windows."""

    def __init__(self, user: User) -> None:
        self._user = user

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("POST", "/setup/open_file"): self.open_file,
            ("POST", "/setup/activate_window"): self.activate,
            ("POST", "/setup/close_window"): self.close,
            ("POST", "/window_size"): self.size,
        }

    def open_file(self, request: Request) -> Answer:
        """Open a file, or start a program, and wait for its window."""
        asked = request.json().get("path")
        if not asked:
            return failed("path is required", 400)
        path = self._user.path(str(asked))
        with self._user.files():
            there = os.path.exists(path)
        program = shutil.which(str(asked), path=self._user.env.get("PATH"))
        if not there and not program:
            return failed(f"File not found or not in PATH: {asked}", 404)
        try:
            opener = launch(self._user, [*OPENER, path] if there else [str(program)], shell=False)
        except OSError as error:
            return failed(f"Failed to open {asked}: {error}")
        wanted = title_pattern(os.path.basename(path))
        start = now()
        while now() - start < OPEN_S:
            for window in listed(self._user.env["DISPLAY"]):
                if wanted.search(window.title):
                    self._wmctrl("-i", "-a", hex(window.id))
                    return as_text("File opened and window activated successfully")
            if opener.poll():
                return failed(f"Nothing opens {asked}: {opener.args!r} ended with {opener.returncode}")
            sleep(LOOK_S)
        return failed(f"No window for {asked} in {OPEN_S:g} seconds")

    def activate(self, request: Request) -> Answer:
        """Bring a window to the front. Like OSWorld's, the answer is the same where there is none."""
        return self._told(request.json(), "-a", "activated")

    def close(self, request: Request) -> Answer:
        """Ask a window to close. Like OSWorld's, the answer is the same where there is none."""
        return self._told(request.json(), "-c", "closed")

    def size(self, request: Request) -> Answer:
        """The size of the first window of a class; an error of ours where there is none, as in OSWorld's."""
        name = request.field("app_class_name")
        if not name:
            return as_json({"error": "app_class_name is required"}, 400)
        for window in listed(self._user.env["DISPLAY"]):
            if name.lower() in window.kind.lower():
                return as_json({"width": window.width, "height": window.height})
        return failed(f"no window of class {name}")

    def _told(self, asked: dict[str, Any], what: str, done: str) -> Answer:
        name = asked.get("window_name")
        if not name:
            return failed("window_name is required", 400)
        how = (["-F"] if asked.get("strict") else []) + (["-x"] if asked.get("by_class") else [])
        self._wmctrl(*how, what, str(name))
        return as_text(f"Window {done} successfully")

    def _wmctrl(self, *words: str) -> None:
        run(self._user, ["wmctrl", *words], shell=False, timeout=10)


def title_pattern(name: str) -> re.Pattern[str]:
    """What the title of a file's or program's window holds: its name, or that without its suffix, as whole words."""
    stem = os.path.splitext(name)[0] or name
    return re.compile(rf"(?<!\w)(?:{re.escape(name)}|{re.escape(stem)})(?!\w)", re.IGNORECASE)
