"""Which models is the server without? PURE: refusals and answers by model in; which calls may go, and who waited enough, out.

A server that does not know one name is not down: an adapter may be loaded anew, or a run may name what never was. So the calls
of that model alone keep their places, and one after the other asks again, after a growing pause, until one is answered.
Towards giving up counts only the time after a refusal, with no call of the model in the air: one that generates is there,
and an end that tells neither (a gateway's error, a cut connection) leaves it open until the next one. Nothing counts while
calls are paused or the server is down, nor what came before nobody waited any more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from legato_rl.policy.verdicts import MODEL_IS_THERE, UNKNOWN_MODEL, Verdict

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
"""Seconds between two calls of a model that is away: the first doubles up to the longest."""
STRANGE_S = 60.0
"""Seconds that a model is waited for at most which never answered: its name may be wrong."""


@dataclass
class Absence:
    """A model that is away: why, when it is asked for next, and the seconds that it was waited for up to `counted_at`."""

    look_at: float
    counted_at: float
    why: str = ""
    pause: float = FIRST_PAUSE_S
    waited_s: float = 0.0
    refused: bool = True
    """Whether the last end of a call of it was a refusal."""


@dataclass
class Models:
    """The models that calls name. `server_wait`: the seconds that one which did answer is waited for."""

    server_wait: float
    known: set[str] = field(default_factory=set)
    """Those that were answered for, here or at a server before: their names are right."""
    away: dict[str, Absence] = field(default_factory=dict)

    def answered(self, model: str) -> None:
        """The server knows `model`."""
        self.away.pop(model, None)
        self.known.add(model)

    def failed(self, model: str, verdict: Verdict, now: float) -> None:
        """A call of `model` ended without a completion."""
        if verdict.type in MODEL_IS_THERE:
            self.answered(model)
        elif verdict.type == UNKNOWN_MODEL:
            absence = self.away.setdefault(model, Absence(look_at=now + FIRST_PAUSE_S, counted_at=now))
            absence.why, absence.refused = f"model {model!r:.200}: {verdict.message}", True
        elif model in self.away:
            self.away[model].refused = False

    def may_go(self, model: str, now: float) -> bool:
        """Whether a call of `model` may be sent now."""
        return model not in self.away or now >= self.away[model].look_at

    def left(self, model: str, now: float) -> None:
        """A call of `model` was sent; of one that is away the next one waits longer."""
        if absence := self.away.get(model):
            absence.pause = min(absence.pause * 2, LONGEST_PAUSE_S)
            absence.look_at = now + absence.pause

    def look(self, now: float) -> None:
        """All of them may be there now: a pause, in which models are loaded, is over."""
        for absence in self.away.values():
            absence.look_at = now

    def tick(self, wanted: Collection[str], asked: Collection[str], counts: bool, now: float) -> None:
        """Time passed; `counts` towards giving up. Calls of the models `wanted` are waiting: the others are forgotten.

        Calls of the models `asked` are in the air.
        """
        self.away = {model: absence for model, absence in self.away.items() if model in wanted}
        for model, absence in self.away.items():
            if counts and absence.refused and model not in asked:
                absence.waited_s += now - absence.counted_at
            absence.counted_at = now

    def gave_up(self, model: str) -> bool:
        """Whether `model` was waited for long enough."""
        most = self.server_wait if model in self.known else min(self.server_wait, STRANGE_S)
        return model in self.away and self.away[model].waited_s >= most
