"""What does the broker do when a trainer asks? Each ask of socket `control`, to the core and to state.json; holds no rule.

An ask that cannot be granted raises LegatoError or ValueError with the sentence that its asker gets, and has changed
nothing: one that must be known to the next broker, too, where state.json cannot be written (NotSaved). One that comes again
under its id is answered alike and does nothing more.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from legato_rl.broker.again import Again
from legato_rl.broker.core import Core
from legato_rl.broker.folders import ended_as, open_run, reopen
from legato_rl.broker.granted import desktops_after, url_after
from legato_rl.broker.policies import EVERY
from legato_rl.broker.roster import number_of
from legato_rl.broker.run import Run
from legato_rl.broker.run_status import run_status
from legato_rl.broker.submission import accept
from legato_rl.broker.told import NotSaved, Told
from legato_rl.clock import Clock
from legato_rl.errors import ConfigError
from legato_rl.frames import Message
from legato_rl.records import is_id
from legato_rl.service import SHUTDOWN, ServiceDir, ServiceFile
from legato_rl.wire import (
    Accepted,
    CancelAsk,
    DesktopOut,
    DesktopsAsk,
    DrainAsk,
    Events,
    EventsAsk,
    InflightAsk,
    PauseAsk,
    PolicyAsk,
    ProxyOrder,
    ResumeAsk,
    RunStatus,
    ShutdownAsk,
    StatusAsk,
    StopAsk,
    Submit,
    Submitted,
)

log = logging.getLogger("legato_rl.broker")

MOST_HEARD = 256
"""Ids of stops, and of desktops that are out, that are remembered."""
HOLD_UNSAVED = (CancelAsk, DrainAsk, ShutdownAsk)
"""As a stop, these only end work, so a full disk keeps nobody from them: they hold, and are saved when there is room."""


@dataclass
class Control:
    """A service's control. `number` is that of the last order to the proxy; it begins anywhere, so that none is repeated."""

    core: Core
    root: ServiceDir
    service: ServiceFile
    told: Told
    clock: Clock
    number: int
    unsaved: bool = False
    """Whether state.json is behind, since it could not be written."""
    again: Again = field(default_factory=Again)
    _order: ProxyOrder | None = None
    _heard: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_HEARD))

    def __post_init__(self) -> None:
        self._apply()

    def answer(self, ask: Message) -> Message:
        """Carry an ask out and answer it."""
        match ask:
            case StatusAsk(id=id_, run=run):
                return self.status(id_, run)
            case EventsAsk():
                return self.events(ask)
            case StopAsk(id=id_, reason=reason, run=run):
                if self._is_new(id_):
                    self._stop(run, reason)
                return self.status(id_, "" if run == EVERY else run)
            case DesktopOut(id=id_, desktop=desktop, reason=reason):
                if self._is_new(id_):
                    self._check_worker(desktop)
                    self.core.lost_desktop(desktop, reason)
                return self.status(id_, "")
            case Submit():
                return self._submit(ask)
        id_ = str(getattr(ask, "id", ""))
        if id_ not in self.told.answered:
            carry_out, undo = self._carry_out(ask), self._undo()
            carry_out()
            self.told.answer(id_)
            self.save()
            if self.unsaved and not isinstance(ask, HOLD_UNSAVED):
                undo()
                raise NotSaved(f"{self.root.state} cannot be written, so this was not done: make space there, and ask again")
        return Accepted(id=id_)

    def _undo(self) -> Callable[[], None]:
        """What has all that was told be as it is now. The file may have more all the same: it is behind until it is saved."""
        told, policies = self.told.model_copy(deep=True), self.core.policies
        names, default = {run: list(names) for run, names in policies.names.items()}, policies.default

        def undo() -> None:
            self.told.set(**dict(told))
            policies.names, policies.default = names, default
            self._apply()

        return undo

    def _is_new(self, id_: str) -> bool:
        """Whether an ask that whoever follows a run repeats all the time, each time under another id, was not heard yet."""
        if id_ in self._heard:
            return False
        self._heard.append(id_)
        return True

    def _check_worker(self, name: str) -> None:
        known = name in self.core.roster.workers
        if not known and not (re.fullmatch(r"worker-[0-9]{3,5}", name) and number_of(name) < self.service.most_desktops):
            raise ValueError(f"desktop is {name!r:.100}: this service has worker-000 to {self.service.most_desktops - 1:03}")

    def _carry_out(self, ask: Message) -> Callable[[], None]:
        """What an ask does, checked; the rest cannot fail."""
        told = self.told
        match ask:
            case PauseAsk(mode=mode):
                return partial(told.set, pause=mode)
            case ResumeAsk():
                return partial(told.set, pause=None, draining=False)
            case DrainAsk():
                return partial(told.set, draining=True)
            case InflightAsk(max_inflight=most):
                return partial(told.set, max_inflight=most, bounded=True)
            case DesktopsAsk(change=change):
                after = desktops_after(change, self.core.desktops, self.service.most_desktops)
                return partial(told.set, desktops=after)
            case PolicyAsk():
                return self._policy(ask)
            case CancelAsk():
                return self._cancel(ask)
            case ShutdownAsk():
                return self._shutdown
        raise TypeError(f"the broker takes no {type(ask).__name__} from a trainer: see docs/protocol.md")

    def save(self) -> None:
        """Keep what was told for the next broker, and have the core obey it."""
        self.told.policies = {run: list(names) for run, names in self.core.policies.names.items()}
        self.told.default = self.core.policies.default
        self.told.out = {worker.name: worker.out for worker in self.core.roster.workers.values() if worker.out}
        self._apply()
        try:
            self.told.save(self.root.state)
        except OSError as error:
            # What holds all the same is saved when there is room; a broker that dies before forgets it.
            if not self.unsaved:
                log.error("%s cannot be written (%s): make space there", self.root.state, error.strerror)
            self.unsaved = True
        else:
            self.unsaved = False

    def _apply(self) -> None:
        self.core.desktops = self.service.settings.desktops if self.told.desktops is None else self.told.desktops
        self.core.holding = self.told.pause is not None or self.told.draining

    # --- asks --------------------------------------------------------------------------------------------------------

    def _submit(self, ask: Submit) -> Submitted:
        if self.told.leaving:
            raise ConfigError("the service is shutting down: submit the run when it is up again")
        if ask.resume:
            folder = reopen(ask, self.root, self.service, self.core, self.told, self.again)
        else:
            folder = accept(ask, self.root, self.service, self.core.policies.default, self.clock)
        if folder.root.name not in self.core.runs and folder.load_end() is None:
            self.core.begin(open_run(folder, self.told))
            self.save()
        return Submitted(id=ask.id, run=folder.root.name, folder=str(folder.root))

    def _stop(self, name: str, reason: str) -> None:
        runs = self.core.live() if name == EVERY else [self._run(name)]
        fresh = [run for run in runs if run.state == "running"]
        for run in fresh:
            run.stop(reason, self.clock.monotonic())
            self.told.stopping[run.run_id] = reason
        if fresh:
            self.save()

    def _shutdown(self) -> None:
        self.told.leaving = True
        self._stop(EVERY, SHUTDOWN)

    def _cancel(self, ask: CancelAsk) -> Callable[[], None]:
        run = self._run(ask.run)
        if run.state == "finished":
            raise ValueError(f"run {run.run_id} has finished: nothing is left to cancel")
        attempts = run.attempts_named(ask.group, ask.task, ask.attempt)

        def cancel() -> None:
            for group, number in attempts if not run.over else ():
                run.groups.cancel(group, number)
            kept = self.told.cancelled.setdefault(run.run_id, [])
            kept += [attempt for attempt in attempts if attempt not in kept]

        return cancel

    def _policy(self, ask: PolicyAsk) -> Callable[[], None]:
        if ask.run != EVERY:
            self._run(ask.run)
        name = ask.run or self._run("").run_id
        url = url_after(ask, self.stands_still(), self.service.origins)

        def set_policy() -> None:
            self.core.policies.set(name, ask.model, ask.version, only_new=ask.when == "new")
            self.told.url = url or self.told.url

        return set_policy

    # --- what is told ------------------------------------------------------------------------------------------------

    def stands_still(self) -> bool:
        """Whether no model call is under way and none will be before a resume."""
        proxy = self.core.proxy
        heard = proxy is not None and proxy.order == self.proxy_order("").number
        return heard and proxy is not None and proxy.state == "paused" and proxy.running == 0

    @property
    def url(self) -> str:
        """The model server's base URL."""
        return self.told.url or self.service.settings.policy.url

    def proxy_order(self, boot: str) -> ProxyOrder:
        """How the proxy is to make its calls now."""
        told = self.told
        runs = {run.run_id: run.settings for run in self.core.live()}
        order = ProxyOrder(
            boot="",
            number=self.number,
            url=self.url,
            policies=self.core.policies.told(runs),
            max_inflight=told.max_inflight if told.bounded else self.service.settings.max_inflight,
            pause=told.pause,
            leave=self.core.leaving,
        )
        if order != self._order:
            self.number += 1
            self._order = order.model_copy(update={"number": self.number})
        assert self._order is not None
        return self._order.model_copy(update={"boot": boot})

    def status(self, id_: str, name: str) -> RunStatus:
        """Where a run stands, and what all runs share; of one that ended before this process began, that it did."""
        ended = name not in self.core.runs and is_id(name) and not self.service.once
        state = ended_as(self.root.run(name, self.service)) if ended else ""
        run = None if state else self._run(name) if name or self.core.runs else None
        now = run_status(self.core, self.told, self.url, run, id_, self.stands_still())
        if not state:
            return now
        end = self.root.run(name, self.service).load_end() or {}
        return now.model_copy(update={"run": name, "state": state, "reason": str(end.get("reason", ""))})

    def events(self, ask: EventsAsk) -> Events:
        """A run's events after a number, as many as there are."""
        run = self._run(ask.run)
        happened = run.happenings
        return Events(id=ask.id, run=run.run_id, events=happened.after(ask.after, ask.limit), last=len(happened.events))

    def _run(self, name: str) -> Run:
        """The run of that id; the one that was submitted last for "". ValueError where there is none."""
        if name == "" and self.core.runs:
            return next(reversed(self.core.runs.values()))
        if name not in self.core.runs:
            raise ValueError(f"run is {name!r:.100}: {self._why_not_here(name)}")
        return self.core.runs[name]

    def _why_not_here(self, name: str) -> str:
        if name == "":
            return "none was submitted yet"
        known = is_id(name) and not self.service.once and self.root.run(name, self.service).run_file.exists()
        return "it has ended, and its folder has all that there is" if known else "none of that id was submitted here"
