"""How does a run go on that ended early? From its folder alone, whatever ended it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import DesktopConfig, PolicyConfig
from legato_rl.errors import ConfigError
from legato_rl.export.groups import RowFacts, env_errors, fold_groups
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.policy.readiness import preflight
from legato_rl.run.alone import carry_out, close
from legato_rl.run.connect import resume_at
from legato_rl.run.fake_policy import fake_policy
from legato_rl.run.hold import held, wait_for_sink
from legato_rl.run.prepare import SOCKETS_PREFIX, check_backend, sockets_folder, write_supervisord
from legato_rl.run.space import check_space
from legato_rl.rundir import RunDir, RunFile
from legato_rl.wire import RunStatus

CHANGED = ("engine", "engine_version", "logprobs_mode", "token_ids", "prompt_token_ids")
"""What the pre-flight finds and may not change in a run without a word."""


def resume(
    out: str | Path | None = None,
    *,
    connect: str | Path | None = None,
    name: str = "",
    retry_errors: bool = False,
    api_key: str | None = None,
    on_start: Callable[[RunFile], None] | None = None,
    on_status: Callable[[RunStatus], None] | None = None,
    on_group: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Finish the run in folder `out`, or `name` of the service in `connect`, with the settings that it has; its summary.

    Attempts without a final row are run; rows that are stored stay, and nothing is added to a group that is closed. With
    `retry_errors`, attempts that ended as an `error` of kind env are tried again, where their group is not closed. Of a run
    that has finished only the end and the summary are written anew, and `on_start` is not called. `on_group` hears all
    groups that close, those that had closed before too. Else as `collect`. A service's run may stand wherever it does: one
    that goes on is followed.

    ConfigError (nothing was started, and the folder is as it was): there is no run, another command runs it, or its server
    or its desktops are not as they have to be.
    """
    if connect is not None:
        if out is not None or api_key is not None:
            raise ConfigError("out and api_key are the service's own: leave them out with connect; name names the run's folder")
        if not name:
            raise ConfigError("name is missing: say with it which run of the service is to go on")
        return resume_at(
            Path(connect), name, retry_errors=retry_errors, on_start=on_start, on_status=on_status, on_group=on_group
        )
    if name:
        raise ConfigError("name is a service's: leave it out, or say with connect which service it is")
    if out is None:
        raise ConfigError("out is missing: name the folder of the run to resume, or a service and its run (connect, name)")
    folder = _find(Path(out))
    with ExitStack() as stack:
        stack.enter_context(held(folder))
        wait_for_sink(folder, SYSTEM_CLOCK)
        run, group_ids = folder.load_run(), load_group_ids(folder)
        with RowFile(folder) as file:
            facts = list(file.facts())
            weights = _last_weights(file, facts)
        if retry_errors:
            run = run.model_copy(update={"again": sorted({*run.again, *env_errors(facts, run.settings, group_ids)})})
        ended = {group.group_id: group.ended for group in fold_groups(facts, run.settings, group_ids, run.again)}
        left = {group_id: run.settings.attempts - count for group_id, count in ended.items()}
        if not any(left.values()):
            _remove_sockets(run.sockets)
            return close(folder)
        policy, engine = _check(folder, run, left, weights, api_key, stack)
        run = _reopen(folder, run, policy, engine, stack)
        if on_start:
            on_start(run)
        return carry_out(folder, run, policy, on_status, on_group)


def _find(out: Path) -> RunDir:
    """The folder of a run that may be resumed here. ConfigError where it is none."""
    folder = RunDir(out.resolve())
    if not folder.root.is_dir():
        raise ConfigError(f"out is {str(out)!r}: there is no such folder; name that of the run to resume")
    if not folder.run_file.exists():
        raise ConfigError(f"out is {str(out)!r}: it has no run.json, so nothing was started there; collect to a new folder")
    if folder.load_run().submitted:
        raise ConfigError(f"out is {str(out)!r}: it is a run of a service; go on with it there (--connect and --name)")
    return folder


def _check(
    folder: RunDir, run: RunFile, left: Mapping[str, int], weights: str | None, api_key: str | None, stack: ExitStack
) -> tuple[PolicyConfig, dict[str, Any]]:
    """What has to be true before a run starts, again. The policy with its key, and what is known of the server now.

    `left` are the attempts without a final row by group. ConfigError names what is wrong.
    """
    settings, specs = run.settings, folder.load_tasks()
    if run.folder not in (None, Path.cwd()) and _depends_on_folder(settings.desktop):
        raise ConfigError(f"out is {str(folder.root)!r}: the run has paths relative to {run.folder}; resume it from there")
    check_backend(settings, specs)
    check_space(folder, settings, sum(left.values()), sum(left[spec.group_id] * spec.max_steps for spec in specs))
    url = stack.enter_context(fake_policy(folder.logs, settings.policy.seed)) if run.bundled else settings.policy.url
    policy = PolicyConfig(**{**settings.policy.model_dump(), "url": url, "api_key": api_key})
    steps = max(spec.max_steps for spec in specs)
    engine = preflight(policy, image_max=min(settings.image_max, steps), screen_size=settings.desktop.screen_size)
    due, is_ = weights or run.engine.get("weight_version"), engine["weight_version"]
    if due is not None and is_ not in (None, due):
        raise ConfigError(
            f"policy-url is {policy.url!r}: the server has weight version {is_!r}, and the run's is {due!r}; load those weights"
        )
    changed = [
        f"{name} was {run.engine[name]}, and is {engine[name]} since a resume"
        for name in CHANGED
        if name in run.engine and run.engine[name] != engine[name]
    ]
    before = [notice for notice in run.engine.get("notices", []) if notice not in engine["notices"]]
    engine |= {"weight_version": is_ or due, "notices": [*before, *engine["notices"], *changed]}
    return policy, engine


def _reopen(folder: RunDir, run: RunFile, policy: PolicyConfig, engine: dict[str, Any], stack: ExitStack) -> RunFile:
    """Write what the run's processes start from, with sockets of its own; how it ended before is forgotten first."""
    _remove_sockets(run.sockets)
    sockets = sockets_folder()
    stack.callback(shutil.rmtree, sockets, ignore_errors=True)
    settings = run.settings.model_copy(update={"policy": policy})
    run = run.model_copy(update={"settings": settings, "sockets": sockets, "engine": engine, "folder": Path.cwd()})
    try:
        write_supervisord(folder, settings, sockets)
        folder.forget_end()
        folder.write_run(run)
    except OSError as error:
        raise ConfigError(f"out is {str(folder.root)!r}: {error.strerror}; make it a folder that can be written") from None
    return run


def _depends_on_folder(desktop: DesktopConfig) -> bool:
    """Whether it matters where the run is started: a path is relative, or a backend is looked up there."""
    paths = (desktop.osworld_path, desktop.osworld_python, desktop.path_to_vm, desktop.cache_dir, desktop.proxy)
    return ":" in desktop.backend or any(path is not None and not path.is_absolute() for path in paths)


def _last_weights(file: RowFile, facts: list[RowFacts]) -> str | None:
    """The weight version that the server named last in a stored step; None where it named none."""
    for row in reversed(facts):
        steps = file.row(row).steps
        if steps:
            return steps[-1].model.server_version
    return None


def _remove_sockets(sockets: Path) -> None:
    """Remove the private folder of a command that was killed. Nobody is in it: the run's locks are ours."""
    with suppress(OSError):
        if sockets.name.startswith(SOCKETS_PREFIX) and sockets.stat().st_uid == os.getuid() and not sockets.is_symlink():
            shutil.rmtree(sockets)
