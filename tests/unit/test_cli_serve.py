"""What do `serve`, `keygen` and `collect --connect` say to wrong input? Exit code 2, one sentence, and nothing started."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from whole_runs import inline_task
from worker_scene import run_file

from legato_rl.cli.main import legato_rl
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir, of_run


def invoke(*args: object) -> Result:
    """`legato-rl` in this process."""
    return CliRunner().invoke(legato_rl, [str(arg) for arg in args])


def words(options: dict[str, Any]) -> list[object]:
    """Options as they are typed; None is left out, True is a switch."""
    typed: list[object] = []
    for name, value in options.items():
        if value is not None:
            typed += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return typed


def serve(root: Path, **options: Any) -> Result:
    """`legato-rl serve` on fake desktops, but for `options`."""
    given = {"dir": root, "policy_url": "fake", "model": "m", "version": "v", "backend": "fake", "screen": "320x240"}
    return invoke("serve", *words({**given, **options}))


def connect(folder: Path, **options: Any) -> Result:
    """`legato-rl collect --connect` to a service that is not up, but for `options`."""
    tasks = folder / "tasks.json"
    tasks.write_text(json.dumps([inline_task("a")]))
    return invoke("collect", *words({"tasks": tasks, "connect": folder / "d", **options}))


def said(result: Result) -> str:
    """The one line that refuses."""
    assert result.exit_code == 2, result.output
    assert re.fullmatch(r"error: [^\n]+\n", result.output), result.output
    return result.output.removeprefix("error: ").rstrip()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"desktops": 0}, "desktops is 0: it must be at least 1"),
        ({"most_desktops": 2}, "most-desktops is 2: it must be 4, the desktops, to 4096"),
        ({"control": "tcp://x"}, "control is 'tcp://x': it must be tcp://HOST:PORT, as in tcp://127.0.0.1:5555"),
        ({"control": "tcp://x:1"}, "keys is missing: control over tcp is for those who have one; legato-rl keygen draws them"),
        ({"keys": "/none"}, "keys is '/none': it has no effect without control; give both or neither"),
        ({"allow_origin": "x"}, "allow-origin is 'x': it must be as in http://127.0.0.1:8000"),
        ({"policy_url": "http://127.0.0.1:9/v1"}, "policy-url is 'http://127.0.0.1:9/v1': "),
        ({"backend": "nonsense"}, "backend is 'nonsense': "),
        ({"print_supervisord": True}, "policy-url is 'fake': start `legato-rl fake-policy`, which stays up, and give its URL"),
    ],
)
def test_an_option_of_serve_that_is_wrong(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    """Named with its value; no folder is made."""
    assert said(serve(tmp_path / "d", **options)).startswith(sentence)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("missing", ["dir", "policy_url", "model", "version"])
def test_a_required_option_of_serve_that_is_missing(tmp_path: Path, missing: str) -> None:
    """Exit code 2, and its name."""
    result = serve(tmp_path / "d", **{missing: None})
    assert result.exit_code == 2
    assert f"error: missing option '--{missing.replace('_', '-')}'" in result.output


def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    """It says how one is made."""
    root = tmp_path / "d"
    assert said(connect(tmp_path)) == f"connect is '{root}': there is no service; start one with legato-rl serve --dir {root}"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"out": "x"}, "out"),
        ({"policy_url": "fake"}, "policy-url"),
        ({"desktops": 4}, "desktops"),
        ({"osworld": "x"}, "osworld"),
        ({"vm": "x"}, "vm"),
        ({"screen": "1920x1080"}, "screen"),
        ({"no_fast_reset": True}, "no-fast-reset"),
        ({"max_inflight": 4}, "max-inflight"),
        ({"server_wait": 600}, "server-wait"),
    ],
)
def test_what_is_the_services_own(tmp_path: Path, options: dict[str, Any], name: str) -> None:
    """Refused by its name as it is typed, also with the value that it has by default."""
    assert said(connect(tmp_path, **options)) == f"{name} is the service's own: leave it out with --connect"


@pytest.mark.parametrize("options", [{"name": "x"}, {"priority": 1}])
def test_what_only_a_service_knows(tmp_path: Path, options: dict[str, Any]) -> None:
    """Without --connect it is refused, not passed over."""
    (name,) = options
    sentence = f"{name} has no effect without connect: leave it out, or name a service with --connect"
    assert said(connect(tmp_path, connect=None, **options)) == sentence


def test_an_id_that_is_a_path(tmp_path: Path) -> None:
    """A run is below the service's root, and nowhere else."""
    root = ServiceDir(tmp_path / "d")
    root.root.mkdir()
    root.write(of_run(run_file(Path("/x"))).model_copy(update={"once": ""}))
    assert said(connect(tmp_path, name="../../x")).startswith("run is '../../x': it must be letters, digits")
    assert not RunDir(tmp_path / "x").root.exists()


def test_keys_are_drawn_and_explained(tmp_path: Path) -> None:
    """Where each file goes; a second time none is touched."""
    result = invoke("keygen", tmp_path / "keys")
    assert result.exit_code == 0
    assert sorted(str(path.relative_to(tmp_path / "keys")) for path in (tmp_path / "keys").rglob("*")) == [
        "client.secret", "clients", "clients/client.public", "server.public", "server.secret"
    ]  # fmt: skip
    for words_ in ("At the service: all of it", "At the trainer: client.secret and server.public"):
        assert words_ in result.output
    assert "server.secret is there already, and no key is overwritten" in said(invoke("keygen", tmp_path / "keys"))
    assert "name a folder that can be written" in said(invoke("keygen", "/proc/none"))


@pytest.mark.parametrize(("holds", "why"), [("run.json", "it holds a run"), ("thesis.tex", "it is not empty")])
def test_keys_are_put_to_nothing_else(tmp_path: Path, holds: str, why: str) -> None:
    """A folder of something else is refused, and neither its files nor its rights are touched; so is a file."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    (folder / holds).write_text("{}")
    assert said(invoke("keygen", folder)) == f"dir is '{folder}': {why}; name a new or empty folder"
    assert [path.name for path in folder.iterdir()] == [holds]
    assert folder.stat().st_mode & 0o777 == 0o755
    assert said(invoke("keygen", folder / holds)) == f"dir is '{folder / holds}': it is a file; name a new or empty folder"
