"""How does a batch become a run of a service? DISK: checks what was submitted and makes the run's folder."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from legato_rl.backend import OSWORLD_BACKENDS
from legato_rl.bad_input import one_sentence
from legato_rl.broker.task_files import strays
from legato_rl.canonical import sha256_hex
from legato_rl.clock import Clock, day, iso
from legato_rl.config import PolicyConfig, Settings
from legato_rl.errors import ConfigError
from legato_rl.host_files import TASKS, outside
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.tasks import resolve_tasks
from legato_rl.wire import PolicyName, Submit

OF_A_RUN = frozenset(
    {
        *("group", "oversample", "max_steps", "rollout_timeout", "env_retries", "close", "image_max", "fold_size"),
        *("stop_failure_share", "min_free_gb", "policy"),
    }
)
"""Settings that a run may choose."""
OF_A_POLICY = frozenset(
    {
        *("model", "version", "temperature", "top_p", "max_tokens", "thinking", "extra_body", "seed"),
        *("step_timeout", "retries"),
    }
)
"""Settings of its policy that a run may choose."""


def accept(ask: Submit, root: ServiceDir, service: ServiceFile, default: PolicyName, clock: Clock) -> RunDir:
    """Make the folder of a submitted run, or find the one that the same ask made. ConfigError says what is wrong with it."""
    if service.once:
        raise ConfigError("run: this is a collect of its own, which takes no further run; start `legato-rl serve` for more")
    # Without a name it follows from the ask's id, so that the same ask finds its run again.
    folder = root.run(ask.name or f"run-{sha256_hex(ask.id.encode())[:12]}", service)
    if folder.run_file.exists():
        if folder.load_run().submitted == ask.id:
            return folder
        raise ConfigError(
            f"name is {ask.name!r}: the service has a run of that name; choose another, or go on with that one "
            "(--resume with --name, or resume_run)"
        )
    settings = merge(ask.settings, service, default)
    specs = resolve_tasks(ask.tasks, settings.desktop.osworld_path, settings.max_steps)
    if settings.desktop.backend in OSWORLD_BACKENDS:
        _check_files(specs, settings.desktop.osworld_path)
    run = RunFile(
        run_id=folder.root.name,
        created_at=iso(clock.wall()),
        today=day(clock.wall()),
        legato_rl=service.legato_rl,
        python=service.python,
        settings=settings,
        sockets=service.sockets,
        engine=service.engine,
        submitted=ask.id,
        priority=ask.priority,
    )
    write(folder, run, specs)
    return folder


def _check_files(specs: list[TaskSpec], checkout: Path | None) -> None:
    """ConfigError for a task whose files would lie elsewhere, or that brings one that is not OSWorld's.

    Its trainer may be one that has no right to this machine's files. A worker would refuse it too, at the cost of a try that
    counts against its desktop.
    """
    for spec in specs:
        for name in strays(spec.config):
            raise ConfigError(
                f"task {spec.task_id!r} names the file {name!r:.200}: it would lie outside of the rollout's folder; "
                "give a plain name"
            )
        for name in outside(spec.config, [checkout] if checkout else []):
            if not _may_be_installed(name):
                raise ConfigError(
                    f"task {spec.task_id!r} names the file {name!r:.200} of the service's machine: it may be only of the "
                    f"OSWorld checkout (--osworld); leave it out, or give a path below {TASKS}/"
                )


def _may_be_installed(name: str) -> bool:
    """Whether a file may be of an installed OSWorld: only the workers' interpreter knows where that is, and they look again."""
    parts = PurePath(name).parts
    return "desktop_env" in parts and ".." not in parts


def write(folder: RunDir, run: RunFile, specs: list[TaskSpec]) -> None:
    """Make a run folder. run.json comes last: a folder without it is none yet. ConfigError where it cannot be written."""
    try:
        for path in (folder.root, folder.images, folder.messages):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.write_tasks(specs)
        folder.write_run(run)
    except OSError as error:
        raise ConfigError(f"the run's folder {folder.root} cannot be written ({error.strerror}): make space there") from None


def merge(chosen: dict[str, Any], service: ServiceFile, default: PolicyName) -> Settings:
    """A run's settings: what it chose, laid over the service's. ConfigError for what is not its to choose."""
    _only(OF_A_RUN, chosen, "settings")
    policy = chosen.get("policy", {})
    if not isinstance(policy, dict):
        raise ConfigError(f"settings.policy is {policy!r:.100}: it must be an object")
    _only(OF_A_POLICY, policy, "settings.policy")
    base = service.settings
    fields = {**base.policy.model_dump(), **default.model_dump(), **policy}
    try:
        return Settings(**{**base.model_dump(), **chosen, "policy": PolicyConfig(**fields)})
    except ValidationError as error:
        raise ConfigError(one_sentence(error)) from None


def _only(allowed: frozenset[str], chosen: dict[str, Any], where: str) -> None:
    for name in chosen:
        if name not in allowed:
            raise ConfigError(f"{where}.{name!s:.100} is not a run's to choose: use {', '.join(sorted(allowed))}")
