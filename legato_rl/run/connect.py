"""What is `collect` at a service, whose processes are not ours? A run begun, followed to its end, and summed up."""

from __future__ import annotations

import logging
import secrets
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK, Clock
from legato_rl.config import PolicyConfig
from legato_rl.control import ControlClient
from legato_rl.errors import ConfigError, LegatoError, NoAnswer, RunStopped
from legato_rl.export.profile import write_summary
from legato_rl.run.alone import STOP_ANSWER_S
from legato_rl.run.audience import Audience
from legato_rl.run.follow import LOOK_S, QUIET_S, follow_run
from legato_rl.run.interrupts import INTERRUPTS
from legato_rl.run.prepare import check_tasks
from legato_rl.rundir import RunDir, RunFile
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.tasks import resolve_tasks, task_list
from legato_rl.up import is_up
from legato_rl.wire import RunStatus

log = logging.getLogger("legato_rl")

CLOSE_S = 60.0
"""Seconds without a word of a service after which it is not waited for to close the folder of a run that has ended."""
TURN_S = 0.1


def collect_at(
    root: Path,
    tasks: Any,
    policy: PolicyConfig | Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    name: str = "",
    priority: int = 0,
    on_start: Callable[[RunFile], None] | None = None,
    on_status: Callable[[RunStatus], None] | None = None,
    on_group: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run the tasks at the service in `root`; the run's summary. Arguments and errors are those of `run.api.collect`.

    ConfigError, at once, where no process of the service is up. KeyboardInterrupt stops this run alone, resumable, and is
    raised again when its folder is closed; a second one leaves at once, and so does the first, within STOP_ANSWER_S, where
    the service does not answer.
    """
    service = find_service(root)
    settings = {**settings, "policy": choose_policy(policy, service)}
    specs = resolve_tasks(
        task_list(tasks), service.settings.desktop.osworld_path, settings.get("max_steps", service.settings.max_steps)
    )
    check_tasks(service.settings.desktop, specs)
    # Drawn here, so that an interrupted question can be taken back.
    name = name or f"run-{secrets.token_hex(4)}"
    folder = ServiceDir(root.resolve()).run(name, service)
    refuse_down(root, service)

    def submit(client: ControlClient) -> None:
        client.submit([spec.model_dump() for spec in specs], settings, name, priority)

    return _carry_out(root, folder, submit, on_start, on_status, on_group)


def resume_at(
    root: Path,
    name: str,
    *,
    retry_errors: bool = False,
    on_start: Callable[[RunFile], None] | None = None,
    on_status: Callable[[RunStatus], None] | None = None,
    on_group: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Follow the run `name` of the service in `root` to its end, from wherever it stands; the run's summary.

    One that had stopped goes on. Of one that has finished only the summary is written anew, which takes no service that
    is up; with `retry_errors` it goes on where there are such errors. Arguments are those of `run.resume.resume`, errors
    those of `collect_at`.
    """
    service = find_service(root)
    folder = ServiceDir(root.resolve()).run(name, service)
    if not folder.run_file.exists():
        raise ConfigError(f"name is {name!r}: the service has no run of that name to resume")
    end = folder.load_end()
    if end is not None and end["state"] == "finished" and not retry_errors:
        return write_summary(folder.root)
    refuse_down(root, service)

    def resume(client: ControlClient) -> None:
        client.resume_run(name, retry_errors)

    return _carry_out(root, folder, resume, on_start, on_status, on_group)


def _carry_out(
    root: Path,
    folder: RunDir,
    begin: Callable[[ControlClient], object],
    on_start: Callable[[RunFile], None] | None,
    on_status: Callable[[RunStatus], None] | None,
    on_group: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]:
    """Have the run in `folder` begun, follow it to its end, and sum it up."""
    name = folder.root.name
    with ControlClient(root) as client:
        audience = Audience(client, on_status, on_group)
        try:
            begin(client)
            if on_start:
                on_start(folder.load_run())
            follow_run(client, name, SYSTEM_CLOCK, audience.hear)
        except KeyboardInterrupt:
            _interrupt(client, name, audience, folder)
            raise
        end = wait_for_end(client, folder, SYSTEM_CLOCK)
        audience.tell_rest(folder)
    summary = write_summary(folder.root)
    if end["state"] == "stopped":
        raise RunStopped(f"the run stopped early: {end['reason']}")
    return summary


def choose_policy(policy: PolicyConfig | Mapping[str, Any], service: ServiceFile) -> dict[str, Any]:
    """What a run says of its policy: a mapping as it is, of a PolicyConfig what was set. ConfigError for another server."""
    if not isinstance(policy, PolicyConfig):
        return dict(policy)
    own = service.settings.policy
    for name in ("url", "server_wait"):
        if name in policy.model_fields_set and getattr(policy, name) != getattr(own, name):
            raise ConfigError(
                f"policy.{name} is {getattr(policy, name)!r}: it is the service's own, {getattr(own, name)!r}; "
                "give policy as a mapping of what differs"
            )
    return policy.model_dump(include=policy.model_fields_set - {"url", "server_wait"})


def find_service(root: Path) -> ServiceFile:
    """The service in `root`. ConfigError where there is none."""
    if str(root).startswith("tcp:"):
        raise ConfigError(
            f"connect is {str(root)!r}: it must be the folder of a service on this machine; one elsewhere takes batches by "
            "ControlClient.submit (docs/protocol.md)"
        )
    if not ServiceDir(root).service_file.exists():
        raise ConfigError(f"connect is {str(root)!r}: there is no service; start one with {_start(root)}")
    return ServiceDir(root).load()


def refuse_down(root: Path, service: ServiceFile) -> None:
    """ConfigError where no process of the service in `root` is up on this machine."""
    if not is_up(service.sockets):
        raise ConfigError(
            f"connect is {str(root)!r}: no process of its service is up; start it with {_start(root)}, "
            "or the supervisord that runs it"
        )


def _start(root: Path) -> str:
    return f"legato-rl serve --dir {shlex.quote(str(root))}"


def _interrupt(client: ControlClient, name: str, audience: Audience, folder: RunDir) -> None:
    """Ctrl-C: have the run stopped, and wait until it is. The second one is raised."""
    try:
        if client.stop("interrupted", name, STOP_ANSWER_S) is None:
            log.error("the service does not answer, so %s was not stopped: a run that was begun goes on when it does", name)
            return
        follow_run(client, name, SYSTEM_CLOCK, audience.hear, stop="interrupted")
        wait_for_end(client, folder, SYSTEM_CLOCK)
        write_summary(folder.root)
    except (LegatoError, OSError) as error:
        log.error("%s", error)


def wait_for_end(client: ControlClient, folder: RunDir, clock: Clock) -> dict[str, Any]:
    """Until the service has closed the folder of a run that is over: every line is in it then. What `end.json` says.

    A desktop whose last call takes long may still store a row, so the service closes nothing before that has ended: it is
    waited for, as long as the service answers, and that is told once. NoAnswer after CLOSE_S seconds without an answer.
    """
    began = heard = clock.monotonic()
    seen, told = INTERRUPTS.count, False
    while (end := folder.load_end()) is None:
        INTERRUPTS.check(seen)
        status = client.status(folder.root.name, LOOK_S)
        now = clock.monotonic()
        if status is not None:
            heard = now
            if now - began > QUIET_S and not told:
                why = status.sink_message or "a desktop has not ended what it does, and may store a row"
                log.warning(
                    "%s is over, but its folder is not closed yet (%s): it is waited for; Ctrl-C leaves", status.run, why
                )
                told = True
        elif now - heard > CLOSE_S:
            raise NoAnswer(
                f"the service has not answered for {CLOSE_S:.0f} s, and did not close {folder.root}: see its broker.log and "
                "sink.log"
            )
        clock.sleep(TURN_S)
    return end
