"""What do a click, a screenshot and a fresh container take through our guest server, and what in OSWorld's way?

OSWorld's way of an action: a new interpreter that imports pyautogui, whose PAUSE of 0.1 s follows. It is sent to the same
server under the interpreter's full path, which that server does not take for an action. OSWorld's way of a screenshot:
its server's steps (grab, open an X display for the pointer, draw it, write a PNG to a file, read that), timed within a standing
process of the guest, so without the HTTP that is in our figure.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from desktop_ways import spread

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.workers.desktop.container import Size, connect_engine, start_desktop
from legato_rl.workers.desktop.guest import Guest
from legato_rl.workers.desktop.keys import guest_code
from legato_rl.workers.desktop.ready import AFTER_ACTION
from legato_rl.workers.desktop.sense import OwnSense, Wait

CLICK = "pyautogui.click({x}, {y})"
THEIR_PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "
"""What OSWorld's client puts before each action."""
THEIR_SCREENSHOT = """
import json, time
from PIL import Image, ImageGrab
from Xlib.display import Display
def shot():
    picture = ImageGrab.grab(xdisplay="")
    display = Display()
    display.xfixes_query_version()
    cursor = display.xfixes_get_cursor_image(display.screen().root)
    data = b"".join((p & 0xFFFFFFFF).to_bytes(4, "little") for p in cursor.cursor_image)
    shape = Image.frombytes("RGBA", (cursor.width, cursor.height), data, "raw", "BGRa")
    picture.paste(shape, (cursor.x - cursor.xhot, cursor.y - cursor.yhot), shape)
    picture.save("/tmp/screenshot.png")
    with open("/tmp/screenshot.png", "rb") as file:
        return len(file.read())
shot()
told = []
for _ in range(COUNT):
    begun = time.perf_counter()
    size = shot()
    told.append([time.perf_counter() - begun, size])
print(json.dumps(told))
"""
SCREEN = (1920, 1080)
ROUND = 10
"""Calls of one kind before the other has its turn."""
SHEET = ["soffice", "--calc", "--norestore", "--nologo"]
SETTLED = Wait(quiet_s=1.0, cap_s=30.0)


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def launch(guest: Guest, command: list[str]) -> None:
    """Start a program in the guest and wait until its window is drawn."""
    status, answer = guest.call("POST", "/setup/launch", 60, {"command": command})
    if status != 200:
        raise SystemExit(f"{command} was not launched: {answer!r}")
    time.sleep(5)
    OwnSense(guest).settle(SETTLED)


def clicks(guest: Guest, rounds: int) -> dict[str, Any]:
    """Both ways of a click, turn by turn."""
    sense = OwnSense(guest)
    places = [CLICK.format(x=5 + n, y=400) for n in range(ROUND)]
    spent: dict[str, list[float]] = {"ours": [], "ours_by_osworlds_route": [], "osworld": [], "ours_with_ready": []}

    def execute(python: str, code: str) -> None:
        done = guest.execute([python, "-c", THEIR_PREFIX + code])
        if done.rc != 0:
            raise SystemExit(f"a click ended with {done.rc}: {done.stderr}")

    for _ in range(rounds):
        spent["ours"] += [timed(lambda code=code: sense.act(guest_code(code), None)) for code in places]  # type: ignore[misc]
        spent["ours_by_osworlds_route"] += [timed(lambda code=code: execute("python", code)) for code in places]  # type: ignore[misc]
        spent["osworld"] += [timed(lambda code=code: execute("/usr/bin/python3", code)) for code in places]  # type: ignore[misc]
        spent["ours_with_ready"] += [
            timed(lambda code=code: sense.act(guest_code(code), AFTER_ACTION))  # type: ignore[misc]
            for code in places[:3]
        ]
    return {**{name: spread(seconds) for name, seconds in spent.items()}, "ratio": ratio(spent["osworld"], spent["ours"])}


def screenshots(guest: Guest, rounds: int) -> dict[str, Any]:
    """Both ways of a screenshot, turn by turn."""
    ours, theirs, sizes = [], [], {"ours": 0, "osworld": 0}
    for _ in range(rounds):
        ours += [timed(lambda: guest.call("GET", "/screenshot", 60)) for _ in range(ROUND)]
        sizes["ours"] = len(guest.screenshot(SCREEN).png)
        done = guest.execute(["/usr/bin/python3", "-c", THEIR_SCREENSHOT.replace("COUNT", str(ROUND))])
        if done.rc != 0:
            raise SystemExit(f"the screenshots ended with {done.rc}: {done.stderr}")
        theirs += [seconds for seconds, _ in json.loads(done.stdout)]
        sizes["osworld"] = json.loads(done.stdout)[-1][1]
    return {"ours": spread(ours), "osworld_without_http": spread(theirs), "bytes": sizes, "ratio": ratio(theirs, ours)}


def ratio(theirs: list[float], ours: list[float]) -> float:
    """How many times longer theirs takes, by the medians."""
    return round(statistics.median(theirs) / statistics.median(ours), 2)


def fresh_containers(engine: Any, image: str, count: int) -> dict[str, Any]:
    """One desktop that is given back and started anew, again and again: what a revert is here."""
    desktop = start_desktop(engine, image, f"bench-fresh-{os.getpid()}")
    removed, started = [], []
    try:
        for _ in range(count):
            removed.append(timed(desktop.remove))
            begun = time.perf_counter()
            desktop = start_desktop(engine, image, f"bench-fresh-{os.getpid()}")
            started.append(time.perf_counter() - begun)
    finally:
        desktop.remove()
    both = [a + b for a, b in zip(removed, started, strict=True)]
    return {"both": spread(both), "remove": spread(removed), "start": spread(started)}


def guest_ways(image: str, rounds: int, containers: int) -> dict[str, Any]:
    """All of this file's figures."""
    engine = connect_engine()
    desktop = start_desktop(engine, image, f"bench-guest-{os.getpid()}", size=Size(screen=SCREEN), lease_s=1800)
    guest = Guest(desktop.host, desktop.ports[5000], SYSTEM_CLOCK)
    try:
        found = {"click": clicks(guest, rounds), "screenshot_of_an_empty_desktop": screenshots(guest, rounds)}
        launch(guest, SHEET)
        found["screenshot_of_a_spreadsheet"] = screenshots(guest, rounds)
    finally:
        desktop.remove()
    return {**found, "fresh_container": fresh_containers(engine, image, containers)}
