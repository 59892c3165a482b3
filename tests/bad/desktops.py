"""How can a desktop misbehave? Backends of the user's own that hang, or say too much; a real worker loads them by name."""

from __future__ import annotations

import threading
from typing import Any

from legato_rl.fake.desktop import FakeDesktop


class HangsInClose(FakeDesktop):
    """A guest that does not shut down."""

    def close(self) -> None:
        threading.Event().wait()


class HangsInEvaluate(FakeDesktop):
    """A guest that does not answer its evaluator."""

    def evaluate(self) -> float:
        threading.Event().wait()
        return 0.0


class SaysMuch(FakeDesktop):
    """A guest whose library prints a line a hundred times a second, whatever else goes on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        threading.Thread(target=self._say, daemon=True).start()

    def _say(self) -> None:
        while not threading.Event().wait(0.01):
            print("x" * 400, flush=True)
