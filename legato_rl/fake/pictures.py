"""Which picture is this, and what does it show? Data URLs decoded once and remembered by their hash."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from PIL import Image, UnidentifiedImageError

from legato_rl.fake.sight import Sight, look


class BadPicture(Exception):
    """An image that cannot be read; the message says why."""


@dataclass(frozen=True)
class Picture:
    """A decoded image: its size in pixels, a 62-bit number that tells it from others, and the window seen in it."""

    width: int
    height: int
    identity: int
    sight: Sight | None


class Pictures:
    """The last `room` pictures that were sent."""

    def __init__(self, room: int = 4096) -> None:
        self._room = room
        self._lock = Lock()
        self._known: OrderedDict[bytes, Picture] = OrderedDict()

    def of(self, url: str) -> Picture:
        """The picture in a data URL. BadPicture where there is none."""
        digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            known = self._known.get(digest)
            if known is not None:
                self._known.move_to_end(digest)
                return known
        picture = decode(url)
        with self._lock:
            self._known[digest] = picture
            while len(self._known) > self._room:
                self._known.popitem(last=False)
        return picture


def decode(url: str) -> Picture:
    """Decode one data URL. BadPicture where it is no data URL, no base64, or no whole image."""
    head, _, payload = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        raise BadPicture("The URL must be either a HTTP, data or file URL; this server takes data URLs only.")
    try:
        data = base64.b64decode(payload, validate=True)
        image = Image.open(io.BytesIO(data))
        image.load()
    except binascii.Error as error:
        raise BadPicture(str(error)) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadPicture(f"Failed to load image: {error}") from None
    identity = int.from_bytes(hashlib.sha256(data).digest()[:8], "big") >> 2
    return Picture(image.width, image.height, identity, look(image))
