"""How can a desktop fail to let its worker go? Backends of the user's own that hang; a real worker loads them by name."""

from __future__ import annotations

import threading

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
