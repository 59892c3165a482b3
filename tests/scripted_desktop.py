"""What drives and what is driven in a worker's tests? A desktop and an agent that do what the test says."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, ClassVar

from PIL import Image

from legato_rl.desktop import ActResult, Ready
from legato_rl.workers.agent import Observation

SIZE = (320, 240)
"""Width and height of its screens."""
PATIENCE_S = 60.0
"""Seconds after which a gate that nobody opens breaks its test."""
READY = Ready("ready", 0.0)


def screen(n: int, size: tuple[int, int] = SIZE) -> bytes:
    """A screenshot, another one for each `n` below 256."""
    file = io.BytesIO()
    Image.new("RGB", size, (n, 0, 0)).save(file, "PNG")
    return file.getvalue()


@dataclass
class ScriptedDesktop:
    """A desktop that does what the test says: `does` holds what a method runs in place of its usual answer."""

    does: dict[str, Callable[..., Any]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def _do(self, method: str, usual: Callable[[], Any], *args: Any) -> Any:
        self.calls.append((method, *args))
        return self.does[method](*args) if method in self.does else usual()

    def reset(self, task: dict[str, Any]) -> None:
        self._do("reset", lambda: None, task)

    def wait_after_reset(self) -> Ready:
        return self._do("wait_after_reset", lambda: READY)  # type: ignore[no-any-return]

    def observe(self) -> bytes:
        return self._do("observe", lambda: screen(len(self.calls)))  # type: ignore[no-any-return]

    def act(self, action: str) -> ActResult:
        return self._do("act", lambda: ActResult(0, "", 0.0, READY), action)  # type: ignore[no-any-return]

    def wait_before_eval(self) -> Ready:
        return self._do("wait_before_eval", lambda: READY)  # type: ignore[no-any-return]

    def evaluate(self) -> float:
        return self._do("evaluate", lambda: 1.0)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._do("close", lambda: None)

    def did(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of a method."""
        return [call[1:] for call in self.calls if call[0] == method]


class Gate:
    """A place in a desktop's method where the test holds the worker."""

    made: ClassVar[list[Gate]] = []

    def __init__(self) -> None:
        self.reached, self.open = Event(), Event()
        self.made.append(self)

    @classmethod
    def open_all(cls) -> None:
        """Let everybody go: a test ended, or failed in front of a closed gate."""
        while cls.made:
            cls.made.pop().open.set()

    def passing(self, answer: object) -> Callable[..., Any]:
        """A method that waits at the gate, then answers."""

        def method(*_: object) -> object:
            self.reached.set()
            assert self.open.wait(PATIENCE_S)
            return answer

        return method


class WordAgent:
    """An agent whose responses are its actions, one a comma; a response that begins with `?` cannot be parsed."""

    def __init__(self) -> None:
        self.parse_error: str | None = None
        self.call_llm: Any = None
        self.extra: dict[str, Any] = {}
        """What its payload holds beside the messages."""
        self.reset()

    def reset(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        url = "data:image/png;base64," + b64encode(obs["screenshot"]).decode()
        image = {"type": "image_url", "image_url": {"url": url}}
        shown = {"role": "user", "content": [image, {"type": "text", "text": instruction}]}
        response = self.call_llm({**self.extra, "messages": [*self.messages, shown]}, "m")
        self.messages += [shown, {"role": "assistant", "content": response}]
        self.parse_error = "no action in it" if response.startswith("?") else None
        return response, [] if self.parse_error or not response else response.split(",")
