"""Is an action in the prepared interpreter what it is in a new one, only sooner?"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from container_desktops import PREFIX, Site

from legato_rl.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.desktop

PROGRAMS = {
    "output": "print('here'); import sys; print('there', file=sys.stderr)",
    "no end of line": "import sys; sys.stdout.write('x')",
    "exit code": "import sys; sys.exit(7)",
    "exit text": "raise SystemExit('sorry')",
    "exit huge": "import sys; sys.exit(300)",
    "exception": "1/0",
    "deep exception": "def f():\n    raise ValueError('x')\nf()",
    "syntax": "print(1) 1/0",
    "main": "print(__name__); import sys; print(sys.argv)",
    "module": "import __main__; x = 3; print(__main__.x)",
    "atexit": "import atexit; atexit.register(print, 'bye')",
    "thread": "import threading; threading.Timer(0.05, print, ['late']).start()",
    "class": "class A: pass\nprint(A.__module__)",
    "environment": "import os; print(os.getcwd(), os.environ['HOME'], os.environ['DISPLAY'], os.getuid())",
    "stdin": "import sys; print(repr(sys.stdin.read()))",
    "child": "import subprocess; subprocess.run(['echo', 'child'])",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "pointer": "pyautogui.moveTo(5, 6); print(tuple(pyautogui.position()))",
    "no such call": "pyautogui.nothing()",
    "not ascii": "print('äöü €')",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_a_new_interpreter(site: Site, name: str) -> None:
    """Outputs and exit code are those of `python3 -c`, whatever the program does."""
    code = PREFIX + PROGRAMS[name]
    quick = site.post("/execute", command=["python", "-c", code]).json()
    # by its path it is not taken for an action
    usual = site.post("/execute", command=["/usr/bin/python3", "-c", code]).json()
    assert quick == usual


def test_typing_and_clicking_reach_the_programs(site: Site) -> None:
    """What is typed is in the file that the editor saves."""
    site.run("touch typed.txt")
    site.post("/setup/open_file", path="typed.txt")
    assert site.post("/legato/ready", title="typed", cap=60).json()["ready"]
    site.act("pyautogui.click(960, 540); pyautogui.typewrite('Hello, World! 123\\n'); pyautogui.hotkey('ctrl', 's')")
    assert site.post("/legato/ready", cap=60).json()["ready"]
    site.run("timeout 50 sh -c 'until [ -s typed.txt ]; do sleep 0.1; done'")
    assert site.form("/file", file_path="typed.txt").text == "Hello, World! 123\n"


def test_pause_is_between_calls(site: Site) -> None:
    """pyautogui's pause lies before the next call, not after the last one."""
    code = PREFIX + "import time; pyautogui.PAUSE = {}; t = time.monotonic(); {}; print(time.monotonic() - t)"
    one = site.post("/legato/act", code=code.format(50, "pyautogui.click(5, 5)")).json()
    three = site.post("/legato/act", code=code.format(3, "pyautogui.click(5, 5); " * 2 + "pyautogui.click(5, 5)")).json()
    assert float(one["output"]) < 50
    assert float(three["output"]) >= 6


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_background_child_is_not_waited_for(site: Site, prefix: str) -> None:
    """A child that keeps the outputs open holds nobody up, in a new interpreter and in the prepared one."""
    code = prefix + "import subprocess; subprocess.Popen(['sleep', '300']); print('done')"
    start = SYSTEM_CLOCK.monotonic()
    assert site.post("/execute", command=["python", "-c", code]).json()["output"] == "done\n"
    assert site.run("printf copied | xclip -selection clipboard; sleep 300 & echo out") == "out\n"
    assert SYSTEM_CLOCK.monotonic() - start < 60
    assert site.run("xclip -selection clipboard -o") == "copied"
    assert "sleep 300" in site.run("ps -eo args")


def test_time_limit(site: Site) -> None:
    """An action that does not end is killed and told."""
    told = site.post("/legato/act", code=PREFIX + "time.sleep(60)", timeout=0.3)
    assert (told.status_code, told.json()["status"]) == (500, "error")
    assert site.act("print('next')")["output"] == "next\n"


@pytest.mark.parametrize("code", ["os.kill(os.getppid(), 9); time.sleep(9)", "os.system('pkill python'); time.sleep(9)"])
def test_policy_that_kills_interpreters_gets_its_answer(site: Site, code: str) -> None:
    """The server is not the user's to kill; the action ended by a signal, and the next one works."""
    assert site.act("import os; " + code)["returncode"] < 0
    assert site.act("print('next')")["output"] == "next\n"


def test_many_actions_leave_no_x_client(site: Site) -> None:
    """The X server has room for 256 clients: actions and screenshots take none away."""
    before = _clients(site)
    for _ in range(300):
        site.post("/legato/act", code=PREFIX + "pyautogui.moveRel(1, 0)")
    for _ in range(20):
        site.get("/screenshot")
    assert _clients(site) <= before + 2


def _clients(site: Site) -> int:
    """How many clients the X server has, the one that counts among them."""
    code = "from Xlib.display import Display; print(len(Display().res_query_clients().clients))"
    return int(site.post("/execute", command=["python3", "-c", code]).json()["output"])


def test_action_with_ready(site: Site) -> None:
    """The wait that comes with an action has heard what the action drew."""
    code = PREFIX + "import subprocess; subprocess.Popen(['xterm', '-T', 'drawn-now', '-e', 'sleep', '99'])"
    said = site.post("/legato/act", code=code, ready={"title": "drawn-now", "cap": 60}).json()
    assert said["returncode"] == 0
    assert said["ready"]["ready"]
    assert "drawn-now" in said["ready"]["windows"]


def test_animation_is_told_and_does_not_hold_up(site: Site) -> None:
    """A region that is drawn again and again is no news; a title that never comes is waited for until the cap."""
    site.post("/setup/launch", command=["xterm", "-T", "moving", "-e", "sh -c 'while :; do date +%N; sleep 0.05; done'"])
    said = site.post("/legato/ready", title="moving", cap=60).json()
    assert said["ready"]
    never = site.post("/legato/ready", title="^never$", cap=0.4).json()
    assert (never["ready"], never["title"]) == (False, False)


def test_times(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Shown, not judged: milliseconds of an action, of OSWorld's way, and of a screenshot."""
    click = PREFIX + "pyautogui.click(900, 600)"
    ways: dict[str, Callable[[], object]] = {
        "click, prepared": lambda: site.post("/legato/act", code=click),
        "click, /execute": lambda: site.post("/execute", command=["python", "-c", click]),
        "click, new interpreter": lambda: site.post("/execute", command=["/usr/bin/python3", "-c", click]),
        "screenshot": lambda: site.get("/screenshot"),
        "reset": site.reset,
    }
    with capsys.disabled():
        for name, way in ways.items():
            times = []
            for _ in range(10):
                start = SYSTEM_CLOCK.monotonic()
                way()
                times.append((SYSTEM_CLOCK.monotonic() - start) * 1e3)
            print(f"\n{name}: median {statistics.median(times):.0f} ms, most {max(times):.0f} ms", end="")
