"""How does an image become PNG bytes, cheaply?

Pillow tries five filters on every row, which on screens costs more than the compression and gains nothing: screens are
flat areas and sharp edges. This writes every row unfiltered: the same pixels, about the same size, half of the time
(measured on 1920 × 1080: 69 against 110 ms on a busy screen, 31 against 56 ms on a flat one).
"""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {"RGB": 2, "RGBA": 6}
_LEVEL = 1
"""zlib's fastest. Level 6 takes three times as long and saves little."""
_UNFILTERED = b"\0"


def encode_png(image: Image.Image) -> bytes:
    """`image` as a PNG that decodes to the very same pixels and mode."""
    colour_type = _COLOUR_TYPES.get(image.mode)
    if colour_type is None:
        buffer = io.BytesIO()
        image.save(buffer, format="PNG", compress_level=_LEVEL)
        return buffer.getvalue()
    width, height = image.size
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    pixels = image.tobytes()
    stride = width * len(image.getbands())
    rows = b"".join(piece for at in range(0, len(pixels), stride) for piece in (_UNFILTERED, pixels[at : at + stride]))
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, _LEVEL)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
