"""Where does a run keep what? Every path inside a run folder, and `run.json`; paths are made nowhere else."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from legato_rl.bad_input import damage, json_fault
from legato_rl.config import Settings
from legato_rl.errors import ConfigError, RecordError

RUN_SCHEMA = "legato.run/v0"
MOST_NAMED = 8
"""Runs that are named to whoever named the folder above them."""


class TaskSpec(BaseModel):
    """One group's task as resolved from the tasks file: `config` is an OSWorld task (id, instruction, evaluator …)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    group_id: str
    domain: str | None
    config: dict[str, Any]
    max_steps: int
    meta: Any = None


class RunFile(BaseModel):
    """`run.json`: what was asked, resolved, and what answered. Every process of the run starts from it. Never the key."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Annotated[str, Field(alias="schema")] = RUN_SCHEMA
    run_id: str
    created_at: str
    today: str
    """The date that the agent's prompt names, fixed for the run."""
    legato_rl: str
    """The version of this package."""
    python: str
    settings: Settings
    sockets: Path
    """The private folder of the run's sockets."""
    engine: dict[str, Any]
    """What the pre-flight found at the server: name, version, model length, ids and logprobs on offer, their kind."""
    submitted: str = ""
    """The id of the ask that submitted the run to a service; empty without one."""
    priority: int = 0
    """Runs of a service with a higher one get desktops first."""
    again: list[str] = Field(default_factory=list)
    """Ids of rollouts that ended their attempts as errors, and whose attempts go on all the same (`--retry-errors`)."""
    bundled: bool = False
    """Whether the model server is the bundled one, which a resume starts anew, under another URL."""
    folder: Path | None = None
    """Where the run was started: what relative paths of the settings are relative to."""


@dataclass(frozen=True)
class RunDir:
    """A run folder. Only names paths; makes nothing."""

    root: Path

    @property
    def run_file(self) -> Path:
        return self.root / "run.json"

    @property
    def tasks(self) -> Path:
        """The resolved tasks, one JSON object a line, in group order."""
        return self.root / "tasks.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.root / "rollouts.jsonl"

    @property
    def desktop_events(self) -> Path:
        return self.root / "desktops.jsonl"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"

    @property
    def end(self) -> Path:
        """How the run ended: `state` (finished, stopped, interrupted), `reason`, `at`. Not there while it runs."""
        return self.root / "end.json"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def messages(self) -> Path:
        return self.root / "messages"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """Locked (flock) by the one sink that may write here."""
        return self.root / "lock"

    @property
    def command_lock(self) -> Path:
        """Locked (flock) by the one command that runs this folder, as long as it does."""
        return self.root / "command.lock"

    @property
    def supervisord_conf(self) -> Path:
        return self.root / "supervisord.conf"

    def image(self, sha256: str) -> Path:
        return self.images / f"{sha256}.png"

    def message(self, sha256: str) -> Path:
        return self.messages / f"{sha256}.json"

    def load_run(self) -> RunFile:
        """`run.json`. ConfigError where there is none, RecordError where it is not what it should be."""
        try:
            return RunFile.model_validate_json(self.run_file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(f"{self.root} is no run folder: {_what_instead(self.root)}") from None
        except ValidationError as error:
            raise RecordError(f"{self.run_file}: {damage(error)}") from None

    def write_run(self, run: RunFile) -> None:
        """Write `run.json` whole or not at all."""
        write_file(self.run_file, run.model_dump_json(indent=1, by_alias=True).encode() + b"\n")

    def load_end(self) -> dict[str, Any] | None:
        """`end.json`, with a `state` and a `reason`; None where the run goes on, or ended without a word (SIGKILL).

        RecordError where it is anything else.
        """
        try:
            end: Any = json.loads(self.end.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{self.end} is no JSON: {json_fault(error)}") from None
        if not isinstance(end, dict) or not all(isinstance(end.get(name), str) for name in ("state", "reason")):
            raise RecordError(f"{self.end} is no object with a state and a reason: it does not say how the run ended")
        return end

    def write_end(self, state: str, reason: str, at: str) -> None:
        """Write `end.json` whole or not at all."""
        write_file(self.end, json_bytes({"state": state, "reason": reason, "at": at}))

    def forget_end(self) -> None:
        """Take `end.json` away, and the summary of that end: the run goes on."""
        self.end.unlink(missing_ok=True)
        self.summary.unlink(missing_ok=True)

    def load_tasks(self) -> list[TaskSpec]:
        """The run's tasks in group order. RecordError, naming the line, for one that is no task."""
        return [self._task(line, number) for number, line in enumerate(self.tasks.read_bytes().splitlines(), 1)]

    def _task(self, line: bytes, number: int) -> TaskSpec:
        try:
            return TaskSpec.model_validate_json(line)
        except ValidationError as error:
            raise RecordError(f"{self.tasks}, line {number}: {damage(error)}") from None

    def write_tasks(self, tasks: list[TaskSpec]) -> None:
        """Write the run's tasks whole or not at all."""
        write_file(self.tasks, b"".join(task.model_dump_json().encode() + b"\n" for task in tasks))


def _what_instead(root: Path) -> str:
    """What there is in place of a run folder; where runs are in it, as in a service's, the latest of them."""
    if not root.exists():
        return "there is no such folder"
    if not root.is_dir():
        return "it is a file"
    runs = [path for pattern in ("*/run.json", "runs/*/run.json") for path in root.glob(pattern)]
    latest = [str(path.parent) for path in sorted(runs, key=lambda path: -path.stat().st_mtime)]
    more = f", … ({len(latest)} in all)" if len(latest) > MOST_NAMED else ""
    return "it has no run.json" + (f"; name a run in it: {', '.join(latest[:MOST_NAMED])}{more}" if latest else "")


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` by rename, file and folder fsynced: readers see the old file or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def json_bytes(value: Any) -> bytes:
    """`value` as indented JSON for people and machines."""
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"
