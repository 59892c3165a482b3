"""Where does a worker's CPU go? A real worker whose functions are timed from outside. `timed_worker.py RUN_DIR OUT`.

At each model call a line is added to OUT: the main thread's CPU seconds so far in each part, less those of parts called
from it.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from legato_rl.fake.desktop import FakeDesktop
from legato_rl.workers import desk, main
from legato_rl.workers.agent import qwen
from legato_rl.workers.conversation import Conversation
from legato_rl.workers.policy import PolicyLine
from legato_rl.workers.rollout import Try
from legato_rl.workers.rows import RowLine

PARTS: tuple[tuple[str, Any, str], ...] = (
    ("fake_desktop", FakeDesktop, "act"),
    ("fake_desktop", FakeDesktop, "observe"),
    ("screenshot_check", desk, "check_screen"),
    ("agent_images", qwen, "process_screenshot"),
    ("agent_text", qwen.QwenAgent, "predict"),
    ("hashing", Conversation, "add"),
    ("call_made", Try, "_call_llm"),
    ("messages_to_proxy", PolicyLine, "call"),
    ("messages_to_sink", RowLine, "put"),
)
"""Part, and the function that is timed for it. A part's time is without that of the parts it calls."""

NAMES = sorted({part for part, _, _ in PARTS})


class Timers:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner: list[float] = []
        """For each timed call that runs: seconds of the timed calls within it."""

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` with a timer around it."""

        @functools.wraps(call)
        def with_timer(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            self._inner.append(0.0)
            try:
                return call(*args, **kwargs)
            finally:
                seconds = time.thread_time() - begun
                self.spent[part] += seconds - self._inner.pop()
                if self._inner:
                    self._inner[-1] += seconds

        return with_timer


def run(out: Path) -> None:
    """Be a worker."""
    timers = Timers()
    for part, owner, name in PARTS:
        setattr(owner, name, timers.timed(part, getattr(owner, name)))
    ask = PolicyLine.call

    def noted(*args: Any, **kwargs: Any) -> Any:
        with out.open("a") as file:
            file.write(json.dumps([timers.spent[part] for part in NAMES]) + "\n")
        return ask(*args, **kwargs)

    PolicyLine.call = noted  # type: ignore[method-assign]
    main.main()


if __name__ == "__main__":
    run(Path(sys.argv.pop()))
