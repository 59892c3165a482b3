"""`legato-rl doctor`: what a run of desktops needs of this machine, as a table with what to do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from legato_rl.backend import BUILT_IN, OSWORLD_BACKENDS
from legato_rl.cli.findings import show
from legato_rl.config import DesktopConfig
from legato_rl.doctor import VM_RUNNER, machine_rows, worker_rows
from legato_rl.errors import ConfigError, ExitCode
from legato_rl.machine import look_at_machine, look_at_vm, look_at_workers
from legato_rl.rundir import TaskSpec
from legato_rl.tasks import find_examples, read_tasks, resolve_tasks

_PATH = click.Path(path_type=Path)


@click.command("doctor", context_settings={"show_default": True})
@click.option("--backend", default="osworld", metavar="NAME", help="osworld, container, fake or package.module:Class.")
@click.option("--osworld", "osworld_path", type=_PATH, metavar="PATH", help="OSWorld checkout.")
@click.option("--osworld-python", type=_PATH, metavar="PATH", help="Interpreter of the workers.  [default: this]")
@click.option("--vm", "--path-to-vm", "path_to_vm", type=_PATH, metavar="FILE", help="The VM's image.")
@click.option("--image", default="legato-desktop:office", metavar="NAME", help="Image of container desktops.")
@click.option("--desktops", type=int, default=4, metavar="N", help="Desktops that are to run at once.")
@click.option("--tasks", metavar="FILE", help="JSON list of tasks; - is stdin.  [default: those of the checkout]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of the table.")
def doctor(
    backend: str,
    osworld_path: Path | None,
    osworld_python: Path | None,
    path_to_vm: Path | None,
    image: str,
    desktops: int,
    tasks: str | None,
    as_json: bool,
) -> None:
    """Look at this machine, OSWorld and the tasks; say what is missing for a run, and what to do.

    Nothing is started or changed. Exit codes: 0 nothing is missing, 1 something is, 2 wrong input.
    """
    if backend not in BUILT_IN and ":" not in backend:
        raise ConfigError(f"backend is {backend!r}: it must be osworld, container, fake or package.module:Class")
    if not 1 <= desktops <= 4096:
        raise ConfigError(f"desktops is {desktops}: it must be from 1 to 4096")
    desktop = DesktopConfig(
        backend=backend, osworld_path=osworld_path, osworld_python=osworld_python, path_to_vm=path_to_vm, image=image
    )
    specs = _tasks(desktop, tasks)
    vm = look_at_vm(path_to_vm) if path_to_vm else None
    machine = look_at_machine((image, VM_RUNNER), kvm=backend == "osworld")
    workers = look_at_workers(desktop, specs)
    rows = [*machine_rows(machine, backend, desktops, image, vm), *worker_rows(workers, backend, len(specs), tasks is not None)]
    ready = all(row.state != "missing" for row in rows)
    if as_json:
        found = {"backend": backend, "desktops": desktops, "ready": ready, "rows": [asdict(row) for row in rows]}
        click.echo(json.dumps(found, indent=2))
    else:
        verdict = (
            "ready; of the model server tells legato-rl probe"
            if ready
            else "not ready: see the rows that say missing, and what to do (->)"
        )
        shown = [(row.name, row.state, row.value, row.remedy) for row in rows]
        show(f"{desktops} desktops of {backend}", shown, verdict)
    if not ready:
        raise click.exceptions.Exit(ExitCode.SHORT)


def _tasks(desktop: DesktopConfig, source: str | None) -> list[TaskSpec]:
    """The tasks that the user named, else all that the checkout has. ConfigError where either cannot be read."""
    checkout = desktop.osworld_path
    if source is not None:
        return resolve_tasks(read_tasks(source), checkout, 1)
    if checkout is None or desktop.backend not in OSWORLD_BACKENDS:
        return []
    paths = sorted(find_examples(checkout).glob("*/*.json"))
    entries = [{"task_id": path.stem, "domain": path.parent.name} for path in paths]
    return resolve_tasks(entries, checkout, 1) if entries else []
