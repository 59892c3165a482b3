"""Where does a service keep what, and what was it asked to be? Every path below a service's root, and `service.json`.

A service's processes stay up from one run to the next. `collect` without one is a service of a single run, whose root is
the run's own folder: its `service.json` is then not there, and follows from `run.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from legato_rl.bad_input import damage
from legato_rl.config import Settings
from legato_rl.endpoints import address
from legato_rl.errors import ConfigError, RecordError
from legato_rl.records import is_id
from legato_rl.rundir import RunDir, RunFile, write_file

SERVICE_SCHEMA = "legato.service/v0"
SHUTDOWN = "the service was shut down"
"""Why a shutdown has runs stop, as they are told and as state.json keeps it."""


class ServiceFile(BaseModel):
    """`service.json`: what was asked, resolved. Every process of the service starts from it. Never the key."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Annotated[str, Field(alias="schema")] = SERVICE_SCHEMA
    created_at: str
    legato_rl: str
    """The version of this package."""
    python: str
    settings: Settings
    """What a run gets that says nothing else. Its `desktop`, `desktops`, `agent`, `max_booting`, `max_inflight` and
    `fragment_mb`, and its policy's `url` and `server_wait`, are the service's own and every run's."""
    most_desktops: int
    """Worker processes; those beyond `settings.desktops` have no desktop until one is asked for."""
    origins: list[str]
    """Where model calls, and with them the key, may go: scheme, host and port each."""
    sockets: Path
    """The private folder of the service's sockets."""
    control: str
    """The address of socket `control`: `ipc://`, or `tcp://` with keys."""
    keys: Path | None = None
    """The folder of the CURVE keys, for a `control` over tcp."""
    engine: dict[str, Any]
    """What the pre-flight found at the server."""
    bundled: bool = False
    """Whether the model server is the bundled one, which is started with the service, each time under another URL."""
    once: str = ""
    """The one run's id, where this is no service but a `collect` of its own."""


@dataclass(frozen=True)
class ServiceDir:
    """A service's root. Only names paths; makes nothing."""

    root: Path

    @property
    def service_file(self) -> Path:
        return self.root / "service.json"

    @property
    def state(self) -> Path:
        """What the broker was told since it first started (broker/told.py), for the one that comes after it."""
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """Locked (flock) by the one sink of the service; where it is of a single run, this is the run's own lock."""
        return RunDir(self.root).lock

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def supervisord_conf(self) -> Path:
        return self.root / "supervisord.conf"

    def run(self, run_id: str, service: ServiceFile) -> RunDir:
        """The folder of a run, which need not be there. ConfigError for an id that is none, or of no run here."""
        if service.once:
            if run_id != service.once:
                raise ConfigError(f"run is {run_id!r:.100}: this folder is of run {service.once!r}")
            return RunDir(self.root)
        if not is_id(run_id):
            raise ConfigError(
                f"run is {run_id!r:.100}: it must be letters, digits, '.', '_' and '-', and not begin with a sign"
            )
        return RunDir(self.runs / run_id)

    def load(self) -> ServiceFile:
        """`service.json`, or what follows from `run.json`. ConfigError where neither is there, RecordError for damage."""
        try:
            return ServiceFile.model_validate_json(self.service_file.read_bytes())
        except FileNotFoundError:
            return of_run(RunDir(self.root).load_run())
        except ValidationError as error:
            raise RecordError(f"{self.service_file}: {damage(error)}") from None

    def write(self, service: ServiceFile) -> None:
        """Write `service.json` whole or not at all."""
        write_file(self.service_file, service.model_dump_json(indent=1, by_alias=True).encode() + b"\n")


def of_run(run: RunFile) -> ServiceFile:
    """The service of a single run."""
    return ServiceFile(
        created_at=run.created_at,
        legato_rl=run.legato_rl,
        python=run.python,
        settings=run.settings,
        most_desktops=run.settings.desktops,
        origins=[origin(run.settings.policy.url)],
        sockets=run.sockets,
        control=address(run.sockets, "control"),
        engine=run.engine,
        once=run.run_id,
    )


def origin(url: str) -> str:
    """Scheme, host and port of a URL, as `http://127.0.0.1:8000`; a scheme's own port is not told."""
    parts = urlsplit(url)
    port = parts.port if parts.port not in (None, {"http": 80, "https": 443}.get(parts.scheme)) else None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
