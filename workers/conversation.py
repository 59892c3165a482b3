"""How do an agent's chat messages become stored ones? Each message and image is hashed once and named from then on. PURE."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal

from legato_rl.canonical import canonical_json, image_name, sha256_hex

DATA_URL = "data:image/png;base64,"


@dataclass(frozen=True)
class Blob:
    """A message (canonical JSON) or an image (PNG) of a rollout."""

    sha256: str
    type: Literal["message", "image"]
    data: bytes


@dataclass
class Conversation:
    """The messages and images of one rollout so far. `blobs` keeps them all: sink or proxy may ask for any again."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    _urls: dict[str, str] = field(default_factory=dict)

    def add(self, messages: list[dict[str, Any]]) -> tuple[list[str], list[Blob]]:
        """The hashes of `messages` (chat messages with PNG data URLs), and the blobs that are new with them.

        ValueError for an image that is no PNG data URL. Images come before the messages that name them.
        """
        hashes: list[str] = []
        new: list[Blob] = []
        for message in messages:
            stored = self._stored(message, new)
            hashes.append(self._keep(canonical_json(stored), "message", new))
        return hashes, new

    def add_image(self, png: bytes) -> tuple[str, list[Blob]]:
        """The hash of an image that no message holds, and the blob if it is new."""
        new: list[Blob] = []
        return self._keep(png, "image", new), new

    def _stored(self, message: dict[str, Any], new: list[Blob]) -> dict[str, Any]:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        parts = []
        for part in content:
            if isinstance(part, dict) and part.get("type") == "image_url":
                # The URL's text is looked up, so an agent that keeps its URLs pays for each image once.
                image = self._image(part["image_url"]["url"], new)
                part = {**part, "image_url": {**part["image_url"], "url": image_name(image)}}
            parts.append(part)
        return {**message, "content": parts}

    def _image(self, url: str, new: list[Blob]) -> str:
        sha256 = self._urls.get(url)
        if sha256 is None:
            if not url.startswith(DATA_URL):
                raise ValueError(f"the agent's image URL begins {url[:40]!r}: it must be a {DATA_URL} URL")
            try:
                png = base64.b64decode(url[len(DATA_URL) :], validate=True)
            except binascii.Error as error:
                raise ValueError(f"the agent's image URL is no base64: {error}") from None
            sha256 = self._urls[url] = self._keep(png, "image", new)
        return sha256

    def _keep(self, data: bytes, type_: Literal["message", "image"], new: list[Blob]) -> str:
        sha256 = sha256_hex(data)
        if sha256 not in self.blobs:
            self.blobs[sha256] = Blob(sha256, type_, data)
            new.append(self.blobs[sha256])
        return sha256
