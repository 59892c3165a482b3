"""What exactly was a step's request? Rebuilds its chat messages, and its body's hash, from a run folder. DISK.

Every file that is read is checked against the hash that names it, so what comes back is what was sent, or an error.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from legato_rl.canonical import IMAGE_SCHEME, canonical_json, is_hash, sha256_hex
from legato_rl.errors import RecordError
from legato_rl.rundir import RunDir

INCOMPLETE = "the run folder is not complete, so fetch it whole"


def load_request(run_dir: str | Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chat messages of a stored step (`step["request"]`), images as `data:image/png;base64,…` URLs.

    RecordError, in one sentence, where the request names something that is no SHA-256, or where a file of it is missing
    or is not what its hash says.
    """
    return load_messages(run_dir, request, inline=True)


def load_messages(run_dir: str | Path, request: Mapping[str, Any], *, inline: bool) -> list[dict[str, Any]]:
    """As `load_request`; without `inline` images stay `legato-image://<sha256>`, and their files need only be there."""
    stored = StoredMessages(RunDir(Path(run_dir)))
    messages = stored.load(message_hashes(request))
    if inline:
        stored.inline(messages)
    return messages


def body_sha256(run_dir: str | Path, request: Mapping[str, Any]) -> str:
    """The hash of the rebuilt request body; equals `request["body_sha256"]` where the record is true.

    The body is canonical JSON of the request's `params` with its `messages`, each image as its `legato-image://` name.
    """
    params = request.get("params")
    if not isinstance(params, Mapping):
        raise RecordError(f"params is {params!r:.80}: a step's request holds the body's other keys there, as an object")
    return sha256_hex(canonical_json({**params, "messages": load_messages(run_dir, request, inline=False)}))


def message_hashes(request: Mapping[str, Any]) -> list[str]:
    """The hashes in `request["messages"]`. RecordError where one is none: it would be a path from outside."""
    hashes = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(hashes, list):
        raise RecordError(f"messages is {hashes!r:.80}: a step's request holds a list of SHA-256 hashes there")
    for index, sha256 in enumerate(hashes):
        if not is_hash(sha256):
            raise RecordError(f"messages.{index} is {sha256!r:.80}: it must be a SHA-256 in 64 lower-case hex digits")
    return hashes


class StoredMessages:
    """The chat messages of one run folder. Keeps what the last request read, since the next one repeats most of it."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._messages: dict[str, bytes] = {}
        self._urls: dict[str, str] = {}

    def load(self, hashes: list[str]) -> list[dict[str, Any]]:
        """The messages under `hashes`, images by name; fresh objects that the caller may change.

        RecordError as `load_request`; of the images it is only seen that they are there.
        """
        before, self._messages = self._messages, {}
        loaded = []
        for sha256 in hashes:
            data = self._messages.get(sha256) or before.get(sha256) or self._read_message(sha256)
            self._messages[sha256] = data
            loaded.append(json.loads(data))
        return loaded

    def inline(self, messages: list[dict[str, Any]]) -> None:
        """Put data URLs in place of the image names of `messages`, which `load` gave. RecordError as `load_request`."""
        before, self._urls = self._urls, {}
        for image in (image for message in messages for image in _image_urls(message)):
            sha256 = image["url"].removeprefix(IMAGE_SCHEME)
            url = self._urls.get(sha256) or before.get(sha256) or _data_url(_read_checked(self._run.image(sha256), sha256))
            self._urls[sha256] = url
            image["url"] = url

    def _read_message(self, sha256: str) -> bytes:
        path = self._run.message(sha256)
        data = _read_checked(path, sha256)
        message = json.loads(data)
        if not isinstance(message, dict):
            raise RecordError(f"{path} is no chat message: it must hold a JSON object")
        for image in _image_urls(message):
            name = image["url"].removeprefix(IMAGE_SCHEME)
            if not is_hash(name):
                raise RecordError(f"{path} names the image {name!r:.80}: it must be a SHA-256 in 64 lower-case hex digits")
            if not self._run.image(name).is_file():
                raise RecordError(f"{self._run.image(name)} is missing: {INCOMPLETE}")
        return data


def _image_urls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The `image_url` objects of `message` that name a stored image."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    images = [part.get("image_url") for part in parts if isinstance(part, dict) and part.get("type") == "image_url"]
    return [image for image in images if isinstance(image, dict) and str(image.get("url")).startswith(IMAGE_SCHEME)]


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _read_checked(path: Path, sha256: str) -> bytes:
    """The bytes of `path`, which must have this hash."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path} is missing: {INCOMPLETE}") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): repair the disk or the folder's rights") from None
    if sha256_hex(data) != sha256:
        raise RecordError(f"{path} is damaged: its bytes do not have the hash that names it")
    return data
