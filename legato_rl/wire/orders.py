"""What do workers and the proxy say to the broker, and it to them? The messages of socket `orders`. PURE: knows no socket."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from legato_rl.config import Phase
from legato_rl.frames import Message
from legato_rl.parts import Assignment, Holding, PauseMode, RunPolicy, RunWithoutModel
from legato_rl.records import Items, RolloutKey, StopReason


# --- orders: workers and the proxy <-> broker ------------------------------------------------------------------------
class Beat(Message):
    """worker -> broker: how the worker is and what it holds, every second or so and at once on a change. Idempotent.

    `boot` is random per process: a new one means that what the old one held is lost. Beats of two processes may come in any
    order: `started` tells which is the new one. `ready`: the desktop passed its
    self-check and the last row is stored, so a new try may be held. `stored` is the last key that was seen stored, `built`
    counts desktops, `build_failures` those that failed the self-check; `boot_ask` numbers a boot or revert that waits or runs.
    `dropped` is the last key that this process gave back, without a row and without fault, because it was asked to end.
    """

    worker: str
    boot: str
    ready: bool
    phase: Phase
    holds: Holding | None
    stored: RolloutKey | None
    built: int
    build_failures: int
    message: str = ""
    boot_ask: int = 0
    dropped: RolloutKey | None = None
    started: float = 0.0


class Order(Message):
    """broker -> worker: what the worker should hold; the answer to a beat, also sent early. Idempotent.

    `assign` repeats until it is held. `stop` ends the held try in a row, `drop` ends it without one. `rebuild` asks for
    desktop number `rebuild`, so a repeat asks for no second one; boot number `may_boot` may go on. `leave`: exit when idle.
    `park`: have no desktop and ask for no work, once what is held has ended.
    """

    boot: str
    assign: Assignment | None = None
    held: RolloutKey | None = None
    stop: StopReason | None = None
    drop: bool = False
    rebuild: int = 0
    leave: bool = False
    may_boot: int = 0
    park: bool = False


class ProxyBeat(Message):
    """proxy -> broker: how the model server is, every second and at once on a change. Idempotent.

    `order` is the number of the last order that is carried out: until it is the broker's last one, the rest is of before.
    `without_model` are runs whose model the server does not know; the server itself is there for the others.
    """

    boot: str
    state: Literal["up", "down", "paused"]
    queued: int
    running: int
    down_s: float
    message: str = ""
    gave_up: bool = False
    order: int = 0
    without_model: Items[RunWithoutModel] = Field(default_factory=list)


class ProxyOrder(Message):
    """broker -> proxy: how calls are to be made; the answer to a ProxyBeat, also sent early. Idempotent.

    `number` counts the orders that differ. `policies` names every run's; a call of a run that is not there waits. `pause`
    admits nothing: `abort` also ends what is in the air, to be asked again for free. `url` is the server's: where it differs,
    nothing is admitted before all is still and calls go there; an order that names an origin which the proxy's own
    configuration does not allow is refused whole. `leave`: exit.
    """

    boot: str
    number: int = 0
    url: str = ""
    policies: Items[RunPolicy] = Field(default_factory=list)
    max_inflight: int | None = None
    pause: PauseMode | None = None
    leave: bool = False
