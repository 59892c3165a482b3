"""What would an agent do with an answer of the fake policy? The few lines of the tool-call grammar that it speaks."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import Any

from PIL import Image

PATCH = 32


def actions_of(text: str, size: tuple[int, int]) -> list[str]:
    """The action strings of an answer, on a screen of this size."""
    found = []
    for call in re.findall(r"<tool_call>\n<function=computer_use>(.*?)</function>\n</tool_call>", text, re.DOTALL):
        fields = dict(re.findall(r"<parameter=(\w+)>\n(.*?)\n</parameter>", call, re.DOTALL))
        found.append(_action(fields, size))
    return found


def _action(fields: dict[str, str], size: tuple[int, int]) -> str:
    at = ""
    if "coordinate" in fields:
        x, y = json.loads(fields["coordinate"])
        at = f"{int(x * size[0] / 999)}, {int(y * size[1] / 999)}"
    return {
        "left_click": f"pyautogui.click({at})",
        "triple_click": f"pyautogui.tripleClick({at})",
        "type": f"pyautogui.typewrite({json.dumps(fields.get('text'))})",
        "scroll": f"pyautogui.scroll({fields.get('pixels')})",
        "wait": "WAIT",
        "terminate": "FAIL" if fields.get("status") == "failure" else "DONE",
    }[fields["action"]]


def resized(png: bytes) -> Image.Image:
    """The screenshot as an agent sends it: both sides a multiple of 32, and no more pixels than a model takes."""
    image = Image.open(io.BytesIO(png))
    shrink = min(1.0, (13_107_200 / (image.width * image.height)) ** 0.5)
    sides = (max(PATCH, round(side * shrink / PATCH) * PATCH) for side in image.size)
    return image.resize(tuple(sides))


def image_part(image: Image.Image) -> dict[str, Any]:
    """An image as a part of a chat message."""
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    url = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url}}
