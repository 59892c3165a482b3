"""A stored request gives back exactly what was sent, or refuses in one sentence."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from run_folder import RunFolder

from legato_rl.canonical import image_name
from legato_rl.errors import RecordError
from legato_rl.records import dump
from legato_rl.request import body_sha256, load_messages, load_request


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder with one group."""
    return RunFolder(tmp_path / "run", ["g"])


def request_of(folder: RunFolder, steps: int = 3) -> dict[str, Any]:
    """The request of the last of `steps` steps, as it stands in a row."""
    return dump(folder.steps(steps)[-1].request)


def image_urls(messages: list[dict[str, Any]]) -> list[str]:
    """The image URLs in `messages`."""
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_messages_come_back_with_data_urls(folder: RunFolder) -> None:
    """Every image is the stored PNG as a data URL, every other word is as it was."""
    request = request_of(folder)
    messages = load_request(folder.run.root, request)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"] == "answer 0"
    stored = [folder.run.image(sha256).read_bytes() for _, _, sha256 in request["prompt"]["images"]]
    assert [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in image_urls(messages)] == stored


def test_without_inline_images_stay_names(folder: RunFolder) -> None:
    """`inline=False` leaves the names, in order."""
    request = request_of(folder)
    names = [image_name(sha256) for _, _, sha256 in request["prompt"]["images"]]
    assert image_urls(load_messages(folder.run.root, request, inline=False)) == names


def test_body_hash_is_rebuilt(folder: RunFolder) -> None:
    """The rebuilt body has the hash that was taken of the body sent, and another when a parameter differs."""
    request = request_of(folder)
    assert body_sha256(folder.run.root, request) == request["body_sha256"]
    warmer = {**request, "params": {**request["params"], "temperature": 1.1}}
    assert body_sha256(folder.run.root, warmer) != request["body_sha256"]


def test_messages_are_the_callers_own(folder: RunFolder) -> None:
    """A message that stands twice in a request is two objects, so that changing one leaves the other."""
    sha256 = folder.message({"role": "user", "content": "again"})
    first, second = load_request(folder.run.root, {"messages": [sha256, sha256]})
    first["content"] = "changed"
    assert second["content"] == "again"


@pytest.mark.parametrize("name", ["../../etc/passwd", "A" * 64, "a" * 63, "", None, 7, "a" * 64 + "\n"])
def test_what_is_no_hash_is_refused(folder: RunFolder, name: object) -> None:
    """A name that is no SHA-256 never becomes a path."""
    with pytest.raises(RecordError, match=r"messages\.0 is .*: it must be a SHA-256"):
        load_request(folder.run.root, {"messages": [name]})


@pytest.mark.parametrize("request_", [{}, {"messages": None}, {"messages": "a" * 64}])
def test_what_is_no_request_is_refused(folder: RunFolder, request_: dict[str, Any]) -> None:
    """A request without a list of messages is refused by its field's name."""
    with pytest.raises(RecordError, match="messages is "):
        load_request(folder.run.root, request_)


def test_image_name_that_is_no_hash_is_refused(folder: RunFolder) -> None:
    """A stored message cannot point outside the images folder."""
    content = [{"type": "image_url", "image_url": {"url": "legato-image://../run"}}]
    sha256 = folder.message({"role": "user", "content": content})
    with pytest.raises(RecordError, match=r"names the image '\.\./run'"):
        load_request(folder.run.root, {"messages": [sha256]})


@pytest.mark.parametrize("kind", ["image", "message"])
def test_missing_file_is_named(folder: RunFolder, kind: str) -> None:
    """A missing file is named, for an image also where it would not be inlined."""
    request = request_of(folder)
    image = request["prompt"]["images"][0][2]
    path = folder.run.image(image) if kind == "image" else folder.run.message(request["messages"][0])
    path.unlink()
    for inline in (True, False):
        with pytest.raises(RecordError, match=f"{path.name} is missing"):
            load_messages(folder.run.root, request, inline=inline)


@pytest.mark.parametrize("kind", ["image", "message"])
def test_damaged_file_is_named(folder: RunFolder, kind: str) -> None:
    """A file with one byte changed is not taken for what its name says."""
    request = request_of(folder)
    image = request["prompt"]["images"][0][2]
    path = folder.run.image(image) if kind == "image" else folder.run.message(request["messages"][0])
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match=f"{path.name} is damaged"):
        load_request(folder.run.root, request)
