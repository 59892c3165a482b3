"""What are the tasks, and what does a person read who got one wrong?"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from legato_rl.errors import ConfigError, TaskError
from legato_rl.tasks import read_tasks, resolve_tasks, task_list

CONFIG: dict[str, Any] = {"instruction": "do it", "evaluator": {"func": "exact_match"}}


def inline(task_id: Any = "a", **fields: Any) -> dict[str, Any]:
    """An inline task; `fields` are laid over the entry."""
    return {"task_id": task_id, "config": CONFIG, **fields}


def with_config(**changes: Any) -> dict[str, Any]:
    """An inline task whose config is changed; None takes a key away."""
    config = {**CONFIG, **changes}
    return inline(config={name: value for name, value in config.items() if value is not None})


@pytest.fixture
def osworld(tmp_path: Path) -> Path:
    """A checkout with one task, and a file beside its folder of tasks."""
    folder = tmp_path / "evaluation_examples" / "examples"
    (folder / "chrome").mkdir(parents=True)
    (folder / "vlc").mkdir()
    (folder / "chrome" / "t-1.json").write_text(json.dumps({"id": "t-1", **CONFIG}))
    (folder / "chrome" / "torn.json").write_text('{"id":')
    (tmp_path / "secret.json").write_text(json.dumps(CONFIG))
    return tmp_path


def refusal(tasks: Any, osworld: Path | None = None) -> str:
    """The one sentence that refuses these tasks."""
    with pytest.raises(TaskError) as error:
        resolve_tasks(tasks, osworld, 15)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def test_tasks_mix_freely(osworld: Path) -> None:
    """Looked up and inline, in order; what a task carries is kept, and the rest is the run's."""
    entries = [{"task_id": "t-1", "domain": "chrome"}, inline("b", group_id="b-again", max_steps=3, meta={"k": None})]
    first, second = resolve_tasks(entries, osworld, 15)
    assert (first.group_id, first.domain, first.max_steps, first.meta) == ("t-1", "chrome", 15, None)
    assert first.config == {"id": "t-1", **CONFIG}
    assert (second.task_id, second.group_id, second.domain) == ("b", "b-again", None)
    assert (second.max_steps, second.meta, second.config["id"]) == (3, {"k": None}, "b")


def test_a_task_may_come_again_under_a_group_id_of_its_own() -> None:
    """The groups are told apart; the task is the same."""
    specs = resolve_tasks([inline(), inline(group_id="second")], None, 15)
    assert [(spec.task_id, spec.group_id) for spec in specs] == [("a", "a"), ("a", "second")]


@pytest.mark.parametrize("again", [inline(), inline("b", group_id="a")])
def test_groups_are_told_apart(again: dict[str, Any]) -> None:
    """Duplicate ids, with or without a group_id."""
    assert refusal([inline(), inline("x"), again]) == (
        "tasks[2]: the group_id 'a' is that of tasks[0] too: give each its own group_id"
    )


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"task_id": "a"}, "tasks holds an object: it must hold a list of tasks"),
        (None, "tasks holds null"),
        ([], "tasks is an empty list: name at least one task"),
        (["a"], "tasks[0] is text: it must be an object with a task_id"),
        ([inline(), 3], "tasks[1] is a number"),
        ([{}], "tasks[0].task_id is None"),
        ([inline(7)], "tasks[0].task_id is 7"),
        ([inline("../../x")], "tasks[0].task_id is '../../x': it must be 1 to 128 letters"),
        ([inline("a/b")], "tasks[0].task_id is 'a/b'"),
        ([inline("")], "tasks[0].task_id is ''"),
        ([inline(".")], "tasks[0].task_id is '.'"),
        ([inline("a\n")], r"tasks[0].task_id is 'a\n'"),
        ([inline("x" * 129)], "it must be 1 to 128 letters"),
        ([inline(group_id="a b")], "tasks[0].group_id is 'a b'"),
        ([inline(group_id=None)], "tasks[0].group_id is None"),
        ([inline(domain="../chrome")], "tasks[0].domain is '../chrome'"),
        ([inline(max_steps=0)], "tasks[0].max_steps is 0: it must be a whole number from 1"),
        ([inline(max_steps=True)], "tasks[0].max_steps is True"),
        ([inline(max_steps=2.5)], "tasks[0].max_steps is 2.5"),
        ([inline(instruction="x")], "tasks[0].instruction is no field of a task: use config, domain,"),
        ([{"task_id": "a"}], "tasks[0] has neither domain nor config: give one of them"),
        ([inline(config=None)], "tasks[0].config is null: it must be an OSWorld task"),
        ([inline(config="x")], "tasks[0].config is text"),
        ([with_config(instruction=None)], "tasks[0].config.instruction is None: it must say what to do"),
        ([with_config(instruction="  ")], "tasks[0].config.instruction is '  '"),
        ([with_config(evaluator=None)], "tasks[0].config.evaluator is None: it must be an object with a func"),
        ([with_config(evaluator={})], "tasks[0].config.evaluator.func is None: it must name a function"),
        ([with_config(evaluator={"func": []})], "tasks[0].config.evaluator.func is []"),
        ([with_config(evaluator={"func": ["f", 1]})], "tasks[0].config.evaluator.func is ['f', 1]"),
        ([with_config(config={"type": "x"})], "it must be a list of setup steps, each with a type"),
        ([with_config(config=[{"parameters": {}}])], "it must be a list of setup steps, each with a type"),
        ([with_config(id="b")], "tasks[0].config.id is 'b': it must be the task_id 'a', or be left out"),
        ([{"task_id": "a", "domain": "chrome"}], "tasks[0] names the domain 'chrome' and no config"),
    ],
)
def test_a_task_that_is_wrong(tasks: Any, said: str) -> None:
    """One sentence that names the entry, the field and the value."""
    assert said in refusal(tasks)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"task_id": "t-1", "domain": "chromium"}, r"tasks\[0\].domain is 'chromium': the domains under .* are chrome, vlc$"),
        ({"task_id": "t-2", "domain": "chrome"}, r"tasks\[0\].task_id is 't-2': there is no .*chrome/t-2.json$"),
        ({"task_id": "torn", "domain": "chrome"}, r"tasks\[0\].task_id is 'torn': .*torn.json is no JSON \("),
        ({"task_id": "../../../secret", "domain": "chrome"}, r"tasks\[0\].task_id is '../../../secret'"),
        ({"task_id": "t-1", "domain": ".."}, r"tasks\[0\].domain is '..'"),
    ],
)
def test_a_task_that_is_not_there(osworld: Path, entry: dict[str, str], said: str) -> None:
    """Unknown domains and ids, a torn file, and names that lead out of the checkout."""
    assert re.search(said, refusal([entry], osworld))


def test_a_checkout_that_is_none(tmp_path: Path) -> None:
    """No folder, or one of another layout: a sentence that says what it should be."""
    entry = [{"task_id": "t-1", "domain": "chrome"}]
    with pytest.raises(ConfigError, match=r"there is no such folder; name an OSWorld checkout"):
        resolve_tasks(entry, tmp_path / "missing", 15)
    with pytest.raises(ConfigError, match=r"it has no evaluation_examples/examples; name an OSWorld checkout"):
        resolve_tasks(entry, tmp_path, 15)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nan nan"])
def test_a_file_that_is_no_json(tmp_path: Path, text: str) -> None:
    """Named, with where it went wrong."""
    path = tmp_path / "tasks.json"
    path.write_text(text)
    with pytest.raises(TaskError, match=r"it is no JSON \(.*\); it must hold a list of tasks$"):
        read_tasks(str(path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, or not text."""
    with pytest.raises(TaskError, match=r"No such file or directory; name a file that can be read$"):
        read_tasks(str(tmp_path / "missing.json"))
    with pytest.raises(TaskError, match="Is a directory; name a file"):
        read_tasks(str(tmp_path))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(TaskError, match="it is no JSON"):
        read_tasks(str(tmp_path / "binary"))


def test_a_file_that_is_nested_without_end(tmp_path: Path) -> None:
    """One sentence, though Python's reader has no error of JSON for it."""
    path = tmp_path / "tasks.json"
    path.write_text("[" * 5000)
    with pytest.raises(TaskError, match=r"it is no JSON \(it is nested too deeply\); it must hold a list of tasks$"):
        read_tasks(str(path))


def test_a_field_that_comes_twice(tmp_path: Path) -> None:
    """Wherever it stands, which of the two was meant is not for us to choose."""
    path = tmp_path / "tasks.json"
    path.write_text('[{"task_id": "a", "config": {"instruction": "x", "instruction": "y"}}]')
    with pytest.raises(TaskError) as error:
        read_tasks(str(path))
    assert str(error.value) == f"tasks is {str(path)!r}: 'instruction' comes twice in one object; leave one of them out"


def test_tasks_come_from_a_file_stdin_or_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path (as text or Path), `-`, or any iterable of entries."""
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([inline()]))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([inline("b")])))
    assert task_list(str(path)) == task_list(path) == [inline()]
    assert task_list("-") == [inline("b")]
    assert task_list(entry for entry in [inline("c")]) == [inline("c")]
