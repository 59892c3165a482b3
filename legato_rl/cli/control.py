"""`legato-rl control`: a service steered from a shell. A command for each ask of `ControlClient`; decides nothing itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
from pydantic import ValidationError

from legato_rl.bad_input import one_sentence
from legato_rl.cli.control_view import command, lines
from legato_rl.cli.options import option_group
from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.control import ControlClient
from legato_rl.errors import ConfigError, NoAnswer, RunStopped
from legato_rl.run.hold import wait_until_down
from legato_rl.run.lost_desktops import desktops_out
from legato_rl.run.stored_runs import stopped
from legato_rl.rundir import RunDir
from legato_rl.service import ServiceDir
from legato_rl.wire import RunStatus

ANSWER_S = 15.0
"""Seconds that a broker has to say where it stands; what it is told it writes down first, on a disk that may stall."""
FOLLOW_S = 5.0
"""Seconds after which `events --follow`, where nothing happens, looks whether the run has stopped."""

at_service = option_group(
    click.argument("where"),
    click.option(
        "--keys",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="With tcp://: the folder of client.secret and server.public (legato-rl keygen).",
    ),
)
of_run = click.option("--run", default="", metavar="ID", help="The run.  [default: the one that was submitted last]")


@contextmanager
def connected(where: str, keys: Path | None) -> Iterator[ControlClient]:
    """A client of the service. NoAnswer where it is not up, ConfigError for what no message can hold."""
    with ControlClient(where, keys) as client:
        client.refuse_down()
        try:
            yield client
        except ValidationError as error:
            raise ConfigError(one_sentence(error)) from None


class InOrder(click.Group):
    """Lists its commands as they stand here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group("control", cls=InOrder)
def control() -> None:
    """Look at a running service, and steer it.

    WHERE is the service's folder (its --dir), or its tcp://HOST:PORT, which needs --keys. Exit codes: 0 it is so, 2 it was
    refused, 3 nobody answered, or not in time, 6 the folder is damaged.
    """


# --- what is told ----------------------------------------------------------------------------------------------------


@control.command("status")
@at_service
@click.option("--run", default="", metavar="ID", help="Tell more of this run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: RunStatus (docs/protocol.md), `resumable` and `out`.")
def status(where: str, keys: Path | None, run: str, as_json: bool) -> None:
    """Show where a service stands.

    Its runs in the order in which they get desktops, those that stopped and may be resumed, its desktops by what they do and
    why one is out, and its policy. Runs that stopped and the reasons are read in the service's folder: not at tcp://.
    """
    with connected(where, keys) as client:
        now = _given(client.status(run, ANSWER_S), where)
    here = None if where.startswith("tcp://") else ServiceDir(Path(where))
    resumable, out = (stopped(here), desktops_out(here)) if here else (None, None)
    if as_json:
        named = None if resumable is None else [{"run": one.run, "reason": one.reason, "at": one.at} for one in resumable]
        click.echo(json.dumps({**now.model_dump(mode="json", exclude={"id"}), "resumable": named, "out": out}, indent=1))
        return
    for line in lines(now, resumable or [], where, keys, of_one=bool(run), out=out):
        click.echo(line)


@control.command("events")
@at_service
@of_run
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only events after number N.")
@click.option("--follow", is_flag=True, help="Go on until the run is over; exit code 3 where it stopped early.")
def events(where: str, keys: Path | None, run: str, after: int, follow: bool) -> None:
    """Print what happened in a run, as JSON lines.

    Each has `run`, the event's number `n`, its `kind` and its `data` (docs/protocol.md).
    """
    from legato_rl.run.follow import OVER

    with connected(where, keys) as client:
        while True:
            told = client.events(after, FOLLOW_S if follow else 0.0, run)
            # Whichever run is submitted meanwhile, it stays with this one.
            run = told.run
            for event in told.events:
                click.echo(json.dumps({"run": run, **event.model_dump(mode="json")}))
                after = event.n
            if after < told.last:
                continue
            if not follow:
                return
            now = _given(client.status(run, ANSWER_S), where)
            if now.state in OVER and now.events <= after:
                break
    if now.state == "stopped":
        raise RunStopped(f"the run {run} stopped early: {now.reason}")


def _given(now: RunStatus | None, where: str) -> RunStatus:
    if now is None:
        keys = ", and are the keys its own?" if where.startswith("tcp://") else "?"
        raise NoAnswer(f"nobody answered at {where} within {ANSWER_S:g} s: is the service up{keys}")
    return now


# --- runs ------------------------------------------------------------------------------------------------------------


@control.command("stop")
@at_service
@click.argument("run")
@click.option("--reason", default="asked for by legato-rl control", metavar="TEXT", help="Why; the run's end.json has it.")
def stop(where: str, keys: Path | None, run: str, reason: str) -> None:
    """Stop RUN, resumable ("*": every run).

    What is being graded is finished, 30 s at most.
    """
    with connected(where, keys) as client:
        now = _given(client.stop(reason, run, ANSWER_S), where)
    click.echo("every run is stopping" if run == "*" else f"{run} is {now.state}")


@control.command("resume-run")
@at_service
@click.argument("run")
@click.option("--retry-errors", is_flag=True, help="Try attempts again that desktops made errors.")
def resume_run(where: str, keys: Path | None, run: str, retry_errors: bool) -> None:
    """Have RUN, which stopped early, go on."""
    with connected(where, keys) as client:
        folder = client.resume_run(run, retry_errors)
    click.echo(f"{run} goes on in {folder}")


@control.command("cancel")
@at_service
@of_run
@click.option("--group", default="", metavar="ID", help="Only attempts of this group.")
@click.option("--task", default="", metavar="ID", help="Only attempts of this task's groups.")
@click.option("--attempt", type=click.IntRange(min=0), metavar="N", help="Only this attempt of --group.")
def cancel(where: str, keys: Path | None, run: str, group: str, task: str, attempt: int | None) -> None:
    """End attempts for good: they are not resumed.

    With --run alone all of the run's; with more, those to which all of it applies.
    """
    if not (run or group or task):
        raise ConfigError("run, group and task are all missing: name what to cancel")
    if attempt is not None and not group:
        raise ConfigError("group is missing: an attempt is one of a group, so name that too")
    with connected(where, keys) as client:
        client.cancel(run, group, task, attempt)
    click.echo("cancelled")


# --- the policy ------------------------------------------------------------------------------------------------------


@control.command("pause")
@at_service
@click.option(
    "--mode", type=click.Choice(["abort", "wait"]), default="abort", show_default=True, help="What becomes of running calls."
)
def pause(where: str, keys: Path | None, mode: Literal["abort", "wait"]) -> None:
    """Let no model call run, and return when none does.

    The weights may be changed then. abort ends the calls that are running; they are asked again later, and count nowhere.
    wait lets them end.
    """
    with connected(where, keys) as client:
        client.pause(mode)
    click.echo(f"paused: no model call is running; go on with: {command('resume', where, keys)}")


@control.command("resume")
@at_service
def resume(where: str, keys: Path | None) -> None:
    """Go on after a pause or a drain."""
    with connected(where, keys) as client:
        client.resume()
    click.echo("resumed")


@control.command("set-policy")
@at_service
@click.option("--model", default="", metavar="NAME", help="The model's name at the server.  [default: as it is]")
@click.option("--version", default="", metavar="V", help="The version to stamp.  [default: as it is]")
@click.option("--url", default="", metavar="URL", help="The server, of an origin that serve allows.  [default: as it is]")
@click.option("--run", default="*", metavar="ID", show_default=True, help="The run; * is every run, later ones too.")
@click.option(
    "--when",
    type=click.Choice(["paused", "new"]),
    default="paused",
    show_default=True,
    help="new: for tries that begin from now on.",
)
def set_policy(
    where: str, keys: Path | None, model: str, version: str, url: str, run: str, when: Literal["paused", "new"]
) -> None:
    """Say which policy is in force from now on.

    Without --when new the service must be paused.
    """
    with connected(where, keys) as client:
        client.set_policy(model, version, url, run, when)
    click.echo("the policy is set")


@control.command("set-max-inflight")
@at_service
@click.argument("calls", metavar="N|none")
def set_max_inflight(where: str, keys: Path | None, calls: str) -> None:
    """Bound the model calls that run at once.

    none: as many as there are desktops.
    """
    if calls != "none" and not (calls.isascii() and calls.isdigit()):
        raise ConfigError(f"max-inflight is {calls!r}: it must be a whole number of at least 1, or none")
    with connected(where, keys) as client:
        client.set_max_inflight(None if calls == "none" else int(calls))
    click.echo(f"model calls at once: {'as many as there are desktops' if calls == 'none' else calls}")


# --- the service -----------------------------------------------------------------------------------------------------


@control.command("drain")
@at_service
def drain(where: str, keys: Path | None) -> None:
    """Begin no further try; let those in progress end."""
    with connected(where, keys) as client:
        client.drain()
    click.echo(f"draining: no further try is begun; go on with: {command('resume', where, keys)}")


@control.command("add-desktops")
@at_service
@click.argument("count", type=click.IntRange(min=1), metavar="N")
def add_desktops(where: str, keys: Path | None, count: int) -> None:
    """Have N more desktops work.

    At most as many work as serve was told by --most-desktops.
    """
    with connected(where, keys) as client:
        client.add_desktops(count)
    click.echo(f"more desktops are to work: {count}")


@control.command("remove-desktops")
@at_service
@click.argument("count", type=click.IntRange(min=1), metavar="N")
def remove_desktops(where: str, keys: Path | None, count: int) -> None:
    """Have N fewer desktops work; each ends its try first."""
    with connected(where, keys) as client:
        client.remove_desktops(count)
    click.echo(f"fewer desktops are to work: {count}")


@control.command("shutdown")
@at_service
def shutdown(where: str, keys: Path | None) -> None:
    """Stop every run, resumable, and end the service.

    Of its folder it returns when the service is down; of tcp:// as soon as it is to end.
    """
    with connected(where, keys) as client:
        client.shutdown()
    click.echo("the service is shutting down: runs that have not ended stop, and may be resumed when it is up again")
    root = Path(where)
    if ServiceDir(root).service_file.exists():
        wait_until_down(RunDir(root), ServiceDir(root).load().sockets, SYSTEM_CLOCK)
        click.echo("it is down")
