"""Which windows is a task's start waited for?"""

from __future__ import annotations

from typing import Any

import pytest

from legato_rl.workers.desktop.windows import UNWANTED, Window, expected_windows, parse_windows


def setup(*steps: dict[str, Any]) -> dict[str, Any]:
    """A task with these steps."""
    return {"config": list(steps)}


def launch(command: Any) -> dict[str, Any]:
    """A step that launches."""
    return {"type": "launch", "parameters": {"command": command}}


def test_a_listing() -> None:
    """Class and title of each window; a window without a title has none."""
    text = "0x01  0 mousepad.Mousepad  host  a note - Mousepad\n0x02 -1 tint2.Tint2 host\nnonsense\n"
    assert parse_windows(text) == [Window(1, "mousepad.Mousepad", "a note - Mousepad"), Window(2, "tint2.Tint2", "")]


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["google-chrome", "--remote-debugging-port=1337"], ["google-chrome"]),
        (["/usr/bin/thunderbird"], ["thunderbird"]),
        ("VLC_VERBOSE=-1 vlc --no-audio x.mp4", ["vlc"]),
        (["socat", "tcp-listen:9222"], []),
        (["python", "-m", "http.server"], []),
        (["soffice", "--headless", "--convert-to", "pdf", "a.odt"], []),
        (["code", "--install-extension", "x"], []),
        ("mousepad 'unclosed", ["mousepad"]),
        ("", []),
    ],
)
def test_what_is_launched(command: Any, what: list[str]) -> None:
    """Known programs with a window; others are not waited for."""
    assert [expected.what for expected in expected_windows(setup(launch(command)))] == what


@pytest.mark.parametrize(
    "step",
    [
        {"type": "close_window", "parameters": {"window_name": "x"}},
        {"type": "execute", "parameters": {"command": ["pkill", "chrome"]}},
        {"type": "command", "parameters": {"command": "killall gimp"}},
    ],
)
def test_a_setup_that_ends_programs(step: dict[str, Any]) -> None:
    """What it launched may be gone by its own doing."""
    assert expected_windows(setup(launch(["gimp"]), step)) == []


@pytest.mark.parametrize(
    ("path", "title", "met"),
    [
        ("/home/user/a.txt", "a.txt - Mousepad", True),
        ("/home/user/a.txt", "*A.txt (~/) - gedit", True),
        ("/home/user/a.txt", "Terminal", False),
        ("/home/user/a.txt", "data.txt - Mousepad", False),
        ("/home/user/a.txt", "a.txt.bak - Mousepad", False),
        ("/home/user/main.py", "main.py - Visual Studio Code", True),
        ("/home/user/main.py", "domain.py - Code", False),
        ("/home/user/my report (1).docx", "my report (1).docx — LibreOffice Writer", True),
        ("/home/user/my report (1).docx", "[my report (1)] (imported)-1.0", True),
        ("/home/user/über_1.png", "[über_1] (importiert)-1.0 (RGB) – GIMP", True),
        ("/home/user/über_1.png", "über_12.png", False),
        ("/home/user/.bashrc", ".bashrc - gedit", True),
    ],
)
def test_names_are_whole_words(path: str, title: str, met: bool) -> None:
    """A short name is a part of many a title."""
    (expected,) = expected_windows(setup({"type": "open", "parameters": {"path": path}}))
    assert bool(expected.among([Window(1, "x.X", title)])) is met


@pytest.mark.parametrize(
    ("title", "met"), [("budget.xlsx - LibreOffice Calc", True), ("BUDGET - Calc", True), ("other - Calc", False)]
)
def test_what_is_opened(title: str, met: bool) -> None:
    """The file's name, or its stem, is in a title."""
    (expected,) = expected_windows(setup({"type": "open", "parameters": {"path": "/home/user/Budget.xlsx"}}))
    assert bool(expected.among([Window(1, "libreoffice.libreoffice-calc", title)])) is met


def test_a_class_is_met() -> None:
    """Whatever its title."""
    (expected,) = expected_windows(setup(launch(["google-chrome"])))
    browser = Window(1, "Navigator.Google-chrome", "New Tab")
    assert expected.among([Window(2, "xterm.XTerm", "chrome"), browser]) == [browser]


@pytest.mark.parametrize(
    ("title", "unwanted"), [("Document Recovery", True), ("“Files” is not responding", True), ("a.txt", False)]
)
def test_windows_that_are_in_the_way(title: str, unwanted: bool) -> None:
    """They come up by themselves."""
    assert bool(UNWANTED.search(title)) is unwanted
