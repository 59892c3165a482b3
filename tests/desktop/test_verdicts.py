"""Is the guest's own "no" a real 0, with OSWorld's real evaluators, and never a broken desktop?"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import requests
from bad.guest import Answer, Guest, as_json, done
from bad.policy_server import BadServer, Habit, answer, half_an_answer, hang_up
from openpyxl import Workbook
from scripted import desktop, task

from legato_rl.desktop import DesktopFailure

pytestmark = pytest.mark.desktop

RULE = {"type": "rule", "rules": {"expected": "yes\n"}}
COMMAND = {"type": "vm_command_line", "command": ["answer", "it"]}
HOME = "/home/user"


def sheet(value: str) -> bytes:
    """A spreadsheet with one cell."""
    book, file = Workbook(), io.BytesIO()
    book.active["A1"] = value
    book.save(file)
    return file.getvalue()


GOLD = sheet("right")
TABLE_RULES = {"rules": [{"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}]}


def verdict(tmp_path: Path, guest: Guest, one: dict[str, Any], *actions: str) -> float:
    """What a policy gets that does `actions`."""
    with guest, desktop(tmp_path, guest) as driven:
        driven.reset(one)
        for action in actions:
            driven.act(action)
        reward = driven.evaluate()
    assert isinstance(reward, float)
    return reward


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        (done(output="yes\n"), 1.0),
        (done(output="no\n"), 0.0),
        (done(rc=1, error="no such thing"), 0.0),
        (as_json({"status": "error", "message": "[Errno 2] No such file or directory: 'answer'"}, 500), 0.0),
        (as_json({"status": "error", "message": "'utf-8' codec can't decode byte 0xff in position 0"}, 500), 0.0),
        (as_json({"status": "error", "message": "Command '['answer']' timed out after 120 seconds"}, 500), 0.0),
    ],
)
def test_a_command_that_is_graded(tmp_path: Path, said: Answer, reward: float) -> None:
    """Its output, whatever it is; its exit code; and that it is not there, for which the guest has only a 500."""
    one = task("exact_match", result=COMMAND, expected=RULE)
    assert verdict(tmp_path, Guest(commands={"^answer it": said}), one) == reward


@pytest.mark.parametrize(("made", "reward"), [(GOLD, 1.0), (sheet("wrong"), 0.0), (None, 0.0)])
def test_a_spreadsheet(tmp_path: Path, made: bytes | None, reward: float) -> None:
    """The right one, another one, and one that was deleted or never made."""
    path = f"{HOME}/made.xlsx"
    with BadServer([], gets={"/gold.xlsx": answer(200, GOLD)}) as web:
        one = task(
            "compare_table",
            result={"type": "vm_file", "path": path, "dest": "made.xlsx"},
            expected={"type": "cloud_file", "path": web.url.replace("/v1", "/gold.xlsx"), "dest": "gold.xlsx"},
            options=TABLE_RULES,
        )
        guest = Guest(files={path: made} if made is not None else {})
        assert verdict(tmp_path, guest, one) == reward


MISSING: dict[str, dict[str, Any]] = {
    "compare_pptx_files": {"result": {"type": "vm_file", "path": f"{HOME}/a.pptx", "dest": "a.pptx"}, "expected": RULE},
    "compare_docx_files": {"result": {"type": "vm_file", "path": f"{HOME}/a.docx", "dest": "a.docx"}, "expected": RULE},
    "compare_text_file": {"result": {"type": "vm_file", "path": f"{HOME}/a.txt", "dest": "a.txt"}, "expected": RULE},
    "check_json": {"result": {"type": "vm_file", "path": f"{HOME}/a.json", "dest": "a.json"}, "expected": RULE},
    "check_qt_bgcone": {"result": {"type": "vlc_config", "dest": "vlcrc"}, "expected": RULE},
    "is_vlc_playing": {"result": {"type": "vlc_playing_info", "dest": "status.xml"}, "expected": RULE},
    "compare_images": {"result": {"type": "vm_wallpaper", "dest": "wall.png"}, "expected": RULE},
    "check_gnome_favorite_apps": {"result": {"type": "vm_command_line", "command": "answer"}, "expected": RULE},
    "is_in_list": {"result": {"type": "list_directory", "path": f"{HOME}/none"}, "expected": RULE},
    "check_moved_jpgs": {"result": {"type": "list_directory", "path": f"{HOME}/none"}, "expected": RULE},
    "is_in_vm_clickboard": {"result": {"type": "vm_command_line", "command": "answer"}, "expected": RULE},
    "is_expected_bookmarks": {"result": {"type": "bookmarks"}, "expected": RULE},
}
"""By metric: a result that the guest does not have."""


@pytest.mark.parametrize("func", MISSING)
def test_what_is_not_there(tmp_path: Path, func: str) -> None:
    """For each kind of result: the metric may take the None or choke on it, the reward is 0."""
    guest = Guest(
        commands={"^answer": done(rc=1), "platform.system": done(output="Linux\n"), "expanduser": done(output="/x\n")}
    )
    assert verdict(tmp_path, guest, task(func, **MISSING[func])) == 0.0


def test_a_folder_in_the_files_place(tmp_path: Path) -> None:
    """The guest cannot read it, and says so by a 500."""
    said = as_json({"error": "Failed to serve file: [Errno 21] Is a directory: '/x'"}, 500)
    one = task("check_json", result={"type": "vm_file", "path": "/x", "dest": "x"}, expected=RULE)
    assert verdict(tmp_path, Guest(habits={"/file": [lambda: said]}), one) == 0.0


@pytest.mark.parametrize(
    ("conj", "made", "reward"),
    [
        ("and", ("a", "b"), 1.0),
        ("and", ("b",), 0.0),
        ("and", (), 0.0),
        ("or", ("a",), 1.0),
        ("or", ("b",), 1.0),
        ("or", (), 0.0),
    ],
)
def test_lists(tmp_path: Path, conj: str, made: tuple[str, ...], reward: float) -> None:
    """A metric that chokes on a missing file is 0 in its place: the other one of an `or` still counts."""
    path = {name: f"{HOME}/{name}.json" for name in "ab"}
    one = task(
        ["check_json", "check_json"],
        conj=conj,
        result=[{"type": "vm_file", "path": path[name], "dest": f"{name}.json"} for name in "ab"],
        expected=[{"type": "rule", "rules": {"expect": [{"key": ["x"], "method": "eq", "ref": 1}]}}] * 2,
    )
    guest = Guest(files={path[name]: json.dumps({"x": 1}).encode() for name in made})
    assert verdict(tmp_path, guest, one) == reward


@pytest.mark.parametrize(
    ("func", "actions", "reward"),
    [
        ("infeasible", ("FAIL",), 1.0),
        ("infeasible", ("DONE",), 0.0),
        ("infeasible", (), 0.0),
        ("infeasible", ("FAIL", "WAIT"), 0.0),
        ("exact_match", ("FAIL",), 0.0),
        ("exact_match", ("DONE",), 1.0),
        ("exact_match", ("pyautogui.click(1, 2)", "DONE"), 1.0),
    ],
)
def test_what_was_said_last(tmp_path: Path, func: str, actions: tuple[str, ...], reward: float) -> None:
    """FAIL is right for an infeasible task and wrong for any other; the last action counts."""
    evaluator = {} if func == "infeasible" else {"result": COMMAND, "expected": RULE}
    guest = Guest(commands={"^answer it": done(output="yes\n")})
    assert verdict(tmp_path, guest, task(func, **evaluator), *actions) == reward


def test_a_postconfig_that_the_guest_refuses(tmp_path: Path) -> None:
    """It opens a file that the policy deleted: the evaluator judges what is there."""
    steps = [{"type": "open", "parameters": {"path": f"{HOME}/gone.txt"}}]
    one = task("exact_match", result=COMMAND, expected=RULE, postconfig=steps)
    assert verdict(tmp_path, Guest(commands={"^answer it": done(output="no")}), one) == 0.0


def test_what_a_step_of_the_postconfig_wrote(tmp_path: Path) -> None:
    """Its output is graded from the rollout's own folder."""
    steps = [{"type": "execute", "parameters": {"command": ["answer", "it"], "stdout": "said.txt"}}]
    one = task("is_in_list", result={"type": "cache_file", "path": "said.txt"}, expected=RULE, postconfig=steps)
    guest = Guest(commands={"^answer it": as_json({"status": "error", "message": "[Errno 2] No such file"}, 500)})
    assert verdict(tmp_path, guest, one) == 0.0


def says(command: str, file: str) -> dict[str, Any]:
    """A step whose output goes into a file of the rollout."""
    return {"type": "execute", "parameters": {"command": ["answer", command], "stdout": file}}


BROKEN = {"type": "rule", "rules": {}}
"""The metric raises for want of a field, whatever it gets."""


@pytest.mark.parametrize(
    ("graded", "lacking"), [("first.txt", True), ("second.txt", False)], ids=["its own step", "another step"]
)
def test_whose_output_is_graded(tmp_path: Path, graded: str, lacking: bool) -> None:
    """Only the step that wrote the graded file says by its exit code that there is nothing to grade."""
    steps = [says("first", "first.txt"), says("second", "second.txt")]
    result = {"type": "cache_file", "path": graded}
    one = task("is_in_list", result=result, expected=BROKEN, postconfig=steps)
    guest = Guest(commands={"answer first": done(rc=1), "answer second": done(output="yes\n")})
    if lacking:
        assert verdict(tmp_path, guest, one) == 0.0
    else:
        with pytest.raises(KeyError):
            verdict(tmp_path, guest, one)


def test_a_step_that_was_not_reached(tmp_path: Path) -> None:
    """The guest refused the one before, so the file that would be graded was not written."""
    steps = [{"type": "open", "parameters": {"path": f"{HOME}/gone.txt"}}, says("it", "said.txt")]
    result = {"type": "cache_file", "path": "said.txt"}
    one = task("is_in_list", result=result, expected=RULE, postconfig=steps)
    assert verdict(tmp_path, Guest(), one) == 0.0


def test_a_step_that_breaks_after_a_no(tmp_path: Path) -> None:
    """An earlier step's "no" does not excuse it: the exception is its own."""
    steps = [
        {"type": "close_window", "parameters": {"window_name": "gone"}},
        {"type": "download", "parameters": {"files": [{"url": "", "path": ""}]}},
    ]
    guest = Guest(habits={"/setup/close_window": [lambda: as_json({"error": "not found"}, 404)]})
    with pytest.raises(Exception, match="Invalid URL"):
        verdict(tmp_path, guest, task(result=COMMAND, expected=RULE, postconfig=steps))


@pytest.mark.parametrize("fault", [answer(500, b""), answer(404, b""), half_an_answer, hang_up])
def test_a_gold_file_that_cannot_be_had(tmp_path: Path, fault: Habit) -> None:
    """Our side's failure, also in the middle of its body: no verdict, and another try."""
    with BadServer([], gets={"/gold.txt": fault}) as web:
        cloud = {"type": "cloud_file", "path": web.url.replace("/v1", "/gold.txt"), "dest": "gold.txt"}
        one = task("compare_text_file", result={"type": "vm_file", "path": "/x", "dest": "x"}, expected=cloud)
        with pytest.raises(DesktopFailure) as failure:
            verdict(tmp_path, Guest(files={"/x": b"x"}), one)
    assert failure.value.type == "download"


@pytest.mark.parametrize("fault", [answer(500, b""), half_an_answer])
def test_a_postconfig_that_downloads(tmp_path: Path, fault: Habit) -> None:
    """The same before the verdict, where OSWorld raises it as a plain Exception."""
    with BadServer([], gets={"/tool.py": fault}) as web:
        files = [{"url": web.url.replace("/v1", "/tool.py"), "path": "/tool.py"}]
        steps = [{"type": "download", "parameters": {"files": files}}]
        with pytest.raises(DesktopFailure) as failure:
            verdict(tmp_path, Guest(), task(result=COMMAND, expected=RULE, postconfig=steps))
    assert failure.value.type == "download"


@pytest.mark.parametrize("fault", [answer(429, b""), hang_up])
def test_a_time_zone_that_nobody_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Habit) -> None:
    """OSWorld asks a web site where this machine is, and would grade by UTC without its answer."""
    rules = {"relativeTime": {"from": "tomorrow"}, "expected": {"time": "{DoW}"}}
    one = task("check_direct_json_object", result=COMMAND, expected={"type": "rule_relativeTime", "rules": rules})
    usual = requests.get
    with BadServer([], gets={"/json/": fault}) as web:
        there = web.url.replace("/v1", "/json/")
        place = lambda url, **given: usual(url.replace("https://ipapi.co/json/", there), **given)  # noqa: E731
        monkeypatch.setattr(requests, "get", place)
        with pytest.raises(DesktopFailure) as failure:
            verdict(tmp_path, Guest(), one)
        assert [asked.path for asked in web.asked] == ["/json/"]
    assert failure.value.type == "download"


def test_an_evaluator_that_is_broken(tmp_path: Path) -> None:
    """Nothing was missing in the guest: the exception is the evaluator's own."""
    one = task("exact_match", result=COMMAND, expected={"type": "rule", "rules": {}})
    with pytest.raises(KeyError):
        verdict(tmp_path, Guest(commands={"^answer it": done(output="yes")}), one)


def test_an_expectation_that_was_not_found(tmp_path: Path) -> None:
    """OSWorld reads it from a web site, marks that it could not, and grades 0: the evaluator failed."""
    rules = {"expected": {"order": "__EVALUATION_FAILED__"}}
    one = task("check_direct_json_object", result=COMMAND, expected={"type": "rule", "rules": rules})
    with pytest.raises(LookupError, match="rule did not find"):
        verdict(tmp_path, Guest(commands={"^answer it": done(output='{"order": "1"}')}), one)


def test_a_verdict_is_given_once(tmp_path: Path) -> None:
    """A second one would be about a desktop that the first has changed."""
    with Guest(commands={"^answer it": done(output="yes\n")}) as guest, desktop(tmp_path, guest) as driven:
        driven.reset(task("exact_match", result=COMMAND, expected=RULE))
        assert driven.evaluate() == 1.0
        with pytest.raises(DesktopFailure, match="without a reset"):
            driven.evaluate()
