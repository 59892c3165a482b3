"""What does a worker do all day? Builds its desktop, checks it, asks for a try, runs it, has its row stored. SHELL."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from legato_rl.clock import Clock
from legato_rl.config import Settings
from legato_rl.desktop import Desktop, DesktopFailure
from legato_rl.records import Draft, FeedRow, Outcome, RolloutError
from legato_rl.role import Quit
from legato_rl.sockets import wait
from legato_rl.wire import Assignment
from legato_rl.workers.agent import Agent
from legato_rl.workers.desk import FAULTS, Desk
from legato_rl.workers.link import Dropped, Link
from legato_rl.workers.policy import PolicyLine
from legato_rl.workers.rollout import Try
from legato_rl.workers.rows import RowLine, RowRefused

log = logging.getLogger("legato_rl.worker")

BUILD_PAUSE_S = 2.0
"""Seconds before a desktop that did not pass its self-check is built again."""


@dataclass
class Worker:
    """One desktop and the tries that run on it, of any run.

    `settings` are the service's: of the desktop, and of how many boot at once. `build_desktop` boots a desktop,
    `build_agent` makes an agent for a run's settings and the date that its prompts name.
    """

    name: str
    settings: Settings
    build_desktop: Callable[[], Desktop]
    build_agent: Callable[[Settings, str], Agent]
    policy: PolicyLine
    rows: RowLine
    link: Link
    clock: Clock
    _desktop: Desktop | None = field(default=None)

    def run(self, quit_: Quit) -> None:
        """Work until asked to end, or told to leave. Nothing is booted before the broker was heard: it may not be wanted."""
        try:
            while not quit_.asked and not self.link.leaving():
                parked = self.link.parked()
                if parked is not False:
                    self._rest(parked is True)
                    continue
                if self._desktop is None or self.link.wants_rebuild():
                    self._build(quit_)
                    continue
                lease = secrets.randbits(63)
                assignment = self.link.take(lease)
                if assignment is None:
                    self._wait()
                    continue
                self._run_try(assignment, lease, quit_)
        finally:
            self.link.end()
            self._close()

    def _rest(self, parked: bool) -> None:
        """Have no desktop until the next order."""
        if parked and self._desktop is not None:
            self._close()
        if parked:
            self.link.phase("parked")
        self._wait()

    def _wait(self) -> None:
        wait([self.link.news], 1.0)
        self.link.news.clear()

    def _build(self, quit_: Quit) -> None:
        if self._desktop is not None:
            self._close()
        if quit_.asked:
            return
        limited = self.settings.boots_at_once is not None
        # Before its turn: else the wait for it would be the closing's.
        self.link.phase("booting")
        try:
            with self.link.boot_token() if limited else contextlib.nullcontext():
                self._desktop = self.build_desktop()
            if limited and hasattr(self._desktop, "boot_token"):
                # A desktop that boots again by itself, for a revert, waits its turn too.
                self._desktop.boot_token = self.link.boot_token
            self._desk().observe()
        except Dropped:
            return
        except FAULTS as error:
            log.exception("the desktop did not pass its self-check")
            self.link.built(f"{type(error).__name__}: {error}")
            self._close()
            quit_.bell.clear()
            if not quit_.asked:
                wait([quit_.bell], BUILD_PAUSE_S)
            return
        self.link.built()
        self.link.ready()

    def _run_try(self, assignment: Assignment, lease: int, quit_: Quit) -> None:
        settings = Settings(**assignment.settings)
        one = Try(
            settings,
            assignment,
            lease,
            self._desk(),
            self.name,
            self.build_agent(settings, assignment.today),
            self.policy,
            self.rows,
            self.link,
            self.clock,
        )
        self.rows.begin(assignment.key.run)
        broke = False
        try:
            draft = one.run()
            broke = draft.outcome is Outcome.DESKTOP_FAILED
            row = self._store(draft, one)
            log.info("%s is stored: %s, reward %s", draft.rollout_id, row.status.value, row.reward)
            self.link.release(stored=True)
        except Dropped:
            log.info("%s was dropped", assignment.key.rollout_id)
            self.link.release(stored=False)
        if self.link.wants_rebuild() or quit_.asked:
            return
        if broke and not self._answers():
            self._build(quit_)
        else:
            self.link.ready()

    def _answers(self) -> bool:
        """The self-check of a desktop that failed: no further work before it shows its screen."""
        self.link.phase("observe")
        try:
            self._desk().observe()
        except DesktopFailure as failure:
            log.error("the desktop failed and does not pass its self-check: %s", failure)
            return False
        return True

    def _store(self, draft: Draft, one: Try) -> FeedRow:
        try:
            return self.rows.store(draft, one.conversation.blobs)
        except RowRefused as refused:
            # A bug of ours, and the attempt must still be accounted for: a bare row says that its verdict is lost.
            log.error("the sink refused the row of %s: %s", draft.rollout_id, refused)
            error = RolloutError(kind="env", phase="store", type="row_refused", message=str(refused))
            lost = {"outcome": Outcome.EVALUATOR_FAILED, "reward": None, "cancel_reason": None, "error": error}
            bare = draft.model_copy(update=lost | {"steps": [], "n_steps": 0, "final_image": None})
        try:
            return self.rows.store(bare, {})
        except RowRefused as refused:
            # A row should have its task's meta, but nothing else is left in it that could be odd.
            log.error("the sink refused the bare row of %s: %s", draft.rollout_id, refused)
            return self.rows.store(bare.model_copy(update={"meta": None}), {})

    def _desk(self) -> Desk:
        assert self._desktop is not None
        return Desk(self._desktop, self.settings.desktop.screen_size)

    def _close(self) -> None:
        desktop, self._desktop = self._desktop, None
        # A desktop that is closed because it no longer answers may hang in this too: it has a deadline.
        self.link.phase("closing")
        if desktop is not None:
            with contextlib.suppress(*FAULTS):
                desktop.close()
