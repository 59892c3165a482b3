"""A desktop of one's own: `legato-rl collect --backend my_desktop:MyDesktop`, started where this file is."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageDraw

from legato_rl.config import DesktopConfig
from legato_rl.desktop import ActResult, DesktopFailure, Ready


class MyDesktop:
    """A screen that shows what was done; a task is solved by a DONE after as many clicks as its `clicks` asks for."""

    def __init__(self, config: DesktopConfig, name: str) -> None:
        self.size = config.screen_size
        self.task: dict[str, Any] = {"instruction": ""}  # what `observe` shows before the first reset
        self.actions: list[str] = []
        self.broken = False

    def reset(self, task: dict[str, Any]) -> None:
        self.task, self.actions = task, []

    def wait_after_reset(self) -> Ready:
        return Ready("ready", 0.0)  # how the wait ended, and its seconds

    def observe(self) -> bytes:
        image = Image.new("RGB", self.size, "white")
        ImageDraw.Draw(image).text((20, 20), f"{self.task['instruction']}\n{len(self.actions)} actions", fill="black")
        png = io.BytesIO()
        image.save(png, "PNG")
        return png.getvalue()

    def act(self, action: str) -> ActResult:
        if self.broken:  # a lost answer, a time-out, a 5xx: the try yields no reward
            raise DesktopFailure("guest_unreachable", "the guest did not answer")
        self.actions.append(action)
        return ActResult(rc=0, stderr="", act_s=0.0, ready=Ready("ready", 0.0))

    def wait_before_eval(self) -> Ready:
        return Ready("ready", 0.0)

    def evaluate(self) -> float:
        clicks = sum("click" in action for action in self.actions)
        return 1.0 if clicks == self.task.get("clicks", 0) and self.actions[-1] == "DONE" else 0.0

    def close(self) -> None:
        """Nothing is held."""
