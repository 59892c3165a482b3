"""Is a browser that does not speak told from one that the policy closed? Playwright's words, a scripted guest."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from bad.guest import Answer, Guest, done, drop

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop import browser as browser_module
from legato_rl.workers.desktop.browser import watch_browser
from legato_rl.workers.desktop.guest import Guest as Client
from legato_rl.workers.desktop.watch import Watch

HANGS = "BrowserType.connect_over_cdp: Timeout 30000ms exceeded.\nCall log:"
REFUSES = "BrowserType.connect_over_cdp: Unexpected status 400 when connecting to http://127.0.0.1:9222/json/version/."
CLOSED = "BrowserType.connect_over_cdp: connect ECONNREFUSED 127.0.0.1:9222"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer is late, not lost."""
    monkeypatch.setattr(browser_module, "PROBE_S", 60.0)


class Playwright(ModuleType):
    """As much of playwright as is watched. `words`: what a connection fails with, as version 1.65 says it."""

    def __init__(self, words: str) -> None:
        super().__init__("playwright.sync_api")

        class BrowserType:
            def connect_over_cdp(self, url: str) -> Any:
                if words:
                    raise RuntimeError(words)
                return "a browser"

        self.BrowserType = BrowserType


def connect(monkeypatch: pytest.MonkeyPatch, guest: Guest, words: str) -> Watch:
    """What a watch notes of one connection."""
    package = ModuleType("playwright")
    package.__spec__ = ModuleSpec("playwright", None, is_package=True)
    api = Playwright(words)
    monkeypatch.setitem(sys.modules, "playwright", package)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", api)
    watch, usual = Watch(), api.BrowserType.connect_over_cdp
    with guest, watch_browser(Client("127.0.0.1", guest.port, SYSTEM_CLOCK), watch):
        assert api.BrowserType.connect_over_cdp is not usual
        if words:
            with pytest.raises(RuntimeError):
                api.BrowserType().connect_over_cdp("http://guest:9222")
        else:
            assert api.BrowserType().connect_over_cdp("http://guest:9222") == "a browser"
    assert api.BrowserType.connect_over_cdp is usual
    return watch


@pytest.mark.parametrize(
    ("words", "browser", "lost"),
    [
        (HANGS, done(output="321\n"), True),
        (REFUSES, done(output="321\n"), True),
        (HANGS, done(rc=1), False),
        (REFUSES, done(rc=1), False),
        (CLOSED, done(output="321\n"), False),
        (CLOSED, done(rc=1), False),
        ("", done(output="321\n"), False),
    ],
)
def test_a_connection(monkeypatch: pytest.MonkeyPatch, words: str, browser: Answer, lost: bool) -> None:
    """Lost where a browser runs and does not speak; the guest's own "no" where none runs or its port is closed."""
    watch = connect(monkeypatch, Guest(commands={"^pgrep": browser}), words)
    assert [loss.type for loss in watch.losses] == ["guest_timeout"] * lost


def test_a_guest_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its own answer is the loss."""
    watch = connect(monkeypatch, Guest(habits={"/execute": [drop]}), HANGS)
    with pytest.raises(DesktopFailure) as failure:
        watch.check()
    assert failure.value.type == "answer_lost"


def test_no_playwright(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to watch."""
    monkeypatch.setattr("legato_rl.workers.desktop.browser.find_spec", lambda name: None)
    with Guest() as guest, watch_browser(Client("127.0.0.1", guest.port, SYSTEM_CLOCK), Watch()):
        assert guest.asked == []
