"""What is `collect`? From a task list to graded rollouts on disk: checks everything, runs the processes, sums up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from legato_rl.backend import load_backend
from legato_rl.config import FAKE_URL, DesktopConfig, PolicyConfig, Settings
from legato_rl.errors import ConfigError
from legato_rl.policy.readiness import preflight
from legato_rl.run.alone import carry_out
from legato_rl.run.connect import collect_at
from legato_rl.run.fake_policy import fake_policy
from legato_rl.run.hold import held
from legato_rl.run.prepare import check_backend, claim_folder, release_folder, sockets_folder, write_run
from legato_rl.run.space import check_space
from legato_rl.rundir import RunDir, RunFile
from legato_rl.tasks import resolve_tasks, task_list
from legato_rl.wire import RunStatus


def collect(
    tasks: str | Path | Iterable[dict[str, Any]],
    policy: PolicyConfig | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    connect: str | Path | None = None,
    name: str = "",
    priority: int = 0,
    desktop: DesktopConfig | None = None,
    on_start: Callable[[RunFile], None] | None = None,
    on_status: Callable[[RunStatus], None] | None = None,
    on_group: Callable[[dict[str, Any]], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Run every task's group to its end, write the rollouts below `out`, and return the summary (`summary.json`).

    `tasks` is a path, `-` (stdin), or the entries themselves; `out` a new or empty folder. `settings` are the fields of
    `legato_rl.config.Settings`: desktops=4, group=4, oversample=0.0, max_steps=15, max_inflight=None, rollout_timeout …
    `on_start` hears what was resolved, before any desktop starts; `on_status` where the run stands, about twice a second;
    `on_group` each group as it closes (group, task, rewards, advantages, rollouts …: docs/protocol.md, Event).

    With `connect`, the root of a service (`legato-rl serve`), the batch is a run of that. `settings`, and what is said of
    `policy` (a mapping, or a PolicyConfig of the service's URL), differ from the service's own. `name` is the run's id and
    its folder's name below the service's, `priority` its place among the runs.

    ConfigError (nothing was started) names what is wrong with the input or the server. RunStopped says why the run
    ended early; what is stored is whole, and summed up. KeyboardInterrupt stops the run: tries that only have their
    grading left are graded and stored, no process is left; a second one ends everything at once. Works off the main
    thread, and forks no Python code.
    """
    if connect is not None:
        if out is not None or desktop is not None:
            raise ConfigError("out and desktop are the service's own: leave them out with connect; name names the run's folder")
        return collect_at(
            Path(connect), tasks, policy or {}, settings,
            name=name, priority=priority, on_start=on_start, on_status=on_status, on_group=on_group,
        )  # fmt: skip
    if name or priority:
        raise ConfigError("name and priority are a service's: leave them out, or say with connect which service it is")
    if not isinstance(policy, PolicyConfig) or out is None:
        raise ConfigError("policy and out are missing: a run of its own needs a PolicyConfig and a new or empty folder")
    resolved = Settings(policy=policy, desktop=desktop or DesktopConfig(), **settings)
    return _collect_alone(tasks, resolved, Path(out), on_start, on_status, on_group)


def _collect_alone(
    tasks: str | Path | Iterable[dict[str, Any]],
    resolved: Settings,
    out: Path,
    on_start: Callable[[RunFile], None] | None,
    on_status: Callable[[RunStatus], None] | None,
    on_group: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]:
    """`collect` with processes of its own."""
    specs = resolve_tasks(task_list(tasks), resolved.desktop.osworld_path, resolved.max_steps)
    check_backend(resolved, specs)
    existed = out.exists()
    folder = claim_folder(out)
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder))
            steps = [spec.max_steps for spec in specs]
            check_space(folder, resolved, len(specs) * resolved.attempts, sum(steps) * resolved.attempts)
            bundled = resolved.policy.url == FAKE_URL
            resolved = _with_server(resolved, folder, stack)
            engine = preflight(
                resolved.policy, image_max=min(resolved.image_max, max(steps)), screen_size=resolved.desktop.screen_size
            )
            sockets = sockets_folder()
            stack.callback(shutil.rmtree, sockets, ignore_errors=True)
            run = write_run(folder, resolved, specs, engine, sockets, bundled)
        except BaseException:
            stack.close()
            release_folder(folder, existed)
            raise
        if on_start:
            on_start(run)
        return carry_out(folder, run, resolved.policy, on_status, on_group)


# A user of the protocol finds OSWorld's desktop here. By its name: the kernel imports no process.
collect.OSWorldDesktop = load_backend("osworld")  # type: ignore[attr-defined]


def _with_server(settings: Settings, folder: RunDir, stack: ExitStack) -> Settings:
    """The settings with a real URL: `fake` starts the bundled server for as long as `stack` lasts."""
    policy = settings.policy
    if policy.url != FAKE_URL:
        return settings
    url = stack.enter_context(fake_policy(folder.logs, policy.seed))
    return settings.model_copy(update={"policy": policy.model_copy(update={"url": url})})
