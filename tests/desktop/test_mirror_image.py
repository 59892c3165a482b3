"""Does a policy that does nothing, deletes the file or leaves nonsense get its real 0? OSWorld's evaluators, by shape."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docx
import pptx
import pytest
from bad.guest import Answer, Guest, as_json, done
from bad.policy_server import BadServer, answer
from openpyxl import Workbook
from scripted import desktop, task

pytestmark = pytest.mark.desktop

HOME = "/home/user"
GARBLED = b"asdf \xff\x00 jkl;"
"""What is no file of any kind."""


def saved(book: Any) -> bytes:
    """The bytes of what has a `save`."""
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def sheet(words: str) -> bytes:
    """A spreadsheet that says it."""
    book = Workbook()
    book.active["A1"] = words
    return saved(book)


def letter(words: str) -> bytes:
    """A text document that says it, in a table and beside it, in lines as far apart as it is long."""
    document = docx.Document()
    document.add_paragraph(words).paragraph_format.line_spacing = float(len(words))
    document.add_table(1, 1).cell(0, 0).text = words
    return saved(document)


def slides(words: str) -> bytes:
    """A presentation that says it."""
    show = pptx.Presentation()
    show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = words
    return saved(show)


def archive(words: str) -> bytes:
    """A zip with a file that says it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("a.txt", words)
    return file.getvalue()


def form(pattern: str) -> Callable[[str], bytes]:
    """A text with the words in it."""
    return lambda words: pattern.replace("WORDS", words).encode()


@dataclass(frozen=True)
class Graded:
    """How a metric grades a file: what makes one, the rules or a gold file beside it."""

    extension: str
    make: Callable[[str], bytes]
    rules: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


FILES: dict[str, Graded] = {
    "compare_table": Graded("xlsx", sheet, options={"rules": [{"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}]}),
    "compare_docx_files": Graded("docx", letter),
    "compare_docx_tables": Graded("docx", letter),
    "compare_line_spacing": Graded("docx", letter),
    "compare_pptx_files": Graded("pptx", slides),
    "compare_text_file": Graded("txt", form("WORDS")),
    "diff_text_file": Graded("txt", form("WORDS")),
    "compare_csv": Graded("csv", form("WORDS,1\n")),
    "compare_zip_files": Graded("zip", archive),
    "compare_archive": Graded("zip", archive),
    "check_json": Graded("json", form('{"x": "WORDS"}'), {"expect": [{"key": ["x"], "method": "eq", "ref": "right"}]}),
    "check_json_settings": Graded("json", form('{"x": "WORDS"}'), {"expected": {"x": "right"}}),
    "check_csv": Graded("csv", form("x\nWORDS\n"), {"expect": [{"x": "right"}]}),
    "check_thunderbird_prefs": Graded(
        "js",
        form('user_pref("x", "WORDS");\n'),
        {"expect": {"x": {"method": "eq", "ref": "right"}}},
    ),
    "check_config_status": Graded("rc", form('(theme "WORDS")\n'), {"key": "theme", "value": '"right"'}),
    "file_contains": Graded("txt", form("WORDS"), {"expected": ["right"]}),
    "check_list": Graded("txt", form("WORDS"), {"expect": ["right"]}),
}
"""By metric, all that need no heavy library. They grade 200 of OSWorld's 369 tasks."""


def verdict(tmp_path: Path, guest: Guest, one: dict[str, Any]) -> float:
    """What a policy gets that ends with such a guest."""
    with guest, desktop(tmp_path, guest) as driven:
        driven.reset(one)
        driven.act("DONE")
        return driven.evaluate()


def of_a_file(tmp_path: Path, func: str, made: bytes | None) -> float:
    """What a policy gets that leaves `made`, or no file."""
    graded = FILES[func]
    path, gold = f"{HOME}/made.{graded.extension}", f"/gold/gold.{graded.extension}"
    expected: dict[str, Any] = {"type": "rule", "rules": graded.rules}
    if graded.rules is None:
        expected = {"type": "vm_file", "path": gold, "dest": f"gold.{graded.extension}"}
    result = {"type": "vm_file", "path": path, "dest": f"made.{graded.extension}"}
    guest = Guest(files={gold: graded.make("right"), **({path: made} if made is not None else {})})
    return verdict(tmp_path, guest, task(func, result=result, expected=expected, options=graded.options))


@pytest.mark.parametrize("func", FILES)
def test_a_file(tmp_path: Path, func: str) -> None:
    """The right one gets its 1; the one that was there before, and none, get 0."""
    make = FILES[func].make
    verdicts = [
        of_a_file(tmp_path / str(n), func, made) for n, made in enumerate((make("right"), make("something else"), None))
    ]
    assert verdicts == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("func", FILES)
def test_nonsense_in_place_of_a_file(tmp_path: Path, func: str) -> None:
    """0, whether the metric bears it or raises."""
    assert of_a_file(tmp_path, func, GARBLED) == 0.0


@pytest.mark.parametrize("func", ["compare_pptx_files", "compare_archive"])
def test_a_gold_file_that_is_nonsense(tmp_path: Path, func: str) -> None:
    """The metric raises on our own file: no policy is to blame, and none gets a 0."""
    extension = FILES[func].extension
    with BadServer([], gets={"/gold": answer(200, GARBLED)}) as web:
        one = task(
            func,
            result={"type": "vm_file", "path": "/made", "dest": f"made.{extension}"},
            expected={"type": "cloud_file", "path": web.url.replace("/v1", "/gold"), "dest": f"gold.{extension}"},
        )
        with pytest.raises(Exception, match=r"Package not found|could not be opened|no such file|not a"):
            verdict(tmp_path, Guest(files={"/made": FILES[func].make("right")}), one)


@pytest.mark.parametrize("said", [b"<no xml", b"asdf"])
def test_a_tree_that_cannot_be_read(tmp_path: Path, said: bytes) -> None:
    """No file is graded: what the metric raises is the evaluator's or the guest's, and no 0."""
    guest = Guest(habits={"/accessibility": [lambda: as_json({"AT": said.decode()})]})
    with pytest.raises(Exception, match=r"(?i)xml|start tag|document|required"):
        verdict(tmp_path, guest, task("check_accessibility_tree", **ACCESSIBLE))


TREE = '<desktop-frame xmlns:st="https://accessibility.ubuntu.example.org/ns/state"><application name="WORDS"/></desktop-frame>'
"""What the accessibility route tells."""
ACCESSIBLE = {
    "result": {"type": "accessibility_tree"},
    "expected": {"type": "rule", "rules": [{"selectors": ["application[name=right]"]}]},
}


@pytest.mark.parametrize(
    ("tree", "reward"),
    [(TREE.replace("WORDS", "right"), 1.0), (TREE.replace("WORDS", "other"), 0.0), (TREE.replace("name", "title"), 0.0)],
)
def test_an_accessibility_tree(tmp_path: Path, tree: str, reward: float) -> None:
    """What is wanted is on the screen, something else, nothing that has a name."""
    guest = Guest(habits={"/accessibility": [lambda: as_json({"AT": tree})]})
    assert verdict(tmp_path, guest, task("check_accessibility_tree", **ACCESSIBLE)) == reward


ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "vm_terminal_output": (
        {"func": "check_include_exclude", "result": {"type": "vm_terminal_output"}},
        {"habits": {"/terminal": [lambda: as_json({"output": None, "status": "success"})]}},
    ),
    "vm_command_error": (
        {"func": "check_include_exclude", "result": {"type": "vm_command_error", "command": ["answer"]}},
        {"commands": {"^answer": done(rc=1, error="asdf")}},
    ),
    "vm_command_line": (
        {"func": "exact_match", "result": {"type": "vm_command_line", "command": ["answer"]}},
        {"commands": {"^answer": done(output="asdf")}},
    ),
    "content_from_vm_file": (
        {
            "func": "is_in_list",
            "result": {
                "type": "content_from_vm_file",
                "path": f"{HOME}/a.xlsx",
                "dest": "a.xlsx",
                "file_type": "xlsx",
                "file_content": "last_row",
            },
        },
        {},
    ),
    "gimp_config_file": (
        {
            "func": "check_config_status",
            "result": {"type": "gimp_config_file", "file_name": "gimprc", "dest": "gimprc"},
        },
        {"commands": {"expanduser|config": done(output=f"{HOME}/.config/GIMP/2.10/gimprc\n")}},
    ),
    "vscode_config": (
        {
            "func": "is_extension_installed",
            "result": {
                "type": "vscode_config",
                "vscode_extension_command": "test",
                "path": f"{HOME}/a.txt",
                "dest": "a.txt",
            },
        },
        {},
    ),
    "default_video_player": (
        {"func": "match_in_list", "result": {"type": "default_video_player"}},
        {"commands": {"xdg-mime": done(output="asdf.desktop\n")}},
    ),
    "vm_window_size": (
        {
            "func": "is_vlc_fullscreen",
            "result": {"type": "vm_screen_size"},
            "expected": {"type": "vm_window_size", "app_class_name": "vlc"},
        },
        {
            "habits": {
                "/screen_size": [lambda: as_json({"width": 1920, "height": 1080})],
                "/window_size": [lambda: Answer(b"<!doctype html><title>500</title>", 500, "text/html")],
            }
        },
    ),
    "vm_wallpaper": (
        {"func": "compare_images", "result": {"type": "vm_wallpaper", "dest": "wall.png"}},
        {"habits": {"/wallpaper": [lambda: Answer(b"<!doctype html><title>500</title>", 500, "text/html")]}},
    ),
}
"""By kind of result: an evaluator, and a guest in which the policy closed what was asked for, or typed nonsense."""


@pytest.mark.parametrize("kind", ASKED)
def test_what_is_asked_for(tmp_path: Path, kind: str) -> None:
    """The window is closed, the terminal gone, the picture deleted, the answer not what it should be: 0."""
    evaluator, guest = ASKED[kind]
    evaluator = {"expected": {"type": "rule", "rules": {"expected": "yes", "include": ["yes"]}}, **evaluator}
    assert verdict(tmp_path, Guest(**guest), task(**evaluator)) == 0.0


@pytest.mark.parametrize("made", [None, b"something else", GARBLED])
def test_a_gold_file_in_the_guest(tmp_path: Path, made: bytes | None) -> None:
    """The guest's file on the other side: what is expected is what the policy left."""
    guest = Guest(files={"/gold.txt": b"right", **({f"{HOME}/a.txt": made} if made is not None else {})})
    one = task(
        "compare_text_file",
        result={"type": "vm_file", "path": "/gold.txt", "dest": "gold.txt"},
        expected={"type": "vm_file", "path": f"{HOME}/a.txt", "dest": "a.txt"},
    )
    assert verdict(tmp_path, guest, one) == 0.0


@pytest.mark.parametrize("made", [saved(Workbook()), GARBLED, b"PK\x03\x04 asdf", None])
def test_a_sheet_of_which_a_row_is_read(tmp_path: Path, made: bytes | None) -> None:
    """The getter reads it: an empty sheet, nonsense and no file have no such row."""
    evaluator, _ = ASKED["content_from_vm_file"]
    files = {f"{HOME}/a.xlsx": made} if made is not None else {}
    one = task(**evaluator, expected={"type": "rule", "rules": {"expected": "yes"}})
    assert verdict(tmp_path, Guest(files=files), one) == 0.0


def test_several_files(tmp_path: Path) -> None:
    """`multi`: one of two is gone, and the list that the metric gets has a hole."""
    paths = [f"{HOME}/a.json", f"{HOME}/b.json"]
    result = {"type": "vm_file", "path": paths, "dest": ["a.json", "b.json"], "multi": True, "gives": [0, 1]}
    guest = Guest(files={paths[0]: json.dumps({"x": 1}).encode()})
    one = task("compare_image_list", result=result, expected=result)
    assert verdict(tmp_path, guest, one) == 0.0
