"""What do OSWorld's looks into Chrome give, by the real playwright at a real Chromium? Verdicts, real zeros, and losses.

36 of OSWorld's 369 tasks are graded by them, and 54 are set up by playwright.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import tldextract
from bad.policy_server import BadServer, answer

from legato_rl.config import DesktopConfig
from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.osworld import OSWorldDesktop
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = pytest.mark.desktop

SITE = "http://127.0.0.1:8123"
NOWHERE = "http://127.0.0.1:8124/"
"""Nobody serves it."""
RECIPES, SHOP = f"{SITE}/recipes.html", f"{SITE}/shop.html"
PAGES = {
    "recipes": "<title>Recipes</title><h1>Recipes</h1>",
    "shop": "<title>Shop</title><p class=price>12 crowns</p><input value=lamp>"
    "<script>document.cookie = 'basket=lamp; max-age=86400'</script>",
}
PORT = "--remote-debugging-port=1337"
SERVE = ["python3", "-m", "http.server", "8123", "--bind", "127.0.0.1", "--directory", "/tmp/site"]
NAME = f"test-{os.getpid()}-browser"
_numbers = count()


def step(kind: str, **parameters: Any) -> dict[str, Any]:
    """A setup step."""
    return {"type": kind, "parameters": parameters}


def setup(*urls: str) -> list[dict[str, Any]]:
    """As OSWorld's tasks begin: Chrome, its port, and pages."""
    made = "".join(f"cat > /tmp/site/{name}.html <<'END'\n{page}\nEND\n" for name, page in PAGES.items())
    return [
        step("execute", command=["bash", "-c", f"mkdir -p /tmp/site\n{made}"]),
        step("launch", command=SERVE),
        step("launch", command=["google-chrome", PORT]),
        step("launch", command=["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"]),
        step("chrome_open_tabs", urls_to_open=list(urls)),
    ]


def rule(**rules: Any) -> dict[str, Any]:
    """What a result is compared with."""
    return {"type": "rule", "rules": rules}


def graded(func: Any, result: Any, expected: Any, **more: Any) -> dict[str, Any]:
    """An evaluator."""
    return {"func": func, "result": result, "expected": expected, **more}


TABS = graded("is_expected_tabs", {"type": "open_tabs_info"}, rule(type="url", urls=[RECIPES, SHOP]))
ADDRESS = {"type": "active_url_from_accessTree", "goto_prefix": "http://"}
PRICE = {
    "type": "active_tab_html_parse",
    "category": "class",
    "class_singleObject": {"price": "price"},
    "goto_prefix": "http://",
}
LOOKS = [
    graded("is_expected_url_pattern_match", ADDRESS, rule(expected=["shop"])),
    graded("is_expected_active_tab", {**ADDRESS, "type": "active_tab_info"}, rule(type="url", url=SHOP)),
    graded("check_direct_json_object", PRICE, rule(expected={"price": "12 crowns"})),
    TABS,
]
"""What is so while the shop is in front, beside the recipes, and no more once its tab is closed. The last one opens a
browser where there is none."""


def together(conj: str, *looks: dict[str, Any]) -> dict[str, Any]:
    """One evaluator of several."""
    return {"conj": conj, **{part: [look[part] for look in looks] for part in ("func", "result", "expected")}}


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory, engine: Any, desktop_image: str) -> Iterator[OSWorldDesktop]:
    """One for all: each test brings it to its own task's start."""
    cache = tmp_path_factory.mktemp("cache")
    config = DesktopConfig(backend="container", image=desktop_image, screen_size=(1280, 720), ram_gb=2, cpus=2, cache_dir=cache)
    one = OSWorldDesktop(config, NAME)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of public suffixes that comes with the package will do."""
    monkeypatch.setattr(tldextract.tldextract, "TLD_EXTRACTOR", tldextract.TLDExtract(suffix_list_urls=()))


def begin(desktop: OSWorldDesktop, evaluator: dict[str, Any], *urls: str) -> None:
    """Bring it to a task's start."""
    legato = {"rollout_id": f"r:g:{next(_numbers)}:0", "group_id": "g", "attempt": 0, "try": 0, "domain": "chrome"}
    task = {"id": "browse", "instruction": "look", "config": setup(*(urls or (RECIPES, SHOP))), "evaluator": evaluator}
    desktop.reset({**task, "legato": legato})
    desktop.wait_after_reset()


def in_guest(desktop: OSWorldDesktop, command: str) -> None:
    """What a policy does in a terminal."""
    code = f"import subprocess; subprocess.run({command!r}, shell=True, check=True)"
    done = desktop.act(code)
    assert done.rc == 0, done.stderr


def end(desktop: OSWorldDesktop, program: str) -> None:
    """End a program; return when it has ended."""
    in_guest(desktop, f"pkill -x {program}; timeout 60 sh -c 'while pgrep -x {program}; do sleep 0.1; done'")


def test_what_is_there(desktop: OSWorldDesktop) -> None:
    """Every look finds it."""
    begin(desktop, together("and", *LOOKS))
    assert desktop.evaluate() == 1.0


def test_a_page_that_is_not_the_one(desktop: OSWorldDesktop) -> None:
    """The policy closed the shop, and no look finds it: a real 0.

    The fast reset leaves Chrome's port to be had, though the look before has just closed its connection there.
    """
    for _ in range(3):  # on a busy machine a reset may find too late that all is clean, and is followed by a boot
        begin(desktop, together("and", *LOOKS))
        assert desktop.evaluate() == 1.0
        begin(desktop, together("or", *LOOKS))
        if desktop.reset_way == "fast":
            break
    assert desktop.reset_way == "fast"
    desktop.act("pyautogui.hotkey('ctrl', 'w')")
    in_guest(desktop, "timeout 60 sh -c 'while wmctrl -l | grep Shop; do sleep 0.1; done'")
    assert desktop.evaluate() == 0.0


def test_a_browser_that_was_closed(desktop: OSWorldDesktop) -> None:
    """Nothing listens behind its port: a real 0."""
    begin(desktop, together("or", *LOOKS))
    end(desktop, "chromium")
    assert desktop.evaluate() == 0.0


def test_a_port_that_was_closed(desktop: OSWorldDesktop) -> None:
    """The browser runs, and the way to its port was ended: the policy's doing, and a real 0."""
    begin(desktop, together("or", *LOOKS[1:]))
    end(desktop, "socat")
    assert desktop.evaluate() == 0.0


def test_a_port_that_was_closed_and_a_web_site_to_compare_with(desktop: OSWorldDesktop) -> None:
    """OSWorld looks at the site by the same browser, and marks that it could not: the policy's doing all the same."""
    expected = {"type": "gotoRecreationPage_and_get_html_content", "selector": "class", "class": "camp-sortable-column-header"}
    begin(desktop, graded("check_direct_json_object", {"type": "active_tab_url_parse", "parse_keys": ["q"]}, expected))
    end(desktop, "socat")
    assert desktop.evaluate() == 0.0


def test_a_page_that_the_task_names(desktop: OSWorldDesktop) -> None:
    """It is opened to be graded."""
    evaluator = graded("is_added_to_steam_cart", {"type": "page_info", "url": SHOP}, rule(items=["lamp"]))
    begin(desktop, evaluator)
    assert desktop.evaluate() == 1.0


def test_cookies(desktop: OSWorldDesktop) -> None:
    """The one that the shop sets is in the profile once the browser was closed, and no other."""
    cookies = {"type": "cookie_data", "dest": "Cookies"}
    for domain, verdict in (("example.org", 1.0), ("127.0.0.1", 0.0)):
        begin(desktop, graded("is_cookie_deleted", cookies, rule(type="domains", domains=[domain])))
        desktop.act("pyautogui.hotkey('alt', 'f4')")
        in_guest(desktop, "timeout 60 sh -c 'while pgrep -x chromium; do sleep 0.1; done'")
        assert desktop.evaluate() == verdict


def test_a_page_that_nobody_serves(desktop: OSWorldDesktop) -> None:
    """OSWorld would go on with an empty one."""
    begin(desktop, graded("is_added_to_steam_cart", {"type": "page_info", "url": NOWHERE}, rule(items=["lamp"])))
    with pytest.raises(DesktopFailure, match="ERR_CONNECTION_REFUSED") as failure:
        desktop.evaluate()
    assert failure.value.type == "download"


def test_a_setup_of_a_page_that_nobody_serves(desktop: OSWorldDesktop) -> None:
    """OSWorld would go on with the browser's own error page."""
    with pytest.raises(DesktopFailure, match="the setup opened") as failure:
        begin(desktop, TABS, SHOP, NOWHERE)
    assert failure.value.type == "download"


def test_a_browser_that_hangs(desktop: OSWorldDesktop) -> None:
    """It takes the connection and says nothing: no verdict."""
    begin(desktop, TABS)
    in_guest(desktop, "pkill -STOP -x chromium")
    with pytest.raises(DesktopFailure, match="the guest's browser") as failure:
        desktop.evaluate()
    assert failure.value.type == "guest_timeout"


def test_a_container_that_is_gone(desktop: OSWorldDesktop, engine: Any) -> None:
    """Taken away while the verdict is made: OSWorld makes an empty list of tabs of it."""

    def take(server: BadServer, client: socket.socket) -> None:
        (container,) = (one for one in ours(engine) if one.labels[DESKTOP] == NAME)
        container.remove(force=True)
        answer(200, b"gold")(server, client)

    with BadServer([], gets={"/v1/gold": take}) as web:
        gold = {"type": "cloud_file", "path": f"{web.url}/gold", "dest": "gold"}
        first = graded("exact_match", {"type": "vm_command_line", "command": ["true"]}, gold)
        begin(desktop, together("or", first, TABS))
        with pytest.raises(DesktopFailure) as failure:
            desktop.evaluate()
    assert failure.value.type in ("answer_lost", "guest_unreachable")


def test_the_next_task(desktop: OSWorldDesktop) -> None:
    """On a fresh desktop after all that."""
    begin(desktop, TABS)
    assert desktop.evaluate() == 1.0
