"""How does a trainer or the command line steer a service? One ask at a time, asked again until answered, by its id."""

from __future__ import annotations

import math
import re
import secrets
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.endpoints import address
from legato_rl.errors import ConfigError, ControlError, NoAnswer
from legato_rl.frames import Message
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.sockets import Context, wait
from legato_rl.up import is_up
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
    Refused,
    ResumeAsk,
    RunStatus,
    ShutdownAsk,
    StatusAsk,
    StopAsk,
    Submit,
    Submitted,
)

ASK_AGAIN_S = 1.0
"""Seconds after which a question is asked again."""
ANSWER_S = 60.0
"""Seconds that a broker has to answer; one that restarts answers within a few."""
DOWN_S = 5.0
"""Seconds without any process of the service on this machine, after which no answer is waited for any more."""
LOOK_S = 0.1
"""Seconds between two looks at whether calls stand still."""

Answer = TypeVar("Answer", bound=Message)
Ask = (
    StatusAsk | StopAsk | DesktopOut | Submit | CancelAsk | PauseAsk | ResumeAsk | PolicyAsk | DrainAsk | InflightAsk
    | DesktopsAsk | ShutdownAsk | EventsAsk
)  # fmt: skip


class ControlClient:
    """A connection to a broker. Use it as a context manager, in one thread.

    `where` is a service's root (or a run's folder, or that of a running one's sockets) on this machine, or the `tcp://`
    address of a service elsewhere, with `keys`, a folder that holds `client.secret` and `server.public`. A `run` of "" is
    the one that was submitted last.

    ControlError says why something was refused; nothing was done then. NoAnswer, one of these, that nobody answered
    within `ANSWER_S` seconds, or within `DOWN_S` where no process of the service is up on this machine; ConfigError, at
    once, that `where` or `keys` is none.
    """

    def __init__(self, where: str | Path, keys: str | Path | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._where = str(where)
        self._at = _find(where, Path(keys) if keys else None)
        self._context = Context()
        try:
            self._socket = self._context.client("control", self._at.address, keys=self._at.keys)
        except BaseException:
            self._context.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        self._context.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- runs --------------------------------------------------------------------------------------------------------

    def submit(
        self, tasks: Iterable[Mapping[str, Any]], settings: Mapping[str, Any], name: str = "", priority: int = 0
    ) -> tuple[str, Path]:
        """Run the tasks' groups; the run's id, and its folder on the service's machine.

        `tasks` are entries of a tasks file, each with its `config`. `settings` are what differs from the service's own
        (`group`, `max_steps` …; `policy`: a map of `version`, `model`, `temperature` …). `name` is the id; "" draws one.
        """
        ask = Submit(
            id=_id(), tasks=[dict(task) for task in tasks], settings=dict(settings), name=name, priority=priority
        )  # fmt: skip
        submitted = self._answer(ask, Submitted)
        return submitted.run, Path(submitted.folder)

    def resume_run(self, run: str, retry_errors: bool = False) -> Path:
        """Have a run that stopped early go on; its folder. `retry_errors`: attempts that ended in an error of kind env too."""
        ask = Submit(id=_id(), name=run, resume=True, retry_errors=retry_errors)
        return Path(self._answer(ask, Submitted).folder)

    def status(self, run: str = "", wait_s: float = 5.0) -> RunStatus | None:
        """Where a run stands, and the service; None where the broker did not answer within `wait_s` seconds."""
        return self._ask(StatusAsk(id=_id(), run=run), RunStatus, wait_s)

    def events(
        self, after_seq: int = 0, wait_s: float = 0.0, run: str = "", limit: int = 500, answer_s: float = ANSWER_S
    ) -> Events:
        """A run's events after number `after_seq`, `limit` at most: at once where there are any, else within `wait_s`.

        Events of a run are numbered from 1 without a gap, and come in the same order to everybody, however often asked.
        """
        ask = EventsAsk(id=_id(), run=run, after=after_seq, wait_s=wait_s, limit=limit)
        return self._answer(ask, Events, wait_s + answer_s)

    def stop(self, reason: str, run: str = "", wait_s: float = ANSWER_S) -> RunStatus | None:
        """Stop a run ("*": all), resumable; where it now stands, None where the broker did not answer in time."""
        return self._ask(StopAsk(id=_id(), reason=reason, run=run), RunStatus, wait_s, DOWN_S)

    def cancel(self, run: str = "", group: str = "", task: str = "", attempt: int | None = None) -> None:
        """End attempts for good: all of a run, or those of a group, of a task's groups, or one attempt of a group."""
        self._answer(CancelAsk(id=_id(), run=run, group=group, task=task, attempt=attempt), Accepted)

    # --- the policy --------------------------------------------------------------------------------------------------

    def pause(self, mode: Literal["abort", "wait"] = "abort", wait_s: float = 120.0) -> RunStatus:
        """Let no model call be at the server, and return when none is: weights may be changed now.

        `abort` ends calls in the air (they are asked again later, and count nowhere), `wait` lets them end. NoAnswer
        where some still run after `wait_s` seconds; the pause holds all the same.
        """
        give_up = self._clock.monotonic() + wait_s
        self._answer(PauseAsk(id=_id(), mode=mode), Accepted, wait_s)
        while True:
            status = self.status(wait_s=max(0.0, give_up - self._clock.monotonic()))
            if status is not None and status.policy == "paused" and status.running == 0:
                return status
            if self._clock.monotonic() + LOOK_S >= give_up:
                found = f"{status.running} calls run, the policy is {status.policy}" if status else "the broker is silent"
                raise NoAnswer(
                    f"the pause holds, but calls do not stand still after {wait_s:g} s ({found}): wait longer, or abort them"
                )
            self._clock.sleep(LOOK_S)

    def resume(self) -> None:
        """Go on after a pause or a drain."""
        self._answer(ResumeAsk(id=_id()), Accepted)

    def set_policy(
        self, model: str = "", version: str = "", url: str = "", run: str = "*", when: Literal["paused", "new"] = "paused"
    ) -> None:
        """Another policy is in force; what is "" stays as it is. `run` "*" is every run, later ones too.

        `paused`: from the next call on, refused unless calls stand still. `new`: for tries that are begun from now on.
        `url` is the service's, and only an origin that it was started with is accepted.
        """
        self._answer(PolicyAsk(id=_id(), run=run, model=model, version=version, url=url, when=when), Accepted)

    def set_max_inflight(self, calls: int | None) -> None:
        """At most so many model calls at once; None bounds them by the desktops alone."""
        self._answer(InflightAsk(id=_id(), max_inflight=calls), Accepted)

    # --- the service -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Begin no further try; those in progress go on to their end. `resume` ends it."""
        self._answer(DrainAsk(id=_id()), Accepted)

    def add_desktops(self, count: int) -> None:
        """So many more desktops work; a service has no more than it was started for (`--most-desktops`)."""
        self._answer(DesktopsAsk(id=_id(), change=count), Accepted)

    def remove_desktops(self, count: int) -> None:
        """So many fewer desktops work; each ends its try first."""
        self._answer(DesktopsAsk(id=_id(), change=-count), Accepted)

    def shutdown(self, wait_s: float = ANSWER_S) -> None:
        """Stop every run, resumable, and end the service's processes."""
        self._answer(ShutdownAsk(id=_id()), Accepted, wait_s)

    def desktop_out(self, desktop: str, reason: str, wait_s: float = 5.0) -> RunStatus | None:
        """Tell the broker that a worker's process does not stay up; None where it did not answer in time."""
        return self._ask(DesktopOut(id=_id(), desktop=desktop, reason=reason), RunStatus, wait_s)

    def refuse_down(self) -> None:
        """NoAnswer, at once, where no process of the service is up on this machine; of one elsewhere nobody knows."""
        if not self._at.may_be_up():
            raise NoAnswer(f"nobody is at {self._where}: {self._at.remedy()}")

    # --- one exchange ------------------------------------------------------------------------------------------------

    def _answer(self, ask: Ask, kind: type[Answer], wait_s: float = ANSWER_S) -> Answer:
        began = self._clock.monotonic()
        answer = self._ask(ask, kind, wait_s, DOWN_S)
        if answer is None:
            seconds = round(min(wait_s, self._clock.monotonic() - began), 1)
            raise NoAnswer(
                f"nobody answered a {ask.kind.decode()} at {self._at.address} within {seconds:g} s: {self._at.remedy()}"
            )
        return answer

    def _ask(self, ask: Ask, kind: type[Answer], wait_s: float, down_s: float = math.inf) -> Answer | None:
        """The answer within `wait_s` seconds, else None; None already where nothing was up for `down_s`."""
        up = self._clock.monotonic()
        give_up = up + wait_s
        again: Refused | None = None
        last: Refused | None = None
        while (left := give_up - self._clock.monotonic()) > 0 and self._clock.monotonic() - up < down_s:
            self._socket.send(ask)
            last = None
            turn = self._clock.monotonic() + min(left, ASK_AGAIN_S)
            while (left := turn - self._clock.monotonic()) > 0:
                wait([self._socket], left)
                for received in self._socket.receive():
                    message = received.message
                    if isinstance(message, kind) and getattr(message, "id", None) == ask.id:
                        return message
                    if isinstance(message, Refused) and _is_about(message, ask):
                        if not message.again:
                            raise ControlError(message.reason)
                        again = last = message
            if self._at.may_be_up():
                up = self._clock.monotonic()
        if last is not None:
            raise ControlError(last.reason)
        if again is not None:
            # What was asked last may still come to it.
            raise NoAnswer(f"{again.reason}; what it was asked then is not answered, and may be done yet")
        return None


@dataclass(frozen=True)
class _Place:
    """Where a broker's `control` is, and the keys for it. `sockets` is the folder of its sockets; None for one elsewhere."""

    address: str
    keys: Path | None = None
    sockets: Path | None = None
    start: str = "start it"
    """What to do where it is not up."""

    def may_be_up(self) -> bool:
        """Whether some process of it is there; of one elsewhere nobody knows."""
        return self.sockets is None or is_up(self.sockets)

    def remedy(self) -> str:
        """What to do where nobody answered."""
        return "is the service up?" if self.may_be_up() else f"no process of it is up; {self.start}"


def _find(where: str | Path, keys: Path | None) -> _Place:
    """Where the broker of `where` is. ConfigError where that names none."""
    if isinstance(where, str) and where.startswith("tcp://"):
        return _Place(where, keys)
    folder = Path(where)
    try:
        if any((folder / name).exists() for name in ("service.json", "run.json")):
            service = ServiceDir(folder).load()
            # Bound to every device of the service's machine, which is this one.
            control = re.sub(r"//(\*|0\.0\.0\.0):", "//127.0.0.1:", service.control)
            return _Place(control, keys or service.keys, service.sockets, _how_to_start(folder, service))
        if (folder / "control").is_socket():
            return _Place(address(folder, "control"), sockets=folder)
    except OSError as error:
        raise ConfigError(f"where is {str(where)!r}: {error.strerror}; name a folder that can be read") from None
    raise ConfigError(
        f"where is {str(where)!r}: it holds no service and no run; name the --dir of a legato-rl serve, or tcp://HOST:PORT"
    )


def _how_to_start(folder: Path, service: ServiceFile) -> str:
    if service.once:
        end = ServiceDir(folder).run(service.once, service).load_end()
        if end is not None and end["state"] == "finished":
            return "the run has finished, and its folder has all that there is"
        return "a run that was cut goes on with legato-rl collect --resume, or with its service"
    return f"start it with legato-rl serve --dir {shlex.quote(str(folder))}, or the supervisord that runs it"


def _is_about(refused: Refused, ask: Ask) -> bool:
    """Whether a refusal is of `ask`; of one that could not be read the broker does not know the id."""
    return refused.of == ask.id or (not refused.of and refused.about.encode() == ask.kind)


def _id() -> str:
    return secrets.token_hex(8)
