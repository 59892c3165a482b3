"""What is `serve`? A service's processes under a supervisord of its own, or the configuration for an operator's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.config import FAKE_URL, Settings
from legato_rl.control import ControlClient
from legato_rl.errors import ConfigError, ControlError, RunStopped
from legato_rl.policy.readiness import preflight
from legato_rl.run.alone import STOP_ANSWER_S
from legato_rl.run.asked_since import forget_what_is_gone, in_force
from legato_rl.run.audience import Audience
from legato_rl.run.fake_policy import fake_policy
from legato_rl.run.follow import Hear, follow_service
from legato_rl.run.prepare import check_backend
from legato_rl.run.prepare_service import Terms, check_control, claimed, describe, layout, refuse_running
from legato_rl.run.processes import Supervisor, end
from legato_rl.service import ServiceDir, ServiceFile
from legato_rl.sockets import private_folder
from legato_rl.supervisord import render, render_include
from legato_rl.wire import RunStatus

log = logging.getLogger("legato_rl")

END_S = 90.0
"""Seconds that a service may take to end: every run's grace for what is being graded, closing the folders, and some more."""


def serve(
    root: Path,
    settings: Settings,
    terms: Terms,
    on_start: Callable[[ServiceDir, ServiceFile], None] | None = None,
    on_status: Callable[[RunStatus], None] | None = None,
) -> None:
    """Run a service in `root` until it is shut down; `settings` are what a run gets that says nothing else.

    `on_start` gets its folder, and the service as it now is: with the desktops and the policy that trainers have asked for
    since it was made. ConfigError (nothing was started) names what is wrong with the input or the server, or differs from
    what the service in `root` was made with, or says that it runs. RunStopped says why it cannot go on. KeyboardInterrupt
    shuts it down: runs stop, resumable; a second one ends everything at once, and runs that are cut go on when it is started
    again.
    """
    with _prepared(root, settings, terms, start=True) as (folder, service):
        refuse_running(folder, service)
        private_folder(service.sockets)
        folder.supervisord_conf.write_text(render(layout(folder, settings), service.sockets, service.most_desktops))
        folder.write(service)
        if on_start:
            on_start(folder, service.model_copy(update={"settings": in_force(folder, service.settings, service.origins)}))
        supervisor = Supervisor(folder.supervisord_conf, service.sockets, folder.logs, SYSTEM_CLOCK)
        with ControlClient(folder.root) as client:
            hear = Audience(client, on_status).hear
            try:
                supervisor.start(settings.policy.key())
                follow_service(supervisor, client, folder.logs, SYSTEM_CLOCK, hear)
            except KeyboardInterrupt:
                _shut_down(supervisor, client, folder, hear)
                raise
            finally:
                end(supervisor)


def configuration(root: Path, settings: Settings, terms: Terms) -> str:
    """What an operator's supervisord includes to run the service in `root`. Starts nothing, and writes `service.json`."""
    if settings.policy.url == FAKE_URL:
        raise ConfigError(f"policy-url is {FAKE_URL!r}: start `legato-rl fake-policy`, which stays up, and give its URL")
    with _prepared(root, settings, terms) as (folder, service):
        text = render_include(layout(folder, settings), service.most_desktops)
        folder.write(service)
        return text


@contextmanager
def _prepared(root: Path, settings: Settings, terms: Terms, start: bool = False) -> Iterator[tuple[ServiceDir, ServiceFile]]:
    """The root, this command's alone meanwhile, and its service, checked; the bundled server runs meanwhile.

    `start`: its processes are about to be started here.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(claimed(root))
        made = folder.load() if folder.service_file.exists() else None
        bundled = settings.policy.url == FAKE_URL
        terms.check(made.settings if made else settings)
        if made:
            # What differs is told before anything is asked or touched.
            describe(folder, settings, terms, {}, bundled)
        if made and start:
            refuse_running(folder, made)
            forget_what_is_gone(folder, made)
        if start:
            check_control(terms)
        check_backend(settings, [], start)
        if bundled:
            url = stack.enter_context(fake_policy(folder.logs, settings.policy.seed))
            settings = settings.model_copy(update={"policy": settings.policy.model_copy(update={"url": url})})
        yield folder, describe(folder, settings, terms, _ask_server(folder, settings, terms), bundled)


def _ask_server(folder: ServiceDir, settings: Settings, terms: Terms) -> dict[str, Any]:
    """What the pre-flight finds at the server that is in force, which is not that of `settings` after a set_policy."""
    now = in_force(folder, settings, terms.allowed(settings)).policy
    try:
        return preflight(now, image_max=settings.image_max, screen_size=settings.desktop.screen_size)
    except ConfigError as error:
        if (now.url, now.model) == (settings.policy.url, settings.policy.model):
            raise
        raise ConfigError(
            f"{error}; set_policy chose model {now.model!r} there, so have it answer, or take `url` and `default` out of "
            f"{folder.state}"
        ) from None


def _shut_down(supervisor: Supervisor, client: ControlClient, folder: ServiceDir, hear: Hear) -> None:
    """The first Ctrl-C: every run stops, and the service ends. A second one kills it."""
    try:
        client.shutdown(STOP_ANSWER_S)
        follow_service(supervisor, client, folder.logs, SYSTEM_CLOCK, hear, END_S)
    except (ControlError, RunStopped) as error:
        log.error("%s", error)
    except KeyboardInterrupt:
        supervisor.kill()
