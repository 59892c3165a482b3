"""Is a desktop that was out, and is back, told as out no more?"""

from __future__ import annotations

from broker_scene import Scene, scene

from legato_rl.broker.told import Told
from legato_rl.wire import DesktopOut, RunStatus


def kept(run: Scene) -> dict[str, str]:
    """What the next broker would know of desktops that are out, as would `legato-rl control status`."""
    return Told.load(run.broker.control_desk.root.state).out


def test_the_reason_of_a_desktop_that_is_back_is_forgotten() -> None:
    """Somebody started its worker, and nobody has asked the broker for anything since; the one that is out is kept."""
    with scene(desktops=3) as run:
        run.core.roster.revive = True
        run.loaded()
        for name in ("w0", "w1"):
            run.beat(name)
            run.ask(DesktopOut(id=name, desktop=name, reason="its process is FATAL"), RunStatus)
            run.until(lambda name=name: name in kept(run), "the reason")
        assert not run.beat("w0", boot="started since").leave
        run.clock.ahead += 1.1
        run.until(lambda: kept(run) == {"w1": "its process is FATAL"}, "the end of a reason")
        assert run.status().desktops == {"idle": 1, "out": 1}
