"""Does the bundled server's command start and end as a program should, and does a crash take the whole process?"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import requests

from legato_rl.errors import ExitCode

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "legato_rl", "fake-policy"]
CRASH = """
from legato_rl.config import DesktopConfig, FakeConfig
from legato_rl.fake.desktop import FakeDesktop
desktop = FakeDesktop(DesktopConfig(backend="fake", screen_size=(320, 240), fake=FakeConfig(crash=1)), "d0")
desktop.reset({"id": "t"})
desktop.act("WAIT")
"""


def start(*options: str) -> tuple[subprocess.Popen[str], str]:
    """The command, running, and the URL that it printed first."""
    process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, ExitCode.DONE), (signal.SIGINT, ExitCode.INTERRUPTED)])
def test_it_serves_until_it_is_ended(sent: signal.Signals, code: ExitCode) -> None:
    """The first line is the URL; an asked end is 0 and Ctrl-C is 130, also with a request in flight."""
    process, url = start("--latency", "60", "--concurrency", "1", "--model", "m")
    assert requests.get(f"{url}/models", timeout=60).json()["data"][0]["id"] == "m"
    with pytest.raises(requests.Timeout):
        requests.post(f"{url}/chat/completions", json={"messages": [{"role": "user"}]}, timeout=0.05)
    process.send_signal(sent)
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == code


def test_wrong_options_are_one_sentence() -> None:
    """A rate over 1 and a port that is taken: the field and the value, exit code 2."""
    process, url = start()
    port = url.removesuffix("/v1").rpartition(":")[2]
    for options, words in ((("--skill", "2"), "skill is 2.0"), (("--port", port), f"port is {port}")):
        wrong = subprocess.run([*COMMAND, *options], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (ExitCode.BAD_INPUT, 1)
        assert words in wrong.stderr
    process.terminate()
    process.communicate(timeout=60)


def test_a_crash_is_a_kill() -> None:
    """`crash` ends the process that drives the desktop, without a word."""
    ended = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, b"")
