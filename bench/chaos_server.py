"""Where is the model server of a chaos run? In this process, since it is none of the product's, and at times away."""

from __future__ import annotations

from chaos_plan import Plan

from legato_rl.fake.server import FakePolicyServer


class Server:
    """The model server, which dies and comes back on its port."""

    def __init__(self, plan: Plan) -> None:
        self._config = plan.server
        self._server = FakePolicyServer(self._config)
        self.url = self._server.start()
        self._config = self._config.model_copy(update={"port": int(self.url.split(":")[2].partition("/")[0])})
        self._back_at: float | None = None

    def die(self, until: float) -> None:
        """Be away until then."""
        if self._back_at is None:
            self._server.close()
        self._back_at = until

    def turn(self, now: float) -> None:
        """Come back when it is time."""
        if self._back_at is not None and now >= self._back_at:
            self._server = FakePolicyServer(self._config)
            self._server.start()
            self._back_at = None

    def close(self) -> None:
        """End it."""
        self.die(0.0)
