"""How does a desktop behave that is none? A real screen, real clicks, a real verdict, and waits and faults as set."""

from __future__ import annotations

import os
import secrets
import signal
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import DesktopConfig
from legato_rl.desktop import ActResult, DesktopFailure, Ready
from legato_rl.fake.commands import Broken, GuestError, statements
from legato_rl.fake.form import Form, is_infeasible, request_of
from legato_rl.fake.hands import Hands
from legato_rl.fake.layout import check_size, place_window
from legato_rl.fake.screen import Scene, draw_screen
from legato_rl.fake.waits import Fault, WaitKind, Waits

PATIENCE = 120.0
"""Seconds that a command may take in the guest before it is killed there."""

ROLLOUT_KEY = "legato"
"""Key of a task under which the caller may name the rollout: `rollout_id`, `group_id`, `attempt`, `try`."""


class FakeDesktop:
    """A desktop with one window: choose the option asked for, type the word asked for, confirm.

    It takes every OSWorld task, whatever its config and evaluator say; only whether the evaluator is `infeasible`
    counts. `config.fake` sets waits and faults. With `config.seed`, and the rollout named in the task under `legato`,
    every draw between a reset and the next is the one that `Waits` gives; boot and self-check always draw from the
    system. DONE and FAIL touch nothing: no wait, no fault. Raises ConfigError for a screen under 320 × 240 pixels.
    """

    def __init__(self, config: DesktopConfig, name: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        check_size(config.screen_size)
        self.name = name
        self.actions: list[str] = []
        """Every action since the reset, DONE and FAIL included."""
        self._config = config
        self._clock = clock
        self._form: Form | None = None
        self._hands = Hands(config.screen_size)
        self._infeasible = False
        self._drawn: tuple[object, bytes] | None = None
        self._waits = Waits(config.fake, secrets.randbits(63), name, 0, 0)
        self._sleep("boot")
        self._fail("fail_boot", "boot", "the desktop did not come up")

    def reset(self, task: dict[str, Any]) -> None:
        """Put the task's window on the screen."""
        self._form = None
        self._hands = Hands(self._config.screen_size)
        self._waits = self._waits_of(task)
        self.actions = []
        self._sleep("reset")
        self._fail("fail_reset", "reset", "the desktop could not be brought to the task's start")
        request = request_of(task, self._config.seed)
        self._form = Form(request)
        self._infeasible = is_infeasible(task)
        self._hands = Hands(
            self._config.screen_size, self._form, place_window(self._config.screen_size, request.across, request.down)
        )

    def wait_after_reset(self) -> Ready:
        """The wait for the window."""
        return self._settle()

    def observe(self) -> bytes:
        """The screen as PNG; the same bytes for the same state."""
        self._fail("fail_observe", "screenshot", "the guest's screenshot is no picture")
        form, hands = self._form, self._hands
        scene = Scene(hands.at, hands.hovered(), len(self.actions))
        shown = (scene, form and dict(vars(form)))
        if self._drawn is None or self._drawn[0] != shown:
            picture = draw_screen(self._config.screen_size, self._config.fake.photo_kb, form, hands.place, scene)
            self._drawn = (shown, picture)
        return self._drawn[1]

    def act(self, action: str) -> ActResult:
        """Do one action string; a program that fails in the guest is a result with its exit code and stderr."""
        if action in ("DONE", "FAIL"):
            self.actions.append(action)
            return ActResult(0, "", 0.0, Ready("ready" if self._config.ready_signal else "fixed", 0.0))
        started = self._clock.monotonic()
        if self._waits.strikes("crash"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._waits.strikes("hang"):
            self._hang()
        self._sleep("act")
        self.actions.append(action)
        stderr = "" if action == "WAIT" else self._run(action)
        self._fail("fail_act", "action_lost", "the guest did not answer whether the action was done")
        return ActResult(1 if stderr else 0, stderr, self._clock.monotonic() - started, self._settle())

    def wait_before_eval(self) -> Ready:
        """The wait for the last action's effects."""
        return self._settle()

    def evaluate(self) -> float:
        """1.0 for a task done as asked, 0.5 for the right option with a wrong word, else 0.0.

        An infeasible task is worth 1.0 exactly when FAIL was the last action; any other task is then worth 0.0.
        RuntimeError is the evaluator's own fault (`bug_evaluate`).
        """
        self._sleep("eval")
        self._fail("fail_evaluate", "guest_unreachable", "the guest did not answer the evaluator")
        if self._waits.strikes("bug_evaluate"):
            raise RuntimeError("the fake evaluator failed on its own, as bug_evaluate asks")
        if self._form is None:
            raise DesktopFailure("no_task", "the desktop was asked for a verdict before a task was set up")
        gave_up = bool(self.actions) and self.actions[-1] == "FAIL"
        if self._infeasible or gave_up:
            return 1.0 if self._infeasible and gave_up else 0.0
        return self._form.score()

    def close(self) -> None:
        """Nothing is held."""

    def _waits_of(self, task: dict[str, Any]) -> Waits:
        rollout = task.get(ROLLOUT_KEY) or {}
        seed = secrets.randbits(63) if self._config.seed is None else self._config.seed
        group = str(rollout.get("group_id", task.get("id", "")))
        return Waits(self._config.fake, seed, group, int(rollout.get("attempt", 0)), int(rollout.get("try", 0)))

    def _run(self, action: str) -> str:
        """Do the statements until one fails; its last line of stderr, or nothing."""
        before = self._hands.seconds
        try:
            for statement in statements(action):
                if isinstance(statement, Broken):
                    raise GuestError(statement.stderr)
                self._hands.do(statement)
                if self._hands.seconds - before > PATIENCE:
                    raise GuestError(f"TimeoutExpired: the command timed out after {PATIENCE:.0f} seconds")
        except GuestError as error:
            return f"Traceback (most recent call last):\n{error}"
        finally:
            if self._hands.seconds > before:
                self._clock.sleep(min(self._hands.seconds - before, PATIENCE))
        return ""

    def _settle(self) -> Ready:
        if self._config.fixed_wait is not None:
            self._clock.sleep(self._config.fixed_wait)
            return Ready("fixed", self._config.fixed_wait)
        return Ready("ready", self._sleep("settle"))

    def _sleep(self, kind: WaitKind) -> float:
        seconds = self._waits.next(kind)
        if seconds > 0:
            self._clock.sleep(seconds)
        return seconds

    def _hang(self) -> None:
        while True:
            self._clock.sleep(3600.0)

    def _fail(self, fault: Fault, type: str, message: str) -> None:
        if self._waits.strikes(fault):
            raise DesktopFailure(type, f"{message} (the fake desktop's {fault})")
