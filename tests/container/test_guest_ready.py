"""Is the effect of an action waited for where the program thinks before it draws? A program of ours with a window."""

from __future__ import annotations

import io

import pytest
from container_desktops import PREFIX, Site
from PIL import Image

pytestmark = pytest.mark.desktop

PROGRAM = """
import os, sys, time
from Xlib import X, Xatom, display
d = display.Display()
depth = d.screen().root_depth
w = d.screen().root.create_window(0, 0, 1200, 800, 0, depth, background_pixel=0x00FF00, event_mask=X.KeyPressMask)
w.set_wm_name("thinker")
w.change_property(d.intern_atom("_NET_WM_PID"), Xatom.CARDINAL, 32, [os.getpid()])
w.map()
while True:
    if d.next_event().type == X.KeyPress:
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            pass
        w.change_attributes(background_pixel=0xFF0000)
        w.clear_area()
        d.flush()
"""
"""Shows a green window, and a red one so many seconds after a key."""
SCREEN = 1920 * 1080
"""Pixels: where all of it may change at any time, only a program at work is waited for, and no clock."""


def start(site: Site, seconds: float) -> None:
    """Start the program, in front."""
    site.post("/setup/launch", command=["python3", "-c", PROGRAM, str(seconds)])
    assert site.post("/legato/ready", title="^thinker$", cap=60).json()["title"]


def colour(site: Site) -> object:
    """What the window shows."""
    with Image.open(io.BytesIO(site.get("/screenshot").content)) as image:
        return image.convert("RGB").getpixel((700, 300))


def test_a_program_that_thinks_before_it_draws(site: Site) -> None:
    """The screen is quiet for longer than is waited for, and is not taken for settled."""
    start(site, 2.0)
    assert colour(site) == (0, 255, 0)
    said = site.post("/legato/act", code=PREFIX + "pyautogui.press('a')", ready={"quiet": 0.3, "cap": 60}).json()
    assert colour(site) == (255, 0, 0)
    assert said["ready"]["ready"]
    site.reset()


def test_a_program_that_always_thinks(site: Site) -> None:
    """It holds a wait up for half of its cap."""
    start(site, 300.0)
    ready = {"quiet": 0.3, "cap": 20, "small": SCREEN}
    said = site.post("/legato/act", code=PREFIX + "pyautogui.press('a')", ready=ready).json()["ready"]
    # Not the cap ended it. How long it was beyond the half is the machine's doing.
    assert said["ready"]
    assert said["seconds"] >= 10
    site.reset()
